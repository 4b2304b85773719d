"""Hybrid = flow + head: one pass through the flow gives log p(x), p(y|x) and their joint."""

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.completion import AbstractCompletion
from diglm.flows import Flow
from diglm.heads import AbstractHead, AbstractResponse, pool
from diglm.rows import draw_rows
from diglm.types import Buffer, Key, Scalar, entry, placed


def is_none(leaf: object) -> bool:
    """Whether a part of a model is absent; the `is_leaf` of those who put one there."""
    return leaf is None


def _shared(model: "Hybrid") -> tuple:
    """What a committee has beside its members."""
    return model.density, model.others, model.log_shares


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
    All stays exact, one pass, and invertible from end to end.

    **A committee.** What one network makes of few rows hangs on where it set out and on which rows
    it saw. Several, each with features of its own, answer with the average of their distributions,
    $p(y \mid x) = \sum_k \pi_k\, p(y \mid f_k(x))$. Which x are probable they need not agree on:
    that is said by a density of its own, which they share. Features, and closed forms that start
    from them, are those of the first member.

    Args:
        flow: the invertible network f and the density of its features.
        head: the generalized linear model that reads y off z.
        completion: how cells and missing entries are filled; None for continuous data.
        dropout: rate at which features are dropped before the head, in training only.
        guided: how many features, the first ones, labels may shape; None for all. The head reads
            the others as it finds them: what leads to them is trained for the density alone.
        density: a hybrid without a head, whose flow is a; None for the paper's model.
        reads_guided: whether the head reads the guided features and no others.
        others: the other members of a committee, stacked into one hybrid; see `committee`.
        log_shares: of the members in the answer, this one's first; None without others.
    """

    flow: Flow
    head: AbstractHead
    completion: AbstractCompletion | None
    dropout: float = eqx.field(static=True)
    guided: int | None = eqx.field(static=True)
    density: "Hybrid | None"
    others: "Hybrid | None"
    log_shares: Buffer | None
    reads_guided: bool = eqx.field(static=True, default=False)

    def __init__(
        self,
        flow: Flow,
        head: AbstractHead,
        completion: AbstractCompletion | None = None,
        dropout: float = 0.0,
        guided: int | None = None,
        density: "Hybrid | None" = None,
        others: "Hybrid | None" = None,
        log_shares: Buffer | None = None,
        reads_guided: bool = False,
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
        self.others, self.log_shares = others, log_shares
        self.reads_guided = bool(reads_guided)

    @classmethod
    def committee(
        cls,
        members: "Sequence[Hybrid]",
        density: "Hybrid | None",
        log_shares: Float[np.ndarray, " members"] | None = None,
    ) -> "Hybrid":
        """The first member with the others, and the density that they share."""
        first, *rest = members
        others = shares = None
        if rest:
            others = jax.tree.map(lambda *leaves: placed(np.stack(jax.device_get(leaves))), *rest)
            n = len(members)
            log_shares = np.full(n, -math.log(n)) if log_shares is None else log_shares
            shares = Buffer(placed(np.asarray(log_shares, float)))
        return eqx.tree_at(_shared, first, (density, others, shares), is_leaf=is_none)

    @property
    def members(self) -> "list[Hybrid]":
        """Those who answer, one by one, without the density that they share."""
        first = eqx.tree_at(_shared, self, (None, None, None), is_leaf=is_none)
        if self.others is None:
            return [first]
        n_others = len(jax.tree.leaves(eqx.filter(self.others, eqx.is_array))[0])
        arrays, rest = eqx.partition(self.others, eqx.is_array)
        return [first, *(eqx.combine(entry(arrays, i), rest) for i in range(n_others))]

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
        """Features, log p(x), p(y|x) of one example, open parts at centres: see `log_mass`."""
        point = x if self.completion is None else self.completion.centre(x)
        z, log_px = self.flow.forward_and_log_prob(point)
        u = z
        if self.density is not None:
            own = self.density(x)
            u, log_px = own.z, own.log_px
        response = jax.tree.map(lambda leaf: leaf[0], self.responses(point[None], z[None]))
        return Outputs(z, log_px, response, u)

    def responses(
        self, points: Float[Array, "rows ..."], zs: Float[Array, "rows ..."]
    ) -> AbstractResponse:
        """p(y|x) of filled rows with features `zs`, stacked as `jax.vmap` does."""
        features = self.read(zs) if self.reads_guided else zs.reshape(len(zs), -1)
        response = jax.vmap(self.head)(features)
        if self.others is None:
            return response

        def answer(member: Hybrid) -> AbstractResponse:
            own = member.flow.bijection.forward_rows(points)[0]
            return jax.vmap(member.head)(own.reshape(len(own), -1))

        more = eqx.filter_vmap(answer, out_axes=1)(self.others)
        every = jax.tree.map(lambda a, b: jnp.concatenate([a[:, None], b], 1), response, more)
        shares = cast(Buffer, self.log_shares).value
        return jax.vmap(lambda parts: pool(parts, shares))(every)

    def log_prob_bound(self, y: Array) -> Float[Array, "*batch"] | None:
        """The largest log p(y|x) over every x that the heads can tell; None where there is none."""
        bound = self.head.log_prob_bound(y)
        if bound is None or self.others is None:
            return bound
        more = eqx.filter_vmap(lambda member: member.head.log_prob_bound(y))(self.others)
        return jnp.maximum(bound, jnp.max(more, axis=0))

    def entered(self, xs: Array) -> Float[Array, "..."]:
        """Many examples where a step has the same meaning everywhere: whole, behind any logit."""
        points = xs if self.completion is None else jax.vmap(self.completion.centre)(xs)
        return self.flow.bijection.entered(points)

    def respond_entered(
        self, places: Float[Array, "..."], *, guided: bool = True
    ) -> AbstractResponse:
        """Responses to what `entered` gives, or to places nearby.

        Gradients are those that labels have, or without `guided` those of all features.
        """
        if self.n_read is not None:  # the rest of the flow is not asked
            zs = self.flow.bijection.first_entered(places, self.n_read)
            rest = int(np.prod(self.flow.bijection.out_shape)) - self.n_read
            return jax.vmap(self.head)(jnp.pad(zs, [(0, 0), (0, rest)]))
        zs = self.flow.bijection.rows_entered(places)
        return jax.vmap(self.head)(self.read(zs) if guided else zs.reshape(len(zs), -1))

    @property
    def n_read(self) -> int | None:
        """How many features, the first ones, the head reads; None for all."""
        return self.guided if self.reads_guided else None

    def read(self, zs: Float[Array, "..."]) -> Float[Array, "rows dim"]:
        """Features as the head sees them: of those that labels may not shape, values alone."""
        features = zs.reshape(len(zs), -1)
        if self.guided is None:
            return features
        shaped, found = jnp.split(features, [self.guided], axis=1)
        found = jnp.zeros_like(found) if self.reads_guided else jax.lax.stop_gradient(found)
        return jnp.concatenate([shaped, found], axis=1)

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
        return Outputs(zs, log_px, self.responses(points, zs), us)

    def filled_rows(self, xs: Array, us: Float[Array, "..."]) -> Outputs:
        """What is known of rows filled by uniforms; log p(x) less log q of what was filled in."""
        points, log_q = self.source.fill(xs, us)
        zs, log_px = self.flow.forward_rows(points)
        us = zs
        if self.density is not None:
            us, log_px = self.density.flow.forward_rows(points)
        return Outputs(zs, log_px - log_q, self.responses(points, zs), us)

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

        A density of its own and other members are not seen here: they are trained by themselves.
        """
        key_fill, key_flow, key_drop = (None,) * 3 if key is None else jax.random.split(key, 3)
        log_q = 0.0
        if self.completion is not None:
            real, shape = jnp.result_type(float), xs.shape[1:]
            uniform = jnp.full(xs.shape, 0.5, real)
            if key_fill is not None:
                uniform = draw_rows(
                    lambda n: jax.random.uniform(key_fill, (n, *shape), real, 1e-6, 1 - 1e-6),
                    len(xs),
                )
            xs, log_q = jax.vmap(self.completion.draw)(xs, uniform)
        zs, log_px, flow = self.flow.forward_batch(xs, key=key_flow, start=start)
        features = self.read(zs)
        if key_drop is not None and self.dropout > 0:
            keep = draw_rows(
                lambda n: jax.random.bernoulli(key_drop, 1 - self.dropout, (n, features.shape[1])),
                len(features),
            )
            features = jnp.where(keep, features / (1 - self.dropout), 0.0)
        outputs = Outputs(zs, log_px - log_q, jax.vmap(self.head.in_training)(features), zs)
        return outputs, eqx.tree_at(lambda model: model.flow, self, flow)
