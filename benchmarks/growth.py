"""How the cost of a training step grows with depth, width and batch, as ratios.

    python benchmarks/growth.py [--out results/growth.json] [--rounds 5]

The flight study's model (8 affine couplings of 8 columns, one hidden layer of 100 units, batches of
512) with one of its sizes changed at a time. All take turns in a random order each round; a ratio
is to the model itself in the same round. A step's arithmetic grows in proportion to couplings,
hidden units and rows; what does not is the cost of a step however small.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from diglm import Flow, Hybrid, flows
from diglm.heads import make_head
from diglm.objectives import JointObjective
from diglm.report.results import write_result
from diglm.training.settings import Schedule, Settings
from diglm.training.state import State
from diglm.training.step import Shared, Sums, run_chunk
from diglm.types import Batch

DIM, STEPS = 8, 100
SIZES = {"couplings": 8, "hidden units": 100, "rows": 512}
CHANGED = {"couplings": (4, 16, 32), "hidden units": (50, 200, 400), "rows": (128, 2048, 8192)}


def stepper(sizes: dict[str, int]) -> Callable[[], None]:
    """A compiled loop of steps."""
    n_blocks, n_rows = sizes["couplings"], sizes["rows"]
    bijection = flows.coupling(
        DIM, n_blocks=n_blocks, width=sizes["hidden units"], depth=1, key=jax.random.key(0)
    )
    model = Hybrid(Flow(bijection), make_head("heteroscedastic", DIM))
    shared = Shared(model, JointObjective(1 / DIM), Schedule.of(Settings(), 10**6))
    x = np.random.default_rng(0).normal(size=(STEPS, n_rows, DIM)).astype(np.float32)
    y = x[..., 0] * np.tanh(x[..., 1])
    chunk = Batch(*map(jnp.asarray, (x, y, np.ones(y.shape, bool), np.ones_like(y))))
    fixed = (shared, chunk, jnp.asarray(STEPS, jnp.int32), jax.random.key(0))
    state = State.start(model)

    def run() -> None:
        nonlocal state
        state, _ = jax.block_until_ready(run_chunk(fixed, state, Sums.zero(jnp.float32)))

    return run


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="results/growth.json")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    started = time.perf_counter()
    variants = {"itself": SIZES}
    for name, values in CHANGED.items():
        variants |= {f"{value} {name}": SIZES | {name: value} for value in values}
    runs = {name: stepper(sizes) for name, sizes in variants.items()}
    for run in runs.values():  # compiles
        run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(options.rounds):
        for name in random.Random(round_).sample(list(runs), len(runs)):
            since = time.perf_counter()
            runs[name]()
            seconds[name].append((time.perf_counter() - since) / STEPS)
    table = Table("model", "ms a step", "times itself", "times the size")
    found = {}
    for name, taken in seconds.items():
        ratios = [a / b for a, b in zip(taken, seconds["itself"], strict=True)]
        changed = [k for k in SIZES if variants[name][k] != SIZES[k]]
        size = variants[name][changed[0]] / SIZES[changed[0]] if changed else 1.0
        found[name] = {
            "ms_a_step": 1e3 * statistics.median(taken),
            "times_itself": statistics.median(ratios),
            "times_the_size": size,
        }
        table.add_row(name, *(f"{value:.2f}" for value in found[name].values()))
    Console().print(table)
    config = {"sizes": SIZES, "columns": DIM, "rounds": options.rounds}
    total = time.perf_counter() - started
    write_result(options.out, config=config, seed=0, seconds=total, metrics=found)


if __name__ == "__main__":
    main()
