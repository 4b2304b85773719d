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
    """Everything one pass yields, for one example (or stacked, for a batch).

    Attributes:
        z: features that the head reads.
        log_px: log p(x).
        response: p(y|x).
        u: latents that the base is a density of; z itself without a density of its own.
    """

    z: Float[Array, "..."]
    log_px: Float[Array, "..."]
    response: AbstractResponse
    u: Float[Array, "..."]


class Hybrid(eqx.Module):
    r"""$\log p(y, x) = \log p(y \mid z) + \log p(x)$ with features $z = f(x)$.

    In the paper's model the head reads the very features that the density is of,
    $\log p(x) = \log p_z(z) + \log|\det f^\prime(x)|$. One set of features cannot serve two
    masters: for the density they must be normal, for the head linear in y. So the flow may go on
    behind the features, $x \to z \to u$ with $u = g(z)$, the head on z and the base on u. Here
    $g = a \circ f^{-1}$: it begins by undoing what labels did to f, and what is left of the way
    from x to u is a bijection $a$ of the density's own,
    $$\log p(x) = \log p_u(a(x)) + \log|\det a^\prime(x)|.$$
    All stays exact, one pass, and invertible from end to end. Layers that follow z instead have to
    model what labels made of x, and rows drawn through them lie where labels never looked.

    Args:
        flow: the invertible network f and the density of its features.
        head: the generalized linear model that reads y off z.
        completion: how cells and missing entries are filled; None for continuous data.
        dropout: rate at which features are dropped before the head, in training only.
        guided: how many features, the first ones, labels may shape; None for all. The head reads
            the others as it finds them: what leads to them is trained for the density alone.
        density: a hybrid without a head, whose flow is a; None for the paper's model.
    """

    flow: Flow
    head: AbstractHead
    completion: AbstractCompletion | None
    dropout: float = eqx.field(static=True)
    guided: int | None = eqx.field(static=True)
    density: "Hybrid | None"

    def __init__(
        self,
        flow: Flow,
        head: AbstractHead,
        completion: AbstractCompletion | None = None,
        dropout: float = 0.0,
        guided: int | None = None,
        density: "Hybrid | None" = None,
    ):
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout is a rate, 0 <= dropout < 1; got {dropout}.")
        if guided is not None and guided < 0:
            raise ValueError(f"guided is a number of features or None; got {guided}.")
        if density is not None and density.flow.bijection.in_shape != flow.bijection.in_shape:
            raise ValueError(
                f"The flow takes examples of shape {flow.bijection.in_shape}, but the density "
                f"those of shape {density.flow.bijection.in_shape}."
            )
        self.flow, self.head = flow, head
        self.completion = completion if completion is not None and completion.needed else None
        self.dropout, self.guided, self.density = float(dropout), guided, density

    @property
    def source(self) -> "Hybrid":
        """Whose flow gives log p(x), and rows when they are drawn."""
        return self if self.density is None else self.density

    def with_source(self, source: "Hybrid") -> "Hybrid":
        """The same with another `source` of log p(x)."""
        if self.density is None:
            return source
        return eqx.tree_at(lambda model: model.density, self, source)

    def __call__(self, x: Array) -> Outputs:
        """Features, log p(x) and p(y|x) of one example; what it leaves open is put at its centre.

        With cells or missing entries the density is the one at the centre: for the log mass see
        `log_mass`.
        """
        point = x if self.completion is None else self.completion.centre(x)
        z, log_px = self.flow.forward_and_log_prob(point)
        u = z
        if self.density is not None:
            own = self.density(x)
            u, log_px = own.z, own.log_px
        return Outputs(z, log_px, self.head(jnp.ravel(z)), u)

    def log_joint(self, x: Array, y: Array) -> Scalar:
        """log p(y, x) of one labelled example."""
        outputs = self(x)
        return outputs.log_px + outputs.response.log_prob(y)

    def forward_rows(self, xs: Array) -> Outputs:
        """What `__call__` gives, for many examples."""
        points = xs if self.completion is None else jax.vmap(self.completion.centre)(xs)
        zs, log_px = self.flow.forward_rows(points)
        us = zs
        if self.density is not None:
            own = self.density.forward_rows(xs)
            us, log_px = own.z, own.log_px
        return Outputs(zs, log_px, jax.vmap(self.head)(zs.reshape(len(zs), -1)), us)

    def filled_rows(self, xs: Array, us: Float[Array, "..."]) -> Outputs:
        """What is known of rows filled by uniforms; log p(x) less log q of what was filled in."""
        points, log_q = self.source.fill(xs, us)
        zs, log_px = self.flow.forward_rows(points)
        us = zs
        if self.density is not None:
            us, log_px = self.density.flow.forward_rows(points)
        return Outputs(zs, log_px - log_q, jax.vmap(self.head)(zs.reshape(len(zs), -1)), us)

    def fill(
        self, xs: Array, us: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Rows with their open parts filled as uniforms say, and log q of what was filled in."""
        if self.completion is None:
            return xs, jnp.zeros(len(xs), jnp.result_type(float))
        return jax.vmap(self.completion.draw)(xs, us)

    def log_mass(self, xs: Array, offsets: Float[Array, "n ..."]) -> Float[Array, " rows"]:
        """log p of rows with open parts, by importance sampling at fixed uniform `offsets`.

        The log of an average of n unbiased estimates of p(x): at least as tight as the average
        of their logs, and in one dimension the composite midpoint rule.
        """
        flow, completion = self.source.flow, self.source.completion
        if completion is None:
            return flow.forward_rows(xs)[1]

        def at(u):
            filled, log_q = jax.vmap(lambda x: completion.draw(x, u))(xs)
            return flow.forward_rows(filled)[1] - log_q

        estimates = jax.lax.map(at, offsets)
        return jax.nn.logsumexp(estimates, axis=0) - math.log(len(offsets))

    def forward_batch(
        self, xs: Array, *, key: Key | None = None, start: bool = False
    ) -> tuple[Outputs, "Hybrid"]:
        """Training's view of a batch: open parts filled with noise, dropout on.

        A density of its own is not seen here: it is trained by itself.
        """
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
        outputs = Outputs(zs, log_px - log_q, jax.vmap(self.head.in_training)(features), zs)
        return outputs, eqx.tree_at(lambda model: model.flow, self, flow)
