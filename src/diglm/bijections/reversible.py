r"""Back-propagation in constant memory: features are inverted on the way back instead of kept.

Ordinary back-propagation through L blocks keeps what each of them computed. A bijection need not:
from its output its input can be had again. So the forward pass keeps the last output only, and the
backward pass goes through the blocks from the last to the first, each giving back its input and
its gradients (`AbstractBijection.retrace`). Memory is that of one block, whatever L.

Reference: Gomez et al. (2017), https://arxiv.org/abs/1707.04585
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def run_reversibly(
    blocks: Any, x: Float[Array, "..."], total: Float[Array, "*rows"]
) -> tuple[Float[Array, "..."], Float[Array, "*rows"]]:
    """Stacked blocks applied in turn, as a scan would, with a backward pass that inverts them."""
    trained, rest = eqx.partition(blocks, eqx.is_inexact_array)
    return _run((trained, x, total), rest)


@eqx.filter_custom_vjp
def _run(operands: tuple, rest: Any) -> tuple[Array, Array]:
    trained, x, total = operands
    return _scan_forward(trained, rest, x, total)


@_run.def_fwd
def _run_forward(perturbed: Any, operands: tuple, rest: Any) -> tuple[tuple[Array, Array], Array]:
    trained, x, total = operands
    z, total = _scan_forward(trained, rest, x, total)
    return (z, total), z


@_run.def_bwd
def _run_backward(z: Array, gradients: tuple, perturbed: Any, operands: tuple, rest: Any) -> tuple:
    trained, x, total = operands
    grad_z, grad_total = gradients
    grad_z = jnp.zeros_like(z) if grad_z is None else grad_z
    grad_total = jnp.zeros_like(total) if grad_total is None else grad_total
    arrays, static = eqx.partition(rest, eqx.is_array)

    def step(carry, sliced):
        z, grad_z = carry
        block = eqx.combine(*sliced, static)
        x, grad_x, grad_block = block.retrace(z, grad_z, grad_total)
        return (x, grad_x), eqx.filter(grad_block, eqx.is_inexact_array)

    (_, grad_x), grad_trained = jax.lax.scan(step, (z, grad_z), (trained, arrays), reverse=True)
    return grad_trained, grad_x, grad_total


def _scan_forward(trained: Any, rest: Any, x: Array, total: Array) -> tuple[Array, Array]:
    arrays, static = eqx.partition(rest, eqx.is_array)

    def step(carry, sliced):
        x, total = carry
        x, log_det = eqx.combine(*sliced, static).forward_and_log_det(x)
        return (x, total + log_det), None

    return jax.lax.scan(step, (x, total), (trained, arrays))[0]
