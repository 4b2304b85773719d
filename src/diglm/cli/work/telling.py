"""What `train` tells a person: how the classes are shared out, and how good the model is."""

import math

import numpy as np

from diglm.cli.terminal import Talk
from diglm.cli.work.data import listed
from diglm.cli.work.looking import balance
from diglm.report.measures import Measures, worded


def tell_balance(target: np.ndarray, talk: Talk) -> None:
    """The shares of the commonest classes, and what is short."""
    classes = balance(target)
    shown = [f"{name} {share:.1%}" for name, _, share in classes[:10]]
    talk.say(f"  classes: {listed(shown)}" + (" ..." if len(classes) > 10 else ""))
    if classes[-1][1] < 10:
        talk.warn(f"class {classes[-1][0]!r} has {classes[-1][1]} rows; few to learn from.")
    if missing := len(target) - sum(count for _, count, _ in classes):
        talk.say(f"  {missing:,} rows have no label; p(x) is learned from them all the same.")


def tell_scores(scores: Measures, talk: Talk) -> None:
    """The scores of the rows that were held out, and a word where they are no better than none."""
    if not scores:
        talk.warn("no rows were held out, so there are no scores; see diglm evaluate.")
        return
    talk.table(f"On {scores['rows']:,} rows that were held out", list(worded(scores).items())[1:])
    if scores.get("accuracy", 1) <= scores.get("baseline_accuracy", 0):
        talk.warn("the model is right no more often than always saying the commonest class.")
    if scores.get("rmse", 0) >= scores.get("baseline_rmse", math.inf):
        talk.warn(
            "its predictions err as much as always saying the mean: what it knows of this target "
            "is how it is spread, not where it lies."
        )
