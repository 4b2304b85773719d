"""Multi-scale flows of images: after every level a part of the channels is done and waits."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.bijections.base import AbstractBijection, AbstractImageBijection
from diglm.types import Key


class MultiScale(AbstractImageBijection):
    r"""$h_l = f_l(u_{l-1})$, $(u_l, z_l) = h_l$ by channels, $z = (z_1, \dots, z_{L-1}, h_L)$.

    Every level but the last hands on as many of its first channels as the next one takes, and sends
    the others straight to the features: those that its last coupling has just changed given the
    ones that stay. z is a vector of all of them, coarse levels last, so that a head reads off every
    level.

    Args:
        levels: bijections of channels-first images; each takes some of the channels that the one
            before gives.

    Reference: Dinh et al. (2017), https://arxiv.org/abs/1605.08803
    """

    levels: tuple[AbstractBijection, ...]
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, levels: Sequence[AbstractBijection]):
        if not levels:
            raise ValueError("MultiScale needs at least one level.")
        for i, (first, second) in enumerate(zip(levels[:-1], levels[1:], strict=True)):
            (given, *places), (taken, *same) = first.out_shape, second.in_shape
            if places != same or not taken < given:
                raise ValueError(
                    f"MultiScale level {i} gives shape {first.out_shape} and hands on some of its "
                    f"channels, but level {i + 1} takes {second.in_shape}."
                )
        self.levels, self.in_shape = tuple(levels), levels[0].in_shape
        channels, height, width = self.in_shape
        self.out_shape = (channels * height * width,)

    def forward_and_log_det(
        self, x: Float[Array, "channels height width *rows"], *, key: Key | None = None
    ) -> tuple[Float[Array, " dim *rows"], Float[Array, "*rows"]]:
        def pass_through(level, x, key):
            return *level.forward_and_log_det(x, key=key), level

        return self._forward(x, key, pass_through)[:2]

    def forward_batch(
        self,
        xs: Float[Array, "channels height width rows"],
        *,
        key: Key | None = None,
        start: bool = False,
    ) -> tuple[Float[Array, "dim rows"], Float[Array, " rows"], "MultiScale"]:
        def learn(level, xs, key):
            return level.forward_batch(xs, key=key, start=start)

        zs, log_dets, levels = self._forward(xs, key, learn)
        return zs, log_dets, eqx.tree_at(lambda scales: scales.levels, self, levels)

    def inverse_and_log_det(
        self, z: Float[Array, " dim *rows"]
    ) -> tuple[Float[Array, "channels height width *rows"], Float[Array, "*rows"]]:
        rows, total, x = z.shape[1:], jnp.zeros(z.shape[1:], z.dtype), None
        for level in reversed(self.levels):
            channels, height, width = level.out_shape
            if x is not None:
                channels -= x.shape[0]
            n_own = channels * height * width
            z, own = jnp.split(z, [z.shape[0] - n_own])
            own = own.reshape(channels, height, width, *rows)
            whole = own if x is None else jnp.concatenate([x, own])
            x, log_det = level.inverse_and_log_det(whole)
            total = total + log_det
        assert x is not None  # there is at least one level
        return x, total

    def first_entered(
        self, places: Float[Array, "channels height width *rows"], n: int
    ) -> Float[Array, " first *rows"]:
        x, rows, done, found = places, places.shape[3:], [], 0
        for level, after in zip(self.levels, [*self.levels[1:], None], strict=True):
            x, _ = level.forward_and_log_det(x)
            if after is None:
                own = x
            else:
                x, own = jnp.split(x, [after.in_shape[0]])
            done.append(own.reshape(-1, *rows))
            found += len(done[-1])
            if found >= n:
                break
        return jnp.concatenate(done)[:n]

    def _forward(self, x: Array, key: Key | None, through) -> tuple[Array, Array, tuple]:
        """Features, log-determinants, and the levels as `through(level, x, key)` leaves them."""
        rows = x.shape[3:]
        n_levels, total = len(self.levels), jnp.zeros(rows, x.dtype)
        keys = [None] * n_levels if key is None else jax.random.split(key, n_levels)
        done, levels = [], []
        for i, (level, level_key) in enumerate(zip(self.levels, keys, strict=True)):
            x, log_det, level = through(level, x, level_key)
            total = total + log_det
            levels.append(level)
            if i < n_levels - 1:
                x, own = jnp.split(x, [self.levels[i + 1].in_shape[0]])
                done.append(own.reshape(-1, *rows))
        return jnp.concatenate([*done, x.reshape(-1, *rows)]), total, tuple(levels)
