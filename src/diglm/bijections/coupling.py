"""Couplings: one part of an example, left as it is, decides how the other part is changed."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.bijections.base import AbstractBijection, sum_over
from diglm.bijections.elementwise import as_shape
from diglm.bijections.spline import (
    check_bound,
    n_spline_parameters,
    spline_forward,
    spline_inverse,
)
from diglm.networks.base import AbstractNetwork
from diglm.types import Key, clamp


class AbstractCoupling(AbstractBijection):
    r"""$z_a = x_a$ and $z_b = g(x_b; \theta)$ with $\theta = f(x_a)$, where g is elementwise.

    The parts lie along the first axis, the first `kept` entries and the others: coordinates of a
    vector, channels of an image (channels, height, width), of which several may lie side by side
    along a last axis.

    The conditioner f sees its input clipped to $[-limit, limit]$. What it can answer is then
    bounded, so a row far outside the data is moved and stretched by no more than rows at the
    edge are: its likelihood stays finite, and its prediction does not explode.
    """

    conditioner: eqx.AbstractVar[AbstractNetwork]
    kept: eqx.AbstractVar[int]
    limit: eqx.AbstractVar[float]

    @abstractmethod
    def change(self, b: Array, raw: Array) -> tuple[Array, Float[Array, "*rows"]]:
        """The transformed part and its log-determinant, given the conditioner's output."""

    @abstractmethod
    def restore(self, b: Array, raw: Array) -> tuple[Array, Float[Array, "*rows"]]:
        """The inverse of `change`, and the log-determinant of the inverse."""

    def forward_and_log_det(
        self, x: Float[Array, "dim ..."], *, key: Key | None = None
    ) -> tuple[Float[Array, "dim ..."], Float[Array, "*rows"]]:
        a, b = self._split(x)
        b, log_det = self.change(b, self.conditioner(self._clip(a), key=key))
        return jnp.concatenate([a, b]), log_det

    def inverse_and_log_det(
        self, z: Float[Array, "dim ..."]
    ) -> tuple[Float[Array, "dim ..."], Float[Array, "*rows"]]:
        a, b = self._split(z)  # the kept part is the same on both sides
        b, log_det = self.restore(b, self.conditioner(self._clip(a)))
        return jnp.concatenate([a, b]), log_det

    def forward_batch(
        self, xs: Float[Array, "..."], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "..."], Float[Array, " rows"], "AbstractCoupling"]:
        axis = 1 if len(self.in_shape) == 1 else 0  # rows of a table come first, of images last
        as_, bs = jnp.split(xs, [self.kept], axis=axis)
        raws, moved = self.conditioner.forward_batch(self._clip(as_), key=key, start=start)
        bs, log_dets = (jax.vmap(self.change) if axis == 1 else self.change)(bs, raws)
        layer = eqx.tree_at(lambda layer: layer.conditioner, self, moved)
        return jnp.concatenate([as_, bs], axis=axis), log_dets, layer

    def retrace(
        self,
        z: Float[Array, "dim ..."],
        grad_z: Float[Array, "dim ..."],
        grad_log_det: Float[Array, "*rows"],
    ) -> tuple[Float[Array, "dim ..."], Float[Array, "dim ..."], "AbstractCoupling"]:
        # One pass through the conditioner serves the inverse and the gradient.
        a, b = self._split(z)
        grad_a, grad_b = self._split(grad_z)
        raw, pull_to_network = eqx.filter_vjp(
            lambda network, a: network(self._clip(a)), self.conditioner, a
        )
        b, _ = self.restore(b, raw)
        _, pull_to_parts = jax.vjp(self.change, b, raw)
        grad_b, grad_raw = pull_to_parts((grad_b, grad_log_det))
        grad_network, more = pull_to_network(grad_raw)
        grad_layer = eqx.tree_at(
            lambda layer: layer.conditioner, jax.tree.map(jnp.zeros_like, self), grad_network
        )
        return jnp.concatenate([a, b]), jnp.concatenate([grad_a + more, grad_b]), grad_layer

    def _split(self, x: Array) -> list[Array]:
        # Not two slices: the gradient of a split is one concatenation, which XLA sees through.
        return jnp.split(x, [self.kept])

    def _clip(self, a: Array) -> Array:
        return clamp(a, -self.limit, self.limit)


