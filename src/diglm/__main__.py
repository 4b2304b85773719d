"""`python -m diglm` is the command `diglm`."""

from diglm.cli.app import main

if __name__ == "__main__":
    main()
