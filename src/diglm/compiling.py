"""How programs are compiled: for the least time in all, that of compiling and that of running."""

import contextlib
import ctypes
import functools
import gc
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
from jax._src import xla_bridge  # the only one who knows whether JAX has started

from diglm.places import cache_folder

Function = TypeVar("Function", bound=Callable)

# A training step at a few hundred rows is about two hundred operations of a few microseconds.
# Matrix products this small lose more by being handed to a thread pool, or to a library that
# prepares its operands, than they gain; and a schedule for concurrency keeps more memory alive.
# Measured together on steps of couplings of 8 to 64 columns: 3 to 13 % less time a step.
SMALL_OPERATIONS: dict[str, bool | str | int] = {
    "xla_cpu_multi_thread_eigen": False,
    "xla_cpu_enable_concurrency_optimized_scheduler": False,
    "xla_cpu_experimental_ynn_fusion_type": "",
}

# LLVM's first level of optimisation takes a third less time than its usual one. Scores of tables
# are as fast, steps at a hundred rows slower by an eighth, so long runs do without. Images were
# not measured.
LESS_OPTIMISED: dict[str, bool | str | int] = {"xla_backend_optimization_level": 1}

# Fused operations written straight to LLVM, not by way of MLIR, compile sooner: an epoch by a
# sixth, the fit of a head by half. Small products that may be handed to threads are calls of a
# library; else each is written out, which is half of an epoch's program. Steps of tables are as
# fast at a few hundred rows and slower by a quarter at one hundred, which outweighs it after some
# 30,000 of them. Not measured on images.
SOON_COMPILED: dict[str, bool | str | int] = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_multi_thread_eigen": True,
    **LESS_OPTIMISED,
}
MANY_STEPS = 30_000

# Not optimised at all, a program that runs once or twice compiles in a third of the time again. It
# then computes several times as slowly, which is worth it where there is little to compute.
NOT_OPTIMISED: dict[str, bool | str | int] = SOON_COMPILED | {"xla_backend_optimization_level": 0}
LITTLE = 200_000  # numbers in its arguments: a few thousand rows


def _known(options: dict[str, bool | str | int]) -> dict[str, bool | str | int]:
    """Those that this version of XLA knows; options come and go."""
    if not options or _knows(tuple(options.items())):
        return options
    return {name: value for name, value in options.items() if _knows(((name, value),))}


@functools.cache
def _knows(options: tuple[tuple[str, bool | str | int], ...]) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options=dict(options)).lower().compile()
    except Exception:  # an unknown option is no reason not to train
        return False
    return True


def _jit(function: Callable, options: dict[str, bool | str | int], **more: Any) -> Callable:
    asked = os.environ.get("XLA_FLAGS", "")  # what a person has set stays as it was set
    if known := _known({name: value for name, value in options.items() if name not in asked}):
        more["compiler_options"] = known
    return eqx.filter_jit(function, **more)


def jit_loop(function: Function) -> Function:
    """`eqx.filter_jit` for training's loops; all arguments but the first are donated.

    The first is a tuple whose first entry says, as `small`, whether the loop's operations are, and
    as `brief`, whether there are few steps. Large operations are shared out to the cores, as XLA
    does by itself.

    Compiling is set up at the first call: asking XLA for its options starts JAX, which several
    processes must not do before they have found one another.
    """

    @functools.cache
    def compiled(small: bool, brief: bool) -> Callable:
        options = SMALL_OPERATIONS if small else {}
        if small and brief:
            options = options | SOON_COMPILED
        return _jit(function, options, donate="all-except-first")

    @functools.wraps(function)
    def call(fixed: tuple[Any, ...], *args: Any) -> Any:
        return compiled(fixed[0].small, fixed[0].brief)(fixed, *args)

    return call  # type: ignore[return-value]


def jit_once(function: Function) -> Function:
    """`eqx.filter_jit` for programs that run once or twice, in less time than compiling takes."""

    @functools.cache
    def compiled(little: bool) -> Callable:
        return _jit(function, NOT_OPTIMISED if little else SOON_COMPILED)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        n_numbers = sum(leaf.size for leaf in jax.tree.leaves(args) if eqx.is_array(leaf))
        return compiled(n_numbers < LITTLE)(*args)

    return call  # type: ignore[return-value]


# XLA's library for products adds up in an order that hangs on how many rows there are. Without it
# a row of a table has the same answer, to the last bit, 16 rows at a time or 512.
ROW_BY_ROW: dict[str, bool | str | int] = {"xla_cpu_experimental_ynn_fusion_type": ""}


def jit_often(function: Function, *, row_by_row: bool = False) -> Function:
    """`eqx.filter_jit` for programs that answer about rows, again and again.

    `row_by_row`: a row's answer must not hang on how many are looked at at a time.
    """
    options = LESS_OPTIMISED | ROW_BY_ROW if row_by_row else LESS_OPTIMISED

    @functools.cache
    def compiled() -> Callable:  # at the first call, for the reason that `jit_loop` gives
        return _jit(function, options)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return compiled()(*args)

    return call  # type: ignore[return-value]


MOST_MAPPINGS = 6_000  # of memory: some four shapes of tables


def drop_programs() -> None:
    """Forget compiled programs where they are many, and give their memory back.

    A fit of a new shape leaves programs of a hundred megabytes in some thirteen hundred mappings. A
    process that fits tables of many shapes, such as a search or a benchmark, would run out of
    memory, or of mappings, of which Linux grants a process 65,530. What is asked again is compiled
    again, or read from disk (`use_cache`).
    """
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPPINGS:
        jax.clear_caches()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # not every C library can
            ctypes.CDLL(None).malloc_trim(0)


LEAST_SECONDS = 0.05  # programs that compile faster are not worth a file


def use_cache(path: str | os.PathLike | None = None) -> Path | None:
    """Keep compiled programs on disk, so that the next process need not compile them again.

    A first fit spends most of its time compiling. Commands call this by themselves; notebooks and
    scripts may, before their first fit.

    Args:
        path: a folder; None for `programs` in the user's cache folder (see
            `diglm.places.cache_folder`), or for what `JAX_COMPILATION_CACHE_DIR` says.

    Returns:
        The folder in use; None, with a warning, where it cannot be written.
    """
    given = jax.config.values.get("jax_compilation_cache_dir") if path is None else None
    folder = Path(path or given or cache_folder() / "programs").absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"no permission to write to {folder}")
    except OSError as error:
        warnings.warn(
            f"Compiled programs are not kept: {error}. Name another folder, or set DIGLM_CACHE.",
            UserWarning,
            stacklevel=2,
        )
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    return folder


class _Forks:
    """Whether JAX had started when this process was forked: its threads are not in the child."""

    before = False  # in the parent, at the moment of a fork
    broken = False  # in the child

    @classmethod
    def note(cls) -> None:
        cls.before = cls.broken or xla_bridge.backends_are_initialized()

    @classmethod
    def inherit(cls) -> None:
        cls.broken = cls.before


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_Forks.note, after_in_child=_Forks.inherit)


def require_own_jax() -> None:
    """Raise in a process that was forked after JAX had started: it would wait for ever."""
    if _Forks.broken:
        raise RuntimeError(
            "This process was forked after JAX had started, and JAX does not survive a fork: the "
            "computation would never end. Start workers with multiprocessing's 'spawn' or "
            "'forkserver', joblib's 'loky', or gunicorn without --preload; then load the model in "
            "each of them."
        )
