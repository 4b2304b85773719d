"""What a table of images does not show, or shows against the paper, said from its own numbers."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from diglm.experiments.frame.page import Results

RULES = {"minimum": "the paper's rule", "conformal": "ours"}


def reservations(results: Results, name: str, strange: str) -> str:
    """Uneven rows, how many strange images are refused, and where more density did not help.

    In the paper the more weight the density has, the less sure are answers to strange images, and
    the lower is their NLL, of all models that have one.
    """
    by_weight: dict[float, list[Mapping[str, Any]]] = {}
    epochs = set()
    for one in results.of(name).values():
        if one.metrics is not None:
            by_weight.setdefault(one.run.config["weight"], []).append(one.metrics)
            epochs.add((one.stored or {})["config"]["n_epochs"])
    if not by_weight:
        return "*Nothing of this table has been run.*"
    said = []
    if len(epochs) > 1:
        several = ", ".join(map(str, sorted(epochs)))
        said.append(
            f"Rows were trained for different numbers of epochs ({several}), so that they do not "
            "show what λ trades for what."
        )
    weights = sorted(by_weight)

    def mean(weight: float, *place: str) -> float:
        return statistics.fmean(_at(one["strange"][strange], place) for one in by_weight[weight])

    shares = "; ".join(
        f"under {rule} "
        + ", ".join(f"{mean(w, 'refused', key):.1%} at {_lambda(w)}" for w in weights)
        for key, rule in RULES.items()
    )
    said.append(f"Of {strange} are refused, {shares}.")
    if weights[0] == 0.0:
        for key, worse, what in (("entropy", -1, "surer than"), ("nll", 1, "worse in NLL than")):
            least = mean(0.0, key, "minimum")
            contrary = [w for w in weights[1:] if worse * (mean(w, key, "minimum") - least) > 0]
            if contrary:
                where = ", ".join(
                    f"{mean(w, key, 'minimum'):.2f} at {_lambda(w)}" for w in contrary
                )
                said.append(
                    f"Against the paper, answers to {strange} under its rule are {what} those of "
                    f"the model without a density ({least:.2f}): {where}."
                )
    return " ".join(said)


def _at(numbers: Mapping[str, Any], place: Sequence[str]) -> float:
    for key in place:
        numbers = numbers[key]
    return float(numbers)  # type: ignore[arg-type]


def _lambda(weight: float) -> str:
    return f"{weight:g}/D" if weight else "0"
