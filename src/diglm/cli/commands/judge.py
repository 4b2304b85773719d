"""`diglm evaluate`, `report` and `drift`: what they take."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diglm.cli.config import Config
from diglm.cli.later import later
from diglm.cli.options import Data, Json, Model, Quiet, Seed, Target
from diglm.cli.terminal import Talk

if TYPE_CHECKING:
    from diglm.cli.work import judging
else:
    judging = later("diglm.cli.work.judging")


def evaluate(
    model: Model,
    data: Data,
    target: Target = None,
    json: Json = False,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Score a model on rows whose truth is known.

    Given the very rows of training, it is judged by those that were held out.
    """
    judging.evaluate(model, data, target, as_json=json, talk=Talk(quiet))


def report(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")],
    target: Target = None,
    against: Annotated[
        str | None, typer.Option(help="More rows, such as last month's: have the inputs moved?")
    ] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Write one HTML page about a model: its data, errors, refusals and imaginings."""
    words = shlex.join(["diglm", *sys.argv[1:]])
    judging.report(model, data, out, target, against, words, seed=seed, talk=Talk(quiet))


def drift(
    model: Model,
    data: Data,
    reference: Annotated[
        str | None, typer.Option(help="Rows to compare with; else those held out in training.")
    ] = None,
    target: Target = None,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Rows are in order of time: say when they moved.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Say whether new rows are still like those of training; exit code 1 where they are not."""
    talk = Talk(quiet)
    code = judging.drift(model, data, reference, target, in_order=in_order, as_json=json, talk=talk)
    raise typer.Exit(code)
