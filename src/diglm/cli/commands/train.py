"""`diglm train`: what it takes."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diglm.cli.config import Config, parameters_of
from diglm.cli.errors import CommandError
from diglm.cli.later import later
from diglm.cli.options import Data, Json, Quiet, Seed
from diglm.cli.terminal import Talk

if TYPE_CHECKING:
    from diglm.cli.work import training
else:
    training = later("diglm.cli.work.training")


def train(
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")],
    target: Annotated[
        str | None,
        typer.Option(help="The column to predict; without it, learn what rows look like."),
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option(help="classes, numbers or density; by default told by the target."),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out.")] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column to learn from though it looks useless.")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="A column of row weights.")] = None,
    test_share: Annotated[
        float, typer.Option(help="Share of rows held out for the scores at the end.")
    ] = 0.2,
    flow: Annotated[
        str | None, typer.Option(help="The kind of network: coupling, spline...")
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="p(y|x): student_t, poisson, bayesian...")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the rows, at most.")] = None,
    reject: Annotated[
        float | None, typer.Option(help="Share of familiar rows that may be refused (0.01).")
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter of the estimator."),
    ] = None,
    seed: Seed = 0,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin anew where an unfinished run is kept.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Learn from a table or from images, and keep the model.

    The kind of problem is told by the target: text and codes are classes, numbers are numbers.
    Some rows are held out and give the scores at the end. Ctrl-C keeps the run; the same command
    goes on with it.
    """
    if problem not in (None, "classes", "numbers", "density"):
        raise CommandError(
            f"--problem must be classes, numbers or density; got {problem!r}.",
            "leave it out to have it told by the target.",
        )
    named = {"flow": flow, "head": head, "n_epochs": epochs, "reject": reject}
    given = parameters_of(parameters) | {k: v for k, v in named.items() if v is not None}
    asked = training.Asked(
        data=data,
        out=out,
        target=target,
        problem=problem,
        drop=tuple(drop or ()),
        keep=tuple(keep or ()),
        weight=weight,
        test_share=test_share,
        seed=seed,
        parameters=given,
    )
    words = shlex.join(["diglm", *sys.argv[1:]])
    training.train(asked, command=words, restart=restart, as_json=json, talk=Talk(quiet))
