"""The command `diglm`: its commands by name, and how each run of it begins and ends."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from diglm.__about__ import __version__
from diglm.cli.commands.about import doctor, info
from diglm.cli.commands.answer import explain, predict, sample
from diglm.cli.commands.judge import drift, evaluate, report
from diglm.cli.commands.service import serve
from diglm.cli.commands.studies import data, demo, reproduce
from diglm.cli.commands.train import train
from diglm.cli.errors import told
from diglm.cli.terminal import Talk

app = typer.Typer(
    name="diglm",
    help="A predictor that knows when not to predict: learn from a table or from images, and ask.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"diglm {__version__}")
        raise typer.Exit


@app.callback()
def diglm(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="And exit.")
    ] = False,
) -> None:
    """A predictor that knows when not to predict."""


for command in (train, predict, evaluate, report, sample, explain, drift, serve, demo):
    app.command()(command)
# What follows the name of a study is the study's own to read.
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
app.command(context_settings=PASSED_ON)(reproduce)
app.add_typer(data, name="data")
for command in (info, doctor):
    app.command()(command)


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its code."""
    words = sys.argv[1:] if arguments is None else arguments
    known = {one.callback.__name__ for one in app.registered_commands if one.callback} | {"data"}
    command = " ".join(["diglm", *(word for word in words[:1] if word in known)])
    quiet = not {"-q", "--quiet"}.isdisjoint(words)
    with told(command), _warnings_told(quiet):
        code = app(words, standalone_mode=False, prog_name="diglm")
    sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _warnings_told(quiet: bool) -> Iterator[None]:
    """Warnings of the library become lines on stderr; those for programmers are passed over."""
    talk = Talk(quiet)

    def show(message: Warning | str, *_: object, **__: object) -> None:
        talk.warn(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("once", UserWarning)
        warnings.showwarning = show
        yield
