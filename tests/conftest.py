"""Every test runs in 64 bits, with strict types and shapes, and with annotations checked.

The hook must be in place before `diglm` is first imported, so nothing here imports it.
"""

import gc
import importlib
import math
import os
import sys
from pathlib import Path

# Where no bytecode is to be written beside sources, as in containers, each of the hundred processes
# that tests start would compile all of JAX and SciPy anew: seconds each. It is kept elsewhere.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.pycache_prefix = str(Path(__file__).parent.parent / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

# Tests compile hundreds of small programs and run each once: compile quickly, run slowly. Emitting
# fusions by LLVM alone, in one piece, takes less than half of the time that a tiny fit takes else.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1",
)

import hypothesis
import jax
import jaxtyping
import numpy as np
import pytest

# Workers of one run share what they compile, and so does the next run: even the smallest program is
# read in half the time that compiling it takes.
CACHE = Path(__file__).parent.parent / ".pytest_cache" / "programs"
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
# Estimators check what people give them by themselves, with errors that say more.
ROOMS = "data networks bijections bases flows heads completion hybrid objectives training recipes"
ROOMS += " refusal targets predictor fitting report experiments registry parameters types rows"
jaxtyping.install_import_hook([f"diglm.{room}" for room in ROOMS.split()], "beartype.beartype")

hypothesis.settings.register_profile("diglm", deadline=None, max_examples=50, derandomize=True)
hypothesis.settings.load_profile("diglm")


MOST_MAPPINGS = 45_000  # of memory; Linux grants a process 65,530
MOST_MEMORY = 5 * 2**30  # bytes; two workers and what they start must fit into a small machine
LOOK_EVERY = 300  # programs; to read the list of mappings takes as long as two or three of them
compiled: list[float] = []  # seconds that programs took since the last look


def note_program(event: str, seconds: float, **_) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        compiled.append(seconds)


jax.monitoring.register_event_duration_secs_listener(note_program)


@pytest.fixture(autouse=True)
def seeded():
    """Fits that are given no seed draw it here, the same in every run."""
    np.random.seed(0)


@pytest.fixture(autouse=True, scope="session")
def fits_without_folds():
    """Small tables are fitted once: with folds a fit is six. Tests of folds are marked so."""
    from diglm.refusal.rules import usual

    fewest = usual.FEWEST_TO_FOLD
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(usual, "FEWEST_TO_FOLD", math.inf)
        yield fewest


@pytest.fixture(autouse=True, scope="session")
def mappings_counted_here():
    """A fit reads how many mappings there are; `bounded_programs` does so less often."""
    with pytest.MonkeyPatch.context() as patch:
        run = importlib.import_module("diglm.fitting.run")  # the package names its function so, too
        patch.setattr(run, "drop_programs", lambda: None)
        yield


@pytest.fixture(autouse=True)
def folded(request, fits_without_folds):
    """For tests that are marked so, folds as people have them."""
    if request.node.get_closest_marker("folds"):
        patch = request.getfixturevalue("monkeypatch")
        patch.setattr("diglm.refusal.rules.usual.FEWEST_TO_FOLD", fits_without_folds)


@pytest.fixture(autouse=True)
def bounded_programs():
    """Drop compiled programs before the process runs out of memory mappings, and crashes.

    Each program holds several mappings for its code; the suite compiles thousands. Memory is given
    back, or there would always seem to be too little from then on.
    """
    yield
    maps = Path("/proc/self/maps")
    if len(compiled) >= LOOK_EVERY and maps.exists():
        compiled.clear()
        if maps.read_bytes().count(b"\n") > MOST_MAPPINGS or _memory() > MOST_MEMORY:
            compiling = importlib.import_module("diglm.compiling")
            compiling.drop_programs()


def _memory() -> int:
    """Bytes that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def pytest_collection_finish() -> None:
    """Pass over what was imported, a million objects that stay, in the search for garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture
def key() -> jax.Array:
    """The key of a test that needs one."""
    return jax.random.key(0)
