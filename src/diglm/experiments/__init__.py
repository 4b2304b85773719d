"""One file per experiment: settings, what it shows, the command to run it, then `run`."""
