r"""The weighted joint likelihood, with missing labels, and whatever terms are added to it.

For rows of weights $c_n$, those of $L$ with a label $y_n$,

$$J = \frac{\sum_{n \in L} c_n \log p(y_n \mid x_n)}{\sum_{n \in L} c_n} +
\lambda \frac{\sum_n c_n \log p(x_n)}{\sum_n c_n} .$$

Each part is a mean over its own rows: of labels over the rows that have one, of the density over
all. So $\lambda$ weighs what is known of a row against what is known of a label, however few labels
there are; ten thousand more rows without one sharpen the density, and do not drown the labels.
Where every row has a label this is the weighted joint likelihood of the rows over their number.
$\lambda = 1$ then is the exact joint, $\lambda = 0$ the purely discriminative model.

**Weighting the volume alone.** To keep the prior term $\log p_z(z)$ at weight one and put $\lambda$
on $\log|\det \partial f/\partial x|$ only, note that $\lambda \log \mathcal N(z; 0, vI) =
-\tfrac{\lambda}{2v}|z|^2 + c$ equals $-\tfrac12 |z|^2 + c$ exactly when $v = \lambda$. So that
objective is the ordinary $\lambda$-weighted one under a base density of variance $\lambda$ (the
paper says a variance scaled by $1/\lambda$; the derivation gives $\lambda$), and the density that
belongs to it is the one with that base: build the flow with `Normal(dim, variance=lambda)`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.heads import AbstractResponse
from diglm.hybrid import Hybrid, Outputs
from diglm.objectives.term import AbstractTerm, Pass, PerRow, weighted_mean
from diglm.rows import n_parts, sum_over_devices
from diglm.types import Batch, Key, Scalar


class Terms(NamedTuple):
    """Weighted means over a batch of what the objective is made of."""

    loss: Scalar
    log_px: Scalar
    log_py: Scalar
    skill: Scalar


class JointObjective(eqx.Module):
    """-J, plus the weighted terms.

    Args:
        generative_weight: the lambda of the weighted objective (an array: it may be vmapped).
        n_rows: labelled rows of the whole training set, over which the head's prior is shared.
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
        done: Scalar | float = 1.0,
        teacher: Hybrid | None = None,
        augment: Callable[..., Any] | None = None,
    ) -> tuple[Scalar, tuple[Terms, Hybrid]]:
        """The loss of a batch, its terms, and the model with moved statistics.

        Where devices divide the rows, each gives its part: losses, terms and gradients add up.

        Args:
            model: what is trained.
            batch: rows.
            key: of all noise.
            emphasis: multiplies lambda, a schedule's hold on the trade-off.
            done: the share of training that is done, by which terms may rise.
            teacher: the model with averaged weights, for terms that ask one; None for the model.
            augment: what changes rows and leaves labels true, for terms that ask for it.
        """
        key_pass, key_terms = jax.random.split(key)
        xs = cast(Array, batch.x)  # never NumPy's here: see `Batch`
        outputs, moved = model.forward_batch(xs, key=key_pass)
        trust = outputs.response.trust
        means = self.means(outputs.log_px, outputs.response, batch, emphasis, trust)
        loss = means.loss
        if not self.density_only:
            loss += model.head.penalty() / (self.n_rows * n_parts())
        seen = Pass(model, outputs, batch, model if teacher is None else teacher, augment)
        for i, term in enumerate(self.terms):
            mean = term(seen, key=jax.random.fold_in(key_terms, i))
            loss += term.weight * term.strength(done) * mean
        return loss, (means._replace(loss=loss), moved)

    def terms_by_row(
        self, model: Hybrid, outputs: Outputs, batch: Batch, key: Key
    ) -> tuple[PerRow, ...]:
        """What each row adds to each term and counts in it, for rows that are judged."""
        seen = Pass(model, outputs, batch, model)
        keys = (jax.random.fold_in(key, i) for i in range(len(self.terms)))
        return tuple(term.rows(seen, key=k) for term, k in zip(self.terms, keys, strict=True))

    def with_terms(self, means: Terms, by_row: tuple[PerRow, ...]) -> Terms:
        """Means with the terms in their loss."""
        parts = zip(self.terms, by_row, strict=True)
        return means._replace(
            loss=means.loss + sum(term.weight * weighted_mean(*rows) for term, rows in parts)
        )

    def means(
        self,
        log_px: Float[Array, " rows"],
        response: AbstractResponse,
        batch: Batch,
        emphasis: Scalar | float = 1.0,
        trust: Float[Array, " rows"] | None = None,
    ) -> Terms:
        """The weighted means that make up the objective, from outputs already computed.

        With `trust` rows count by it for log p(y|x), and as much as before in all.
        """
        weights = cast(Array, batch.weight)
        if self.density_only:
            mean_px = weighted_mean(log_px, weights)
            nothing = jnp.zeros_like(mean_px)
            return Terms(-self.generative_weight * emphasis * mean_px, mean_px, nothing, nothing)
        known = weights * batch.labelled.astype(weights.dtype)
        log_py = jax.vmap(lambda r, y: r.log_prob(y))(response, batch.y)
        skill = jax.vmap(lambda r, y: r.skill(y))(response, batch.y)
        if trust is not None:
            held = jnp.where(known > 0, trust, 0.0)
            totals = jnp.stack([jnp.sum(known), jnp.sum(known * held)])
            counted, trusted = sum_over_devices(jax.lax.stop_gradient(totals))
            log_py = log_py * held * counted / jnp.maximum(trusted, 1e-12)
        # Rows of weight zero (padding) must not matter even when their values are not finite.
        log_px, log_py, skill = (
            jnp.where(counts > 0, values, 0.0) * counts
            for values, counts in ((log_px, weights), (log_py, known), (skill, known))
        )
        # One sum over rows for all: at small batches a step's cost is its number of operations.
        sums = jnp.sum(jnp.stack([log_px, log_py, skill, weights, known]), axis=1)
        sum_px, sum_py, sum_skill = sums[:3]
        totals = sum_over_devices(jax.lax.stop_gradient(sums[3:]))
        total, total_known = jnp.maximum(totals, 1e-12)
        # The ratio is one, exactly, where every row has a label.
        sum_py_of_all = sum_py * (total / total_known)
        loss = -(sum_py_of_all + self.generative_weight * emphasis * sum_px) / total
        return Terms(loss, sum_px / total, sum_py / total_known, sum_skill / total_known)
