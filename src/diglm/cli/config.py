"""A TOML file in the place of flags: `--config run.toml`. Flags win where both say something."""

import ast
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from diglm.cli.errors import CommandError

PARAMETERS = "parameters"  # the table of a file that holds parameters of the estimator


def _read(context: typer.Context, path: Path | None) -> Path | None:
    """Make the content of the file the defaults of the command."""
    if path is None:
        return None
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}.", "--config names a TOML file.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(
            f"{path} is not TOML: {error}.", 'lines look like: target = "species"'
        ) from error
    known = {p.name for p in context.command.params if p.name not in ("config", "help")}
    given = {name.replace("-", "_"): value for name, value in content.items()}
    if unknown := sorted(set(given) - known):
        raise CommandError(
            f"{path} sets {unknown[0]!r}, which {context.info_name} does not take.",
            f"it takes {', '.join(sorted(name for name in known if name))}.",
        )
    if isinstance(table := given.get(PARAMETERS), dict):
        given[PARAMETERS] = [f"{name}={value!r}" for name, value in table.items()]
    context.default_map = {**(context.default_map or {}), **given}
    return path


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="A TOML file with any of these options; flags win.",
        is_eager=True,
        callback=_read,
    ),
]


def parameters_of(words: Sequence[str] | None) -> dict[str, Any]:
    """`NAME=VALUE` as a dictionary; values are numbers, true, false, none, lists or text."""
    found: dict[str, Any] = {}
    for word in words or ():
        name, sign, value = word.partition("=")
        if not sign or not name.strip():
            raise CommandError(f"--set {word} has no value.", "write it as --set n_blocks=4")
        plain = {"true": True, "false": False, "none": None}.get(value.strip().lower(), value)
        try:
            found[name.strip()] = ast.literal_eval(plain) if isinstance(plain, str) else plain
        except (ValueError, SyntaxError):
            found[name.strip()] = value.strip()
    return found
