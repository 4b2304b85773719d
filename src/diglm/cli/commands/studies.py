"""`diglm demo`, `reproduce` and `data`: what they take."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diglm.cli.later import later
from diglm.cli.options import Json

if TYPE_CHECKING:
    from diglm.cli.work import studies
else:
    studies = later("diglm.cli.work.studies")

data = typer.Typer(help="Data of the studies: what there is, and where.", no_args_is_help=True)
DataFolder = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder to look in; else DIGLM_DATA, the cache.")
]


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the page.")] = Path("demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A tiny model, to see that it runs.")
    ] = False,
) -> None:
    """Learn handwritten digits, meet things that are not digits, write a page about it."""
    studies.demo(out, quick)


def reproduce(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A study, or `all`; `list` prints them.")
    ],
    budget: Annotated[
        str, typer.Option("--budget", help="`small`: minutes, in a folder of its own; or `full`.")
    ] = "full",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of results, and of figures in it.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Run also what is there already, from the start.")
    ] = False,
    folder: DataFolder = None,
) -> None:
    """Run a study of the paper or of the README, or all of them.

    A run whose result is there, of this code and these settings, is passed over; one that was
    killed goes on. Settings of a study may follow: diglm reproduce mnist --weights 1 0.01.
    """
    studies.reproduce(name, context.args, budget=budget, out=out, data_dir=folder, again=again)


@data.command("list")
def list_data(folder: DataFolder = None, json: Json = False) -> None:
    """Print the data sets of the studies, and where each is found."""
    studies.list_data(folder, as_json=json)


@data.command("fetch")
def fetch_data(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A data set; see diglm data list.")],
    folder: DataFolder = None,
) -> None:
    """Find or download a data set, check it, and print the paths of its files."""
    studies.fetch_data(name, folder)
