"""What would have to change? The nearest features with another answer, mapped back to a row."""

import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from diglm.data.encoder import Container, Encoded
from diglm.parameters import Real, check_real
from diglm.predictor.predictor import Predictor
from diglm.targets.base import Column, one_a_row


class MissedTargetWarning(UserWarning):
    """Some counterfactuals do not reach what was asked for."""


@dataclass(frozen=True)
class Counterfactual:
    """Rows that would be answered as asked, nearest to the given ones in feature space.

    Attributes:
        x: the changed rows, in the container and units of the training table.
        z: their features.
        log_px: exact log p(x) of the changed rows.
        rejected: whether a changed row would itself be refused; then it is no honest advice.
        prediction: what the model predicts for the changed rows.
        reached: whether that is what was asked for; rounding to whole numbers or categories may
            undo a change.
        distance: how far the features moved; zero where the answer was the one asked for already.
    """

    x: Container
    z: Float[np.ndarray, "rows dim"]
    log_px: Float[np.ndarray, " rows"]
    rejected: Bool[np.ndarray, " rows"]
    prediction: np.ndarray
    reached: Bool[np.ndarray, " rows"]
    distance: Float[np.ndarray, " rows"]


def counterfactual(
    predictor: Predictor, encoded: Encoded, target: object, *, margin: float = 1.0
) -> Counterfactual:
    """The nearest rows, in feature space, that are answered with `target`, one value or one a row.

    Where rounding to whole numbers or categories undoes the change the margin is doubled, up to six
    times; what is missed even so is told by a warning and by `reached`.
    """
    check_real("margin", margin, Real(0.0))
    wanted = one_a_row(target, len(encoded), "target")
    before = predictor.features(encoded).astype(float)
    margins = np.full(len(before), float(margin))
    for _ in range(predictor.target.retries):
        zs = predictor.target.nearest(predictor.model.head, before, wanted, margins)
        found = _evaluated(predictor, before, zs, wanted)
        if np.all(found.reached):
            return found
        margins = np.where(found.reached, margins, 2 * np.maximum(margins, 1e-3))
    missed = np.flatnonzero(~found.reached)
    warnings.warn(
        f"{len(missed)} of {len(before)} rows do not reach their target, such as row {missed[0]}: "
        f"{found.prediction[missed[0]]!r} instead of {wanted[missed[0]]!r}. Rounding to whole "
        "numbers or categories, or a missing value, stands in the way; `.reached` tells which.",
        MissedTargetWarning,
        stacklevel=3,
    )
    return found


def _evaluated(
    predictor: Predictor, before: np.ndarray, zs: np.ndarray, wanted: Column
) -> Counterfactual:
    """The rows at features `zs`, evaluated afresh as what they became after rounding."""
    x = predictor.invert(zs)
    known = predictor.known(predictor.encode(x))
    prediction = predictor.target.columns(known.response)["prediction"]
    return Counterfactual(
        x=x,
        z=known.z,
        log_px=known.log_px,
        rejected=predictor.refusal.rejects(known),
        prediction=prediction,
        reached=predictor.target.reached(prediction, wanted),
        distance=np.linalg.norm(known.z - before, axis=1),
    )
