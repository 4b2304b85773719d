"""MODEL of a command: a file, or a shipped one by its name."""

from pathlib import Path

from diglm.cli.errors import CommandError
from diglm.cli.work.data import close_to
from diglm.compiling import use_cache
from diglm.estimators import SHIPPED, Estimator, load

DATA_LIKE = (".csv", ".tsv", ".parquet", ".arrow", ".npz", ".feather")


def open_model(given: str) -> Estimator:
    """The fitted estimator, or an error that says what the file is instead."""
    use_cache()
    path = Path(given)
    if path.is_dir():
        raise CommandError(f"{given} is a folder, not a model.", "name the file that train wrote.")
    if path.suffix.lower() in DATA_LIKE:
        raise CommandError(
            f"{given} holds data; a model was expected there.",
            "the model comes first, then the data.",
        )
    try:
        return load(given)
    except FileNotFoundError as error:
        there = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        shipped = sorted(file.stem for file in SHIPPED.glob("*.safetensors"))
        raise CommandError(
            f"there is no model {given}.",
            close_to(path.name, [*there, *shipped])
            or f"train one, or use a shipped one: {', '.join(shipped)}.",
        ) from error
    except PermissionError as error:
        raise CommandError(f"{given} may not be read.", "ask for permission to read it.") from error
    except ValueError as error:
        raise CommandError(
            str(error).rstrip("."), "a model is a file that diglm train or save() wrote."
        ) from error
