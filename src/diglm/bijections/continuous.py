"""Continuous-time flow: features are where an ordinary differential equation has taken the row."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diglm.bijections.base import AbstractBijection
from diglm.bijections.estimates import Probes, directions_at, probes_for
from diglm.networks import MLP
from diglm.networks.base import map_rows
from diglm.optional import optional, require
from diglm.types import Key, Scalar, split_key

MOST_STEPS = 256  # of the solver; 16 squared, as its differentiable loops nest


class NeuralODE(AbstractBijection):
    r"""$z = x(1)$, where $x(0) = x$ and $\dot x = v(x, t)$; the inverse goes from 1 back to 0.

    $$\log|\det \partial z / \partial x| = \int_0^1 tr\, \frac{\partial v}{\partial x}(x(t), t)\,
    dt,$$
    solved along with x. v is a network with tanh, bounded and smooth, so that the equation has
    one solution through every row however far out. The trace is exact, by a derivative a
    dimension, up to `exact_up_to` dimensions, and above it Hutchinson's mean over fixed probes:
    see `diglm.bijections.estimates`. What the solver leaves, in x and in the log-determinant, is
    of the order of `tolerance`; a row that `MOST_STEPS` steps cannot solve is NaN.

    Reference: Grathwohl et al. (2019), https://arxiv.org/abs/1810.01367

    Args:
        dim: of a row.
        width: of the hidden layers of v.
        depth: number of hidden layers.
        tolerance: of the adaptive solver, relative and absolute.
        solver: a Runge-Kutta method of diffrax, by name.
        exact_up_to: dimensions up to which the trace is exact.
        n_probes: above it.
        key: seeds weights and probes.
    """

    field: MLP
    probes: Probes | None
    tolerance: float = eqx.field(static=True)
    solver: str = eqx.field(static=True)
    in_shape: tuple[int, ...] = eqx.field(static=True)
    out_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        width: int,
        depth: int,
        *,
        tolerance: float = 1e-5,
        solver: str = "Tsit5",
        exact_up_to: int = 16,
        n_probes: int = 8,
        key: Key,
    ):
        if not tolerance > 0:
            raise ValueError(f"NeuralODE needs a tolerance above zero; got {tolerance}.")
        if not hasattr(_diffrax(), solver):
            raise ValueError(f"NeuralODE needs a solver that diffrax has; got {solver!r}.")
        key_net, key_probes = split_key(key, 2)
        self.field = MLP(dim + 1, dim, width, depth, activation="tanh", key=key_net)
        self.probes = probes_for(dim, exact_up_to, n_probes, key=key_probes)
        self.tolerance, self.solver = float(tolerance), solver
        self.in_shape = self.out_shape = (dim,)

    def forward_and_log_det(
        self, x: Float[Array, " dim"], *, key: Key | None = None
    ) -> tuple[Float[Array, " dim"], Scalar]:
        return self._solve(x, 0.0, 1.0, key, "DirectAdjoint")

    def inverse_and_log_det(self, z: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Scalar]:
        return self._solve(z, 1.0, 0.0, None, "DirectAdjoint")

    def forward_batch(
        self, xs: Float[Array, "rows dim"], *, key: Key | None = None, start: bool = False
    ) -> tuple[Float[Array, "rows dim"], Float[Array, " rows"], "NeuralODE"]:
        """As for one row, but differentiated in reverse alone, which takes less memory and time."""

        def solve(x: Array, key: Key | None) -> tuple[Array, Array]:
            return self._solve(x, 0.0, 1.0, key, "RecursiveCheckpointAdjoint")

        return *map_rows(solve, xs, key=key), self

    def _solve(
        self, x: Array, start: float, end: float, key: Key | None, adjoint: str
    ) -> tuple[Array, Array]:
        diffrax = _diffrax()
        probes = directions_at(self.probes, x, key)

        def velocity(t: Array, state: tuple[Array, Array], _: Any) -> tuple[Array, Array]:
            x, _ = state
            moves = lambda x: self.field(jnp.concatenate([x, t.astype(x.dtype)[None]]))  # noqa: E731
            return _velocity_and_trace(moves, x, probes)

        begin, stop = (jnp.asarray(t, x.dtype) for t in (start, end))
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(velocity),
            getattr(diffrax, self.solver)(),
            begin,
            stop,
            None,
            (x, jnp.zeros((), x.dtype)),
            stepsize_controller=diffrax.PIDController(rtol=self.tolerance, atol=self.tolerance),
            adjoint=getattr(diffrax, adjoint)(),
            max_steps=MOST_STEPS,
            throw=False,
        )
        z, log_det = (part[-1] for part in solution.ys)
        solved = solution.result == diffrax.RESULTS.successful
        return jnp.where(solved, z, jnp.nan), jnp.where(solved, log_det, jnp.nan)


def _velocity_and_trace(moves: Any, x: Array, probes: Array | None) -> tuple[Array, Array]:
    """v(x), and the trace of its Jacobian: exact, or the mean over the probes."""
    directions = jnp.eye(len(x), dtype=x.dtype) if probes is None else probes
    velocity, push = jax.linearize(moves, x)
    traces = jnp.sum(directions * jax.vmap(push)(directions), axis=1)
    return velocity, jnp.sum(traces) if probes is None else jnp.mean(traces)


def _diffrax() -> Any:
    """The package, which is imported at its first use; or an error that says how to get it."""
    found = optional("diffrax", "flows")
    require(found)
    return found
