"""`diglm serve`: what it takes."""

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diglm.cli.config import Config
from diglm.cli.errors import CommandError
from diglm.cli.later import later

if TYPE_CHECKING:
    from diglm import compiling
else:
    compiling = later("diglm.compiling")

TOKEN = "DIGLM_TOKEN"


def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL...", help="Model files; NAME=FILE names one, else its file name does."
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="A folder of model files to serve, also those that come later."),
    ] = None,
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
    proxy_name: Annotated[
        list[str] | None,
        typer.Option(help="Another name that clients ask for, such as that of a proxy."),
    ] = None,
    config: Config = None,
) -> None:
    """Serve models over HTTP, with a page to try them at /."""
    named = _named(models or [])
    if folder is not None and not folder.is_dir():
        raise CommandError(f"there is no folder {folder}.", "make it, or name model files.")
    if not named and folder is None:
        raise CommandError(
            "there is nothing to serve.", "name a model file, or --folder FOLDER of them."
        )
    try:
        app = importlib.import_module("diglm.serve.app")
    except ImportError as error:
        raise CommandError(
            f"serving needs packages that are not installed ({error.name or error}).",
            "pip install 'diglm[serve]'",
        ) from error
    compiling.use_cache()
    app.serve(
        named,
        host,
        port,
        token or os.environ.get(TOKEN),
        allow_public,
        folder=folder,
        hosts=tuple(proxy_name or ()),
    )


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
