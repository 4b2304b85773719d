"""How loops of many small operations are compiled: for the least cost an operation on the CPU."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax

Function = TypeVar("Function", bound=Callable)

# A training step at a few hundred rows is about two hundred operations of a few microseconds.
# Matrix products this small lose more by being handed to a thread pool, or to a library that
# prepares its operands, than they gain; and a schedule for concurrency keeps more memory alive.
# Measured together on steps of couplings of 8 to 64 columns: 3 to 13 % less time a step.
SMALL_OPERATIONS: dict[str, bool | str] = {
    "xla_cpu_multi_thread_eigen": False,
    "xla_cpu_enable_concurrency_optimized_scheduler": False,
    "xla_cpu_experimental_ynn_fusion_type": "",
}


@functools.cache
def known_options() -> dict[str, bool | str]:
    """Those of `SMALL_OPERATIONS` that this version of XLA knows; they come and go."""
    known = {}
    for name, value in SMALL_OPERATIONS.items():
        try:
            jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
        except Exception:  # an unknown option is no reason not to train
            continue
        known[name] = value
    return known


def jit_loop(function: Function) -> Function:
    """`eqx.filter_jit` for training's loops; all arguments but the first are donated.

    The first is a tuple whose first entry says, as `small`, whether the loop's operations are. The
    others are large enough to be shared out to the cores, as XLA does by itself.

    Compiling is set up at the first call: asking XLA for its options starts JAX, which several
    processes must not do before they have found one another.
    """

    @functools.cache
    def compiled(small: bool) -> Callable:
        options: dict[str, Any] = {"compiler_options": known_options()} if small else {}
        return eqx.filter_jit(function, donate="all-except-first", **options)

    @functools.wraps(function)
    def call(fixed: tuple[Any, ...], *args: Any) -> Any:
        return compiled(fixed[0].small)(fixed, *args)

    return call  # type: ignore[return-value]