class AffineCoupling(AbstractCoupling):
    r"""$z_a = x_a$ and $z_b = x_b \odot e^s + t$, where $(r, t) = f(x_a)$, $s = B \tanh(r / B)$.

    The log-scale is bounded, so the exponential cannot overflow; stacked layers reach any scale.

    Args:
        shape: of the example, or the size of a vector.
        conditioner: network from `kept` to `n_parameters(dim, kept)` numbers, at each place of an
            image; `dim` is the size of the first axis.
        kept: how many entries of the first axis are left as they are; None for half of them.
        bound: B, the largest absolute log-scale.
        limit: largest absolute input that the conditioner sees.

    Reference: Dinh et al. (2017), https://arxiv.org/abs/1605.08803
    """

    conditioner: AbstractNetwork
    kept: int = eqx.field(static=True)
    bound: float = eqx.field(static=True)
    limit: float = eqx.field(static=True)
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        shape: int | tuple[int, ...],
        conditioner: AbstractNetwork,
        *,
        kept: int | None = None,
        bound: float = 1.0,
        limit: float = 8.0,
    ):
        shape = as_shape(shape)
        kept = shape[0] // 2 if kept is None else kept
        n_out = self.n_parameters(shape[0], kept)
        _check_conditioner("AffineCoupling", shape, kept, conditioner, n_out)
        self.conditioner, self.kept = conditioner, kept
        self.bound, self.limit = check_bound("AffineCoupling", bound), float(limit)
        self.in_shape = self.out_shape = shape

    @staticmethod
    def n_parameters(dim: int, kept: int | None = None) -> int:
        """How many numbers the conditioner must give: a log-scale and a shift each."""
        return 2 * (dim - (dim // 2 if kept is None else kept))

    def change(self, b: Array, raw: Array) -> tuple[Array, Float[Array, "*rows"]]:
        log_scale, shift = self._parameters(raw)
        return b * jnp.exp(log_scale) + shift, sum_over(log_scale, self.in_shape)

    def restore(self, b: Array, raw: Array) -> tuple[Array, Float[Array, "*rows"]]:
        log_scale, shift = self._parameters(raw)
        return (b - shift) * jnp.exp(-log_scale), -sum_over(log_scale, self.in_shape)

    def _parameters(self, raw: Array) -> tuple[Array, Array]:
        raw_scale, shift = jnp.split(raw, 2)
        return self.bound * jnp.tanh(raw_scale / self.bound), shift


class SplineCoupling(AbstractCoupling):
    r"""$z_a = x_a$ and $z_b = g(x_b; f(x_a))$, g monotone rational-quadratic splines.

    Inside $[-B, B]$ a spline bends each coordinate freely; outside it is the identity.

    Args:
        dim: size of the vector; the first `dim // 2` coordinates are kept.
        conditioner: network from `dim // 2` to `n_parameters(dim, n_bins)` numbers.
        n_bins: pieces of each spline.
        bound: B, the half-width of the interval.
        limit: largest absolute input that the conditioner sees.

    Reference: Durkan et al. (2019), https://arxiv.org/abs/1906.04032
    """

    conditioner: AbstractNetwork
    kept: int = eqx.field(static=True)
    n_bins: int = eqx.field(static=True)
    bound: float = eqx.field(static=True)
    limit: float = eqx.field(static=True)
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        conditioner: AbstractNetwork,
        *,
        n_bins: int = 8,
        bound: float = 5.0,
        limit: float = 8.0,
    ):
        n_out = self.n_parameters(dim, n_bins)
        _check_conditioner("SplineCoupling", (dim,), dim // 2, conditioner, n_out)
        self.conditioner, self.kept, self.n_bins = conditioner, dim // 2, n_bins
        self.bound, self.limit = check_bound("SplineCoupling", bound), float(limit)
        self.in_shape = self.out_shape = (dim,)

    @staticmethod
    def n_parameters(dim: int, n_bins: int = 8) -> int:
        """How many numbers the conditioner must give."""
        return (dim - dim // 2) * n_spline_parameters(n_bins)

    def change(self, b: Array, raw: Array) -> tuple[Array, Float[Array, "*rows"]]:
        b, log_slope = spline_forward(b, raw.reshape(b.shape[0], -1), self.bound)
        return b, jnp.sum(log_slope)

    def restore(self, b: Array, raw: Array) -> tuple[Array, Float[Array, "*rows"]]:
        b, log_slope = spline_inverse(b, raw.reshape(b.shape[0], -1), self.bound)
        return b, -jnp.sum(log_slope)


def _check_conditioner(
    name: str, shape: tuple[int, ...], n_kept: int, conditioner: AbstractNetwork, n_out: int
) -> None:
    if shape[0] < 2:
        raise ValueError(
            f"{name} splits the first axis of its input, so that must be >= 2; got {shape[0]}."
        )
    if not 1 <= n_kept < shape[0]:
        raise ValueError(
            f"{name} keeps some entries of the first axis and changes the others, so 1 <= kept < "
            f"{shape[0]}; got {n_kept}."
        )
    kept, wanted = (n_kept, *shape[1:]), (n_out, *shape[1:])
    example = jax.ShapeDtypeStruct(kept, jnp.result_type(float))
    try:
        given = eqx.filter_eval_shape(conditioner, example).shape
    except TypeError as error:
        raise ValueError(
            f"{name}({shape}) conditions on shape {kept}, but its conditioner does not take "
            f"that: {error}"
        ) from error
    if given != wanted:
        raise ValueError(
            f"{name}({shape}) needs a conditioner that gives shape {wanted}; this one gives "
            f"{given}."
        )
