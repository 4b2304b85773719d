"""Pseudo-labels: what a model is sure of is a label for harder views of the same row."""

from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from diglm.objectives.distortion import Distortion
from diglm.objectives.term import AbstractTerm, Pass, PerRow, all_weights, rising
from diglm.rows import draw_rows, sum_over_devices
from diglm.types import Key, Scalar


class PseudoLabels(AbstractTerm):
    r"""$-\log p(\hat y \mid \tilde x)$, with $\hat y$ the label, or the class that $x$ seems to be.

    Half of the term is the mean over rows with a label, half that over rows without. The latter
    are given the class of which the model, in the pass that the objective makes anyway, is sure:
    those of which it is not add nothing. $\tilde x$ is the row distorted, if it is an image, and
    with noise, if it is one of a table. The class has no gradient. Only for heads of classes.

    Reference: Sohn et al. (2020), FixMatch, https://arxiv.org/abs/2001.07685

    Args:
        weight: of the term, beside the mean of log p(y|x) over rows with a label.
        sure: least probability of a class that is taken for the label.
        distortion: of images.
        noise: its standard deviation, of rows of tables, in standard deviations of a column.
        ramp: share of training over which the weight rises.
    """

    weight: float = eqx.field(static=True, default=1.0)
    sure: float = eqx.field(static=True, default=0.95)
    distortion: Distortion = eqx.field(default_factory=Distortion)
    noise: float = eqx.field(static=True, default=0.1)
    ramp: float = eqx.field(static=True, default=0.0)

    def rows(self, seen: Pass, *, key: Key) -> PerRow:
        batch, xs = seen.batch, cast(Array, seen.batch.x)
        probabilities = jax.lax.stop_gradient(seen.outputs.response.mean)
        if probabilities.ndim != 2 or not seen.outputs.response.discrete:
            raise ValueError("PseudoLabels are classes, so that the head must be one of classes.")
        labelled = cast(Array, batch.labelled)
        guessed = jnp.argmax(probabilities, axis=1).astype(batch.y.dtype)
        taken = jnp.where(labelled, batch.y, guessed)
        sure = labelled | (jnp.max(probabilities, axis=1) >= self.sure)
        response = seen.model.respond_entered(self._harder(seen.model, xs, key))
        loss = -jax.vmap(lambda r, y: r.log_prob(y))(response, taken)
        weights = all_weights(batch)
        known = weights * labelled.astype(weights.dtype)
        sums = sum_over_devices(jnp.stack([jnp.sum(known), jnp.sum(weights - known)]))
        even = jnp.where(jnp.all(sums > 0), sums[1] / jnp.maximum(sums[0], 1e-12), 1.0)
        return jnp.where(sure, loss, 0.0), weights - known + even * known

    def _harder(self, model, xs: Array, key: Key) -> Array:
        if xs.ndim > 2:
            return model.entered(self.distortion(xs, key=key))
        places = model.entered(xs)
        return places + self.noise * draw_rows(
            lambda n: jax.random.normal(key, (n, *xs.shape[1:]), places.dtype), len(xs)
        )

    def strength(self, done: Scalar | float) -> Scalar | float:
        return rising(self.ramp, done)
