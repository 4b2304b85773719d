r"""Log-determinants that are estimated: fixed probes, and what they say of their own error.

For $\epsilon$ with independent entries of $\pm 1$, $E[\epsilon^\top A \epsilon] = tr A$
(Hutchinson). A layer that estimates its log-determinant keeps n such probes, drawn when it was
built and never trained: its answers are a fixed function of the row, each the mean of n
independent estimates. So a model is asked with one probe at a time (`parts`), and the spread of
its answers tells the standard error of their mean, through whatever the estimates go on the way.
"""

from typing import TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from diglm.types import Buffer, Key, generator, placed

Model = TypeVar("Model")
FEWEST = 2  # probes that have a spread
EXACT_IN_TRAINING = 16  # dimensions


class Probes(eqx.Module):
    """Directions of Hutchinson's estimates, (n, dim); stacked ones have further axes in front."""

    directions: Buffer

    def __init__(self, n: int, dim: int, *, key: Key):
        if n < FEWEST:
            raise ValueError(f"An error is known from {FEWEST} or more probes; got {n}.")
        signs = generator(key).integers(0, 2, size=(n, dim)) * 2.0 - 1.0
        self.directions = Buffer(placed(signs))

    @property
    def number(self) -> int:
        """How many there are."""
        return self.directions.value.shape[-2]

    def part(self, i: int, of: int) -> "Probes":
        """One of equal parts of the probes; what is left over is in none."""
        size = self.number // of
        some = self.directions.value[..., i * size : (i + 1) * size, :]
        return eqx.tree_at(lambda probes: probes.directions.value, self, some)


def probes_for(dim: int, exact_up_to: int, n: int, *, key: Key) -> Probes | None:
    """Probes where there are too many dimensions to be exact; None where there are not."""
    return None if dim <= exact_up_to else Probes(n, dim, key=key)


def directions_at(
    probes: Probes | None, x: Float[Array, " dim"], key: Key | None
) -> Float[Array, "n dim"] | None:
    """What an estimate at x is made from: the probes; None where it is exact.

    With a key, in training, one direction that is drawn anew: weights would learn to please fixed
    ones. Gradients are noisy anyhow, and of many dimensions one direction is far cheaper than
    all, so there that is what training uses even where answers are exact.
    """
    if key is not None and (probes is not None or len(x) > EXACT_IN_TRAINING):
        return jax.random.rademacher(key, (1, *x.shape), x.dtype)
    return None if probes is None else probes.directions.value.astype(x.dtype)


def parts(model: Model) -> list[Model]:
    """The model with a part of its probes each, of which its estimates are means; [] if exact.

    There are as many parts as the layer with the fewest probes has probes.
    """
    found = [leaf for leaf in jax.tree.leaves(model, is_leaf=_is_probes) if _is_probes(leaf)]
    if not found:
        return []
    n = min(probes.number for probes in found)

    def take(i: int) -> Model:
        return jax.tree.map(
            lambda leaf: leaf.part(i, n) if _is_probes(leaf) else leaf, model, is_leaf=_is_probes
        )

    return [take(i) for i in range(n)]


def standard_error(estimates: Float[np.ndarray, "n_parts n"]) -> Float[np.ndarray, " n"]:
    """Of the mean of independent estimates."""
    return np.std(estimates, axis=0, ddof=1) / np.sqrt(len(estimates))


def _is_probes(leaf: object) -> bool:
    return isinstance(leaf, Probes)
