"""What one pass knows of rows: all that a score may look at."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from diglm.heads import AbstractResponse
from diglm.heads.pooled import take_rows


class Known(NamedTuple):
    """What one pass knows of rows.

    Attributes:
        z: features that the head reads, flat.
        log_px: log p(x), in the user's units.
        response: p(y|x), stacked along the rows.
        unseen: (rows, facts): what no training row prepared for.
        u: latents of the density, flat.
        values: the encoded rows, of any shape; NaN where a value is missing.
        layout: of the encoded rows, "vector" or "image".
        groups: numbers of the groups of the rows, -1 for unknown ones; None without groups.
        told: which of the values were given, neither filled in nor said to be missing; None where
            all were.
    """

    z: Float[np.ndarray, "rows dim"]
    log_px: Float[np.ndarray, " rows"]
    response: AbstractResponse
    unseen: Bool[np.ndarray, "rows facts"]
    u: Float[np.ndarray, "rows dim"]
    values: Shaped[np.ndarray, "rows ..."]
    layout: str
    groups: Int[np.ndarray, " rows"] | None = None
    told: Bool[np.ndarray, "rows ..."] | None = None

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return len(self.log_px)

    @property
    def answers(self) -> AbstractResponse:
        """p(y|x) as arrays of JAX, which its formulas are written for."""
        return jax.tree.map(jnp.asarray, self.response)

    @property
    def expected(self) -> Float[np.ndarray, "rows ..."]:
        """The expectation of y; for classes, their probabilities along the last axis."""
        return np.asarray(self.answers.mean, float)

    def take(self, rows: Int[np.ndarray, " some"]) -> "Known":
        """Some of the rows."""
        return Known(
            self.z[rows],
            self.log_px[rows],
            take_rows(self.response, rows),
            self.unseen[rows],
            self.u[rows],
            self.values[rows],
            self.layout,
            None if self.groups is None else self.groups[rows],
            None if self.told is None else self.told[rows],
        )

    def some(self, most: int) -> "Known":
        """At most so many of the rows, spread evenly; all of them where `most` is zero."""
        if most == 0 or self.n_rows <= most:
            return self
        return self.take(np.linspace(0, self.n_rows - 1, most).astype(int))

    @property
    def flat(self) -> Float[np.ndarray, "rows numbers"]:
        """The encoded rows as numbers in a line; NaN where a value is missing."""
        numbers = math.prod(self.values.shape[1:])
        return self.values.reshape(self.n_rows, numbers).astype(np.float32)
