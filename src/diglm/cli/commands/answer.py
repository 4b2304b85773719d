"""`diglm predict`, `sample` and `explain`: what they take."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diglm.cli.config import Config
from diglm.cli.later import later
from diglm.cli.options import Data, Json, Model, Out, Quiet, Seed
from diglm.cli.terminal import Talk

if TYPE_CHECKING:
    from diglm.cli.work import answering
else:
    answering = later("diglm.cli.work.answering")

Keep = Annotated[list[str] | None, typer.Option(help="A column to copy through, such as a key.")]


def predict(
    model: Model,
    data: Data,
    out: Out = None,
    keep: Keep = None,
    json: Json = False,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Answer every row: prediction, how sure it is, how strange the row is, refused or not."""
    answering.predict(model, data, out, tuple(keep or ()), as_json=json, talk=Talk(quiet))


def sample(
    model: Model,
    n: Annotated[int, typer.Option("-n", help="How many rows.")] = 10,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write; images go to .npz."),
    ] = None,
    given: Annotated[
        str | None, typer.Option(help="A class or a number: rows that have it as their target.")
    ] = None,
    temperature: Annotated[float, typer.Option(help="Below 1, rows are more typical.")] = 1.0,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Draw new rows like those of training."""
    answering.sample(model, n, out, given, temperature, seed, as_json=json, talk=Talk(quiet))


def explain(
    model: Model,
    data: Data,
    out: Out = None,
    rows: Annotated[int, typer.Option(help="At most so many rows.")] = 1000,
    json: Json = False,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Say, row by row, which columns made it strange and which made its prediction."""
    answering.explain(model, data, out, rows, as_json=json, talk=Talk(quiet))
