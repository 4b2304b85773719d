"""`diglm serve`: what it takes."""

import importlib
import os
from pathlib import Path
from typing import Annotated

import typer

from diglm.cli.config import Config
from diglm.cli.errors import CommandError

TOKEN = "DIGLM_TOKEN"


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="Model files; NAME=FILE names one, else its file name does."
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            help=f"Bearer token that requests must carry; better in the variable {TOKEN}, "
            "where other people of this machine do not see it."
        ),
    ] = None,
    allow_public: Annotated[
        bool,
        typer.Option("--allow-public", help="Listen beyond this machine without a token."),
    ] = False,
    config: Config = None,
) -> None:
    """Serve models over HTTP, with a page to try them at /."""
    named = _named(models)
    try:
        app = importlib.import_module("diglm.serve.app")
    except ImportError as error:
        raise CommandError(
            f"serving needs packages that are not installed ({error.name or error}).",
            "pip install 'diglm[serve]'",
        ) from error
    app.serve(named, host, port, token or os.environ.get(TOKEN), allow_public)


def _named(given: list[str]) -> dict[str, Path]:
    """Models by name, each of which is a file."""
    found: dict[str, Path] = {}
    for word in given:
        name, sign, path = word.partition("=")
        file = Path(path if sign else word)
        name = name if sign else file.stem
        if not file.exists() and not sign and len(file.parts) == 1:
            shipped = Path(__file__).parents[2] / "models" / f"{word}.safetensors"
            file = shipped if shipped.exists() else file
        if not file.is_file():
            raise CommandError(
                f"there is no model file {file}.", "name files that diglm train wrote, or mnist."
            )
        if name in found:
            raise CommandError(
                f"two models are called {name!r}.", "name one otherwise: other=file.diglm"
            )
        found[name] = file
    return found
