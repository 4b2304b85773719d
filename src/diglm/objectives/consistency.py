"""Consistency: what leaves a label true should leave the answer as it was."""

from typing import cast

import equinox as eqx
import jax
from jaxtyping import Array

from diglm.objectives.term import AbstractTerm, Pass, PerRow, all_weights, divergences, rising
from diglm.rows import draw_rows
from diglm.types import Key, Scalar


class Consistency(AbstractTerm):
    r"""$D(p_t(y|x), p(y|\tilde x))$, the mean over all rows, with the teacher's answer $p_t$.

    $\tilde x$ is the row moved once more by the augmentation of training, where there is one, plus
    noise. The teacher has the running average of the weights ("mean teacher"), is not moved, drops
    nothing, and has no gradient.

    Reference: Tarvainen and Valpola (2017), https://arxiv.org/abs/1703.01780

    Args:
        weight: of the mean, beside that of log p(y|x) over rows with a label.
        noise: its standard deviation, in units in which encoded columns have one of one; of images
            behind the flow's logit.
        mean_teacher: whether the running average of the weights answers, or the weights themselves.
        ramp: share of training over which the weight rises.
    """

    weight: float = eqx.field(static=True, default=1.0)
    noise: float = eqx.field(static=True, default=0.1)
    mean_teacher: bool = eqx.field(static=True, default=True)
    ramp: float = eqx.field(static=True, default=0.0)

    def rows(self, seen: Pass, *, key: Key) -> PerRow:
        key_move, key_noise = jax.random.split(key)
        xs = cast(Array, seen.batch.x)
        teacher = seen.teacher if self.mean_teacher else seen.model
        target = jax.lax.stop_gradient(teacher.respond_entered(teacher.entered(xs)))
        moved = xs if seen.augment is None else seen.augment(xs, key=key_move)
        places = seen.model.entered(moved)
        noise = draw_rows(
            lambda n: jax.random.normal(key_noise, (n, *xs.shape[1:]), places.dtype), len(xs)
        )
        answer = seen.model.respond_entered(places + self.noise * noise)
        return divergences(target, answer), all_weights(seen.batch)

    def strength(self, done: Scalar | float) -> Scalar | float:
        return rising(self.ramp, done)
