"""The nearest features at which a linear head answers otherwise."""

import numpy as np
from jaxtyping import Float
from scipy.optimize import nnls


def nearest_at_predictor(
    z: Float[np.ndarray, "rows dim"],
    weight: Float[np.ndarray, " dim"],
    eta: Float[np.ndarray, " rows"],
    wanted: Float[np.ndarray, " rows"],
) -> Float[np.ndarray, "rows dim"]:
    r"""$z' = z + (\eta^* - \eta)\, b / |b|^2$: the nearest z with linear predictor $\eta^*$."""
    norm = float(weight @ weight)
    if norm < 1e-24:
        raise ValueError(
            "The head ignores every feature (its weights are zero), so nothing that could change "
            "would change the prediction."
        )
    return z + np.outer((wanted - eta) / norm, weight)


def nearest_leading(
    z: Float[np.ndarray, " dim"],
    weight: Float[np.ndarray, "classes dim"],
    bias: Float[np.ndarray, " classes"],
    wanted: int,
    margin: float,
) -> Float[np.ndarray, " dim"]:
    r"""The nearest z' at which class c leads every other by `margin` in log-odds.

    A least-distance problem: minimise $|u|$ subject to $G u \ge h$, with
    $G_k = w_c - w_k$ and $h_k = m - G_k z - (b_c - b_k)$, solved exactly by non-negative least
    squares (Lawson and Hanson, 1974, chapter 23).
    """
    others = np.arange(len(weight)) != wanted
    g = weight[wanted] - weight[others]
    h = margin - g @ z - (bias[wanted] - bias[others])
    if np.all(h <= 0):
        return z.copy()
    scale = np.max(np.abs(h))  # keeps the stacked system well scaled
    stacked = np.vstack([g.T, h / scale])
    target = np.zeros(len(stacked))
    target[-1] = 1.0
    solution, _ = nnls(stacked, target)
    residual = stacked @ solution - target
    if abs(residual[-1]) < 1e-12:
        raise ValueError("No change of the features would make that class lead the others.")
    return z - scale * residual[:-1] / residual[-1]
