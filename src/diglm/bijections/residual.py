"""Invertible residual layer: what is added to a row moves less than the row does."""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.bijections.base import AbstractBijection
from diglm.bijections.estimates import Probes, directions_at, probes_for
from diglm.networks.lipschitz import LipschitzNetwork
from diglm.types import Key, Scalar, split_key

Map = Callable[[Array], Array]


class InvertibleResidual(AbstractBijection):
    r"""$z = x + g(x)$ with $|g(x) - g(x')| \le c |x - x'|$ and $c < 1$, in training and ever after.

    The inverse is the limit of $x \leftarrow z - g(x)$. Iterations stop when their error, at most
    $\tfrac{c}{1 - c}$ times the last step, is below `tolerance` (relative to the largest entry of
    x, where that is above one, and not finer than what numbers hold); its derivatives are those of
    the limit.

    Up to `exact_up_to` dimensions $\log|\det(I + J)|$, $J = \partial g / \partial x$, is computed
    as it stands. Above, it is a power series and Hutchinson's mean over fixed probes,
    $$\log\det(I + J) = \sum_{k \ge 1} \frac{(-1)^{k+1}}{k}\, tr J^k, \qquad
    tr J^k \approx \frac1n \sum_i \epsilon_i^\top J^k \epsilon_i .$$
    A probe's series ends when all that is left of it, at most $|\epsilon| |\epsilon^\top J^k|
    c / ((k + 1)(1 - c))$, is below `truncation` nats. Its derivative is estimated by the
    derivative of $\epsilon^\top (I + J)^{-1} J \epsilon$ with the factor in front held still, so
    that no step of the series is kept in memory.

    Reference: Behrmann et al. (2019), https://arxiv.org/abs/1811.00995; Chen et al. (2019),
    https://arxiv.org/abs/1906.02735

    Args:
        dim: of a row.
        width: of the hidden layers of g.
        depth: number of hidden layers.
        steepness: c.
        tolerance: of the inverse.
        truncation: of the series, in nats.
        exact_up_to: dimensions up to which the log-determinant is exact.
        n_probes: above it.
        key: seeds weights and probes.
    """

    change: LipschitzNetwork
    probes: Probes | None
    tolerance: float = eqx.field(static=True)
    truncation: float = eqx.field(static=True)
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        width: int,
        depth: int,
        *,
        steepness: float = 0.9,
        tolerance: float = 1e-6,
        truncation: float = 1e-3,
        exact_up_to: int = 64,
        n_probes: int = 8,
        key: Key,
    ):
        if not 0.0 < steepness < 1.0:
            raise ValueError(f"InvertibleResidual needs 0 < steepness < 1; got {steepness}.")
        if not (tolerance > 0.0 and truncation > 0.0):
            raise ValueError(
                f"InvertibleResidual needs tolerance and truncation above zero; got {tolerance} "
                f"and {truncation}."
            )
        key_net, key_probes = split_key(key, 2)
        self.change = LipschitzNetwork(dim, width, depth, steepness=steepness, key=key_net)
        self.probes = probes_for(dim, exact_up_to, n_probes, key=key_probes)
        self.tolerance, self.truncation = float(tolerance), float(truncation)
        self.in_shape = self.out_shape = (dim,)

    def forward_and_log_det(
        self, x: Float[Array, " dim"], *, key: Key | None = None
    ) -> tuple[Float[Array, " dim"], Scalar]:
        return self._add(self.change.bounded(), x, key)

    def inverse_and_log_det(self, z: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Scalar]:
        change = self.change.bounded()
        x = self._solve(change.run, z)
        return x, -self._add(change, x, None)[1]

    def _add(self, change: LipschitzNetwork, x: Array, key: Key | None) -> tuple[Array, Array]:
        moved, push = jax.linearize(change.run, x)
        probes = directions_at(self.probes, x, key)
        if probes is None:
            unit = jnp.eye(len(x), dtype=x.dtype)
            return x + moved, _log_det(unit + jax.vmap(push)(unit))  # of J transposed
        held, still = jax.lax.stop_gradient((change, x))
        _, pull = jax.vjp(held.run, still)
        most = self._most_terms(self.truncation / len(x))

        def estimate(probe: Array) -> Array:
            value, factor = _series(pull, probe, change.steepness, self.truncation, most)
            slope = jnp.dot(factor, push(probe))
            return value + slope - jax.lax.stop_gradient(slope)

        return x + moved, jnp.mean(jax.vmap(estimate)(probes))

    def _solve(self, change: Map, z: Array) -> Array:
        """The x with x + change(x) = z, and its derivatives."""
        c = self.change.steepness
        finest = max(self.tolerance, 4 * float(jnp.finfo(z.dtype).eps) * c / (1 - c))
        most = self._most_terms(1e-4 * finest)  # even where the first step is a large one

        def limit(step: Map, start: Array) -> Array:
            return _limit(step, start, c, finest, most)

        def inverted(push: Map, right: Array) -> Array:
            return limit(lambda v: right - (push(v) - v), right)

        return jax.lax.custom_root(
            lambda x: x + change(x) - z,
            z,
            lambda _, start: limit(lambda x: z - change(x), start),
            lambda push, y: jax.lax.custom_linear_solve(push, y, inverted, inverted),
        )

    def _most_terms(self, precision: float) -> int:
        """After how many powers of c what is left is below `precision`, whatever the row."""
        c = self.change.steepness
        return 2 + math.ceil(math.log(precision * (1 - c)) / math.log(c))


