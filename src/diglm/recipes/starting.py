"""What flows of tables are started from: completed rows, their normal scores, their clumps."""

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import ndtri
from scipy.stats import rankdata

from diglm.bases import AbstractBase, Normal, fit_clumps
from diglm.bases.em import MOST_ROWS
from diglm.bijections import AbstractBijection, LULinear, MarginalMap
from diglm.compiling import jit_once
from diglm.completion import Completion
from diglm.flows import LARGEST_LEARNED_MIXING
from diglm.recipes.base import Material
from diglm.types import bucket, placed

ROWS_FOR_START = 20_000  # margins and covariance are settled by this many rows


def starting_rows(
    material: Material,
) -> tuple[Completion, Float[np.ndarray, "rows dim"], Float[np.ndarray, "rows k"] | None]:
    """How rows are completed; rows completed without training; what labels say of them."""
    encoder, encoded = material.encoder, np.asarray(material.train.x)
    rng = np.random.default_rng(material.seed)
    completion = Completion(encoder.widths, encoder.can_be_missing)
    relation = material.relation
    if len(encoded) > ROWS_FOR_START:
        picked = rng.choice(len(encoded), ROWS_FOR_START, replace=False)
        encoded, relation = encoded[picked], None if relation is None else relation[picked]
    return completion, completion.starting_rows(encoded, rng), relation


def first_layers(rows: Float[np.ndarray, "rows dim"]) -> list[AbstractBijection]:
    """Margins made normal, and columns whitened."""
    margins = MarginalMap.fit(rows)
    if not 1 < rows.shape[1] <= LARGEST_LEARNED_MIXING:
        return [margins]
    return [margins, LULinear.whitening(normal_scores(rows))]


def clumps(layers: AbstractBijection, rows: np.ndarray, seed: int) -> AbstractBase:
    """The base that untrained latents ask for: several normals, or one."""
    few = rows[np.random.default_rng(seed).permutation(len(rows))[:MOST_ROWS]]
    padded = np.resize(few, (bucket(len(few)), rows.shape[1]))
    us = _latents(layers, placed(padded))
    found = fit_clumps(np.asarray(us, float)[: len(few)], seed=seed)
    return Normal(rows.shape[1]) if found is None else found


@jit_once
def _latents(layers: AbstractBijection, rows: jax.Array) -> jax.Array:
    return layers.forward_rows(rows)[0]


def normal_scores(rows: np.ndarray) -> np.ndarray:
    """Columns as the marginal map will show them, near enough to start the whitening from."""
    return ndtri((rankdata(rows, axis=0) - 0.5) / len(rows))
