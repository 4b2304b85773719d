"""Hybrid = flow + head: one pass through the flow gives log p(x), p(y|x) and their joint."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.completion import AbstractCompletion
from diglm.flows import Flow
from diglm.heads import AbstractHead, AbstractResponse
from diglm.rows import draw_rows
from diglm.types import Key, Scalar


class Outputs(NamedTuple):
    """Everything one pass yields, for one example (or stacked, for a batch)."""

    z: Float[Array, "..."]
    log_px: Float[Array, "..."]
    response: AbstractResponse


class Hybrid(eqx.Module):
    r"""$\log p(y, x) = \log p(y \mid z) + \log p_z(z) + \log|\det f^\prime(x)|$ with $z = f(x)$.

    Args:
        flow: the invertible network and the density of its features.
        head: the generalized linear model that reads y off z.
        completion: how cells and missing entries are filled; None for continuous data.
        dropout: rate at which features are dropped before the head, in training only.
        guided: how many features, the first ones, labels may shape; None for all. The head reads
            the others as it finds them: what leads to them is trained for the density alone.
    """

    flow: Flow
    head: AbstractHead
    completion: AbstractCompletion | None
    dropout: float = eqx.field(static=True)
    guided: int | None = eqx.field(static=True)

    def __init__(
        self,
        flow: Flow,
        head: AbstractHead,
        completion: AbstractCompletion | None = None,
        dropout: float = 0.0,
        guided: int | None = None,
    ):
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout is a rate, 0 <= dropout < 1; got {dropout}.")
        if guided is not None and guided < 0:
            raise ValueError(f"guided is a number of features or None; got {guided}.")
        self.flow, self.head = flow, head
        self.completion = completion if completion is not None and completion.needed else None
        self.dropout, self.guided = float(dropout), guided

    def __call__(self, x: Array) -> Outputs:
        """Features, log p(x) and p(y|x) of one example; what it leaves open is put at its centre.

        With cells or missing entries the density is the one at the centre: for the log mass see
        `log_mass`.
        """
        if self.completion is not None:
            x = self.completion.centre(x)
        z, log_px = self.flow.forward_and_log_prob(x)
        return Outputs(z, log_px, self.head(jnp.ravel(z)))

    def log_joint(self, x: Array, y: Array) -> Scalar:
        """log p(y, x) of one labelled example."""
        outputs = self(x)
        return outputs.log_px + outputs.response.log_prob(y)

    def forward_rows(self, xs: Array) -> Outputs:
        """What `__call__` gives, for many examples."""
        if self.completion is not None:
            xs = jax.vmap(self.completion.centre)(xs)
        zs, log_px = self.flow.forward_rows(xs)
        return Outputs(zs, log_px, jax.vmap(self.head)(zs.reshape(len(zs), -1)))

    def log_mass(self, xs: Array, offsets: Float[Array, "n ..."]) -> Float[Array, " rows"]:
        """log p of rows with open parts, by importance sampling at fixed uniform `offsets`.

        The log of an average of n unbiased estimates of p(x): at least as tight as the average
        of their logs, and in one dimension the composite midpoint rule.
        """
        completion = self.completion
        if completion is None:
            return self.flow.forward_rows(xs)[1]

        def at(u):
            filled, log_q = jax.vmap(lambda x: completion.draw(x, u))(xs)
            return self.flow.forward_rows(filled)[1] - log_q

        estimates = jax.lax.map(at, offsets)
        return jax.nn.logsumexp(estimates, axis=0) - math.log(len(offsets))

    def forward_batch(
        self, xs: Array, *, key: Key | None = None, start: bool = False
    ) -> tuple[Outputs, "Hybrid"]:
        """Training's view of a batch: open parts filled with noise, dropout on."""
        key_fill, key_flow, key_drop = (None,) * 3 if key is None else jax.random.split(key, 3)
        log_q = 0.0
        if self.completion is not None:
            real = jnp.result_type(float)
            uniform = jnp.full(xs.shape, 0.5, real)
            if key_fill is not None:
                uniform = draw_rows(
                    lambda n: jax.random.uniform(
                        key_fill, (n, *xs.shape[1:]), real, 1e-6, 1 - 1e-6
                    ),
                    len(xs),
                )
            xs, log_q = jax.vmap(self.completion.draw)(xs, uniform)
        zs, log_px, flow = self.flow.forward_batch(xs, key=key_flow, start=start)
        features = zs.reshape(len(zs), -1)
        if self.guided is not None:
            shaped, found = jnp.split(features, [self.guided], axis=1)
            features = jnp.concatenate([shaped, jax.lax.stop_gradient(found)], axis=1)
        if key_drop is not None and self.dropout > 0:
            keep = draw_rows(
                lambda n: jax.random.bernoulli(key_drop, 1 - self.dropout, (n, features.shape[1])),
                len(features),
            )
            features = jnp.where(keep, features / (1 - self.dropout), 0.0)
        outputs = Outputs(zs, log_px - log_q, jax.vmap(self.head.in_training)(features))
        return outputs, eqx.tree_at(lambda model: model.flow, self, flow)