def _log_det(matrix: Float[Array, "dim dim"]) -> Scalar:
    r"""$\log\det(I + J)$; J shrinks, and so do its leading blocks, so that no pivot is zero.

    LAPACK's factorisation of a batch waits for threads of the pool that runs it: as many programs
    at a time as there are threads wait for one another for ever.
    """
    places = jnp.arange(len(matrix))

    def eliminate(rest: Array, k: Array) -> tuple[Array, Array]:
        factors = jnp.where(places > k, rest[:, k] / rest[k, k], 0)
        return rest - jnp.outer(factors, rest[k]), jnp.log(rest[k, k])

    _, logs = jax.lax.scan(eliminate, matrix, places)
    return jnp.sum(logs)


def _limit(step: Map, start: Array, c: float, tolerance: float, most: int) -> Array:
    """The fixed point of a map that shrinks distances to c times as much."""

    def goes_on(carry: tuple[Array, Array, Array]) -> Array:
        x, last, i = carry
        error = c / (1 - c) * jnp.sqrt(jnp.sum(jnp.square((x - last) / _size(x))))
        return (error > tolerance) & (i < most)

    def again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, _, i = carry
        return step(x), x, i + 1

    first = (step(start), start, jnp.asarray(1))
    return jax.lax.while_loop(goes_on, again, first)[0]


def _size(x: Array) -> Array:
    return jnp.maximum(jnp.max(jnp.abs(x)), 1.0)


def _series(
    pull: Callable[[Array], tuple[Array]], probe: Array, c: float, truncation: float, most: int
) -> tuple[Array, Array]:
    r"""$\sum_k (-1)^{k+1} \epsilon^\top J^k \epsilon / k$ and $\epsilon^\top (I + J)^{-1}$."""

    def goes_on(carry: tuple[Array, Array, Array, Array]) -> Array:
        _, _, power, k = carry
        sizes = jnp.sqrt(jnp.sum(jnp.square(probe)) * jnp.sum(jnp.square(power)))
        left = sizes * c / ((k.astype(probe.dtype) + 1) * (1 - c))
        return (left > truncation) & (k < most)

    def again(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        value, factor, power, k = carry
        (power,) = pull(power)
        sign = 1 - 2 * (k % 2).astype(probe.dtype)  # (-1)^k, of term k + 1 of the logarithm
        value = value + sign * jnp.dot(power, probe) / (k + 1).astype(probe.dtype)
        return value, factor - sign * power, power, k + 1

    start = (jnp.zeros((), probe.dtype), probe, probe, jnp.asarray(0))
    value, factor, _, _ = jax.lax.while_loop(goes_on, again, start)
    return value, factor
