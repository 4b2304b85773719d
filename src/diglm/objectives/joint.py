r"""The weighted joint likelihood, with missing labels, and whatever terms are added to it.

For a row with weight $c_n$ and, where known, a label $y_n$,

$$J = \sum_n c_n \bigl(\log p(y_n \mid x_n) + \lambda \log p(x_n)\bigr),$$

where a row without a label contributes $\lambda \log p(x_n)$ alone. $\lambda = 1$ is the exact
joint, $\lambda = 0$ the purely discriminative model.

**Weighting the volume alone.** To keep the prior term $\log p_z(z)$ at weight one and put $\lambda$
on $\log|\det \partial f/\partial x|$ only, note that $\lambda \log \mathcal N(z; 0, vI) =
-\tfrac{\lambda}{2v}|z|^2 + c$ equals $-\tfrac12 |z|^2 + c$ exactly when $v = \lambda$. So that
objective is the ordinary $\lambda$-weighted one under a base density of variance $\lambda$ (the
paper says a variance scaled by $1/\lambda$; the derivation gives $\lambda$), and the density that
belongs to it is the one with that base: build the flow with `Normal(dim, variance=lambda)`.
"""

from typing import NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.heads import AbstractResponse
from diglm.hybrid import Hybrid
from diglm.objectives.term import AbstractTerm, weighted_mean
from diglm.types import Batch, Key, Scalar


class Terms(NamedTuple):
    """Weighted means over a batch of what the objective is made of."""

    loss: Scalar
    log_px: Scalar
    log_py: Scalar
    skill: Scalar

    @classmethod
    def weights(cls, batch: Batch) -> "Terms":
        """The sum of weights that each term is a mean over."""
        weights = cast(Array, batch.weight)
        total, known = jnp.sum(weights), jnp.sum(weights * batch.labelled.astype(weights.dtype))
        return cls(total, total, known, known)


class JointObjective(eqx.Module):
    """-J / sum of weights, plus the weighted terms.

    Args:
        generative_weight: the lambda of the weighted objective (an array: it may be vmapped).
        n_rows: rows of the whole training set, over which the head's prior is shared.
        terms: what else is minimised, such as the entropy of answers to unlabelled rows.
        density_only: no row has a label, so the head is not evaluated at all.
    """

    generative_weight: Scalar
    n_rows: Scalar
    terms: tuple[AbstractTerm, ...]
    density_only: bool = eqx.field(static=True)

    def __init__(
        self,
        generative_weight: float | Array = 1.0,
        *,
        n_rows: float = 1.0,
        terms: tuple[AbstractTerm, ...] = (),
        density_only: bool = False,
    ):
        if density_only and terms:
            raise ValueError(f"density_only never asks the head, which {terms} are about.")
        self.generative_weight = jnp.asarray(generative_weight, jnp.result_type(float))
        self.n_rows = jnp.asarray(n_rows, jnp.result_type(float))
        self.terms, self.density_only = tuple(terms), bool(density_only)

    def __call__(
        self,
        model: Hybrid,
        batch: Batch,
        *,
        key: Key,
        emphasis: Scalar | float = 1.0,
    ) -> tuple[Scalar, tuple[Terms, Hybrid]]:
        """The loss of a batch, its terms, and the model with moved statistics.

        `emphasis` multiplies lambda: a schedule's hold on the trade-off.
        """
        key_pass, key_terms = jax.random.split(key)
        xs = cast(Array, batch.x)  # never NumPy's here: see `Batch`
        outputs, moved = model.forward_batch(xs, key=key_pass)
        means = self.means(outputs.log_px, outputs.response, batch, emphasis)
        loss = means.loss
        if not self.density_only:
            loss += model.head.penalty() / self.n_rows
        for i, term in enumerate(self.terms):
            loss += term.weight * term(model, outputs, batch, key=jax.random.fold_in(key_terms, i))
        return loss, (means._replace(loss=loss), moved)

    def means(
        self,
        log_px: Float[Array, " rows"],
        response: AbstractResponse,
        batch: Batch,
        emphasis: Scalar | float = 1.0,
    ) -> Terms:
        """The weighted means that make up the objective, from outputs already computed."""
        weights = cast(Array, batch.weight)
        if self.density_only:
            mean_px = weighted_mean(log_px, weights, weights)
            nothing = jnp.zeros_like(mean_px)
            return Terms(-self.generative_weight * emphasis * mean_px, mean_px, nothing, nothing)
        known = weights * batch.labelled.astype(weights.dtype)
        log_py = jax.vmap(lambda r, y: r.log_prob(y))(response, batch.y)
        skill = jax.vmap(lambda r, y: r.skill(y))(response, batch.y)
        # Rows of weight zero (padding) must not matter even when their values are not finite.
        log_px, log_py, skill = (
            jnp.where(counts > 0, values, 0.0) * counts
            for values, counts in ((log_px, weights), (log_py, known), (skill, known))
        )
        # One sum over rows for all: at small batches a step's cost is its number of operations.
        sums = jnp.sum(jnp.stack([log_px, log_py, skill, weights, known]), axis=1)
        sum_px, sum_py, sum_skill, total, total_known = sums
        total, total_known = jnp.maximum(total, 1e-12), jnp.maximum(total_known, 1e-12)
        loss = -(sum_py + self.generative_weight * emphasis * sum_px) / total
        return Terms(loss, sum_px / total, sum_py / total_known, sum_skill / total_known)
