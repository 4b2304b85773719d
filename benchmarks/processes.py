"""One process beside two that share each batch, on one computer: rows a second.

    python benchmarks/processes.py [--out results/processes.json] [--rounds 7]

Two processes joined by `diglm.distributed.connect` over the loopback address train the model that
one trains, with the same batches: each takes half of the rows of a step, and gradients are summed.
XLA spreads large operations over the cores it finds, so one process is measured twice: held to one
core, and with the two cores that the pair has. Efficiency is rows a second of the pair over twice
those of one process on one core; `gain` is over one process on both cores. Gloo, which carries the
sums between CPUs, waits by spinning, and takes its time from the cores that compute: on computers
with cores to spare, a step of few rows gains more than it does here.

All processes stay alive and take turns, in a random order each round; a turn is one compiled loop
of training steps.
"""

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table

DIM, BLOCKS, WIDTH = 8, 8, 100
STEPS = {1_000: 200, 10_000: 20}  # a turn, by batch: the same number of rows
ALONE, WIDE, PAIR = TEAMS = ((1, 1), (1, 2), (2, 2))  # processes, cores for all of them


def work(process: int, n_processes: int, n_cores: int, address: str, batch: int) -> None:
    """Train for a turn whenever a line arrives, and answer with its seconds and the loss."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:n_cores])
    from diglm.distributed import connect

    if n_processes > 1:
        connect(address, n_processes, process)
    import jax
    import jax.numpy as jnp
    import numpy as np

    from diglm import Flow, Hybrid, flows
    from diglm.heads import make_head
    from diglm.objectives import JointObjective
    from diglm.training.devices import Layout
    from diglm.training.settings import Schedule, Settings
    from diglm.training.state import State
    from diglm.training.step import Shared, Sums, run_chunk
    from diglm.types import Batch

    layout, n_steps = Layout(), STEPS[batch]
    bijection = flows.coupling(
        DIM, n_blocks=BLOCKS, width=WIDTH, depth=1, unroll=BLOCKS, key=jax.random.key(0)
    )
    model = Hybrid(Flow(bijection), make_head("gaussian", DIM))
    schedule = Schedule.of(Settings(), 100 * n_steps)
    shared = layout.replicate(Shared(model, JointObjective(1 / DIM), schedule, layout.mesh))
    state = layout.replicate(State.start(model))
    generator = np.random.default_rng(0)
    x = generator.normal(size=(n_steps, batch, DIM)).astype(np.float32)
    y = x[..., 0] * np.tanh(x[..., 1])
    own = slice(process * batch // n_processes, (process + 1) * batch // n_processes)
    rows = Batch(x, y, np.ones(y.shape, bool), np.ones_like(y))
    rows = layout.spread(Batch(*(column[:, own] for column in rows)))
    steps, key = jnp.asarray(n_steps, jnp.int32), jax.random.key(0, impl="threefry2x32")
    fixed = (shared, rows, *layout.replicate((steps, key)))
    for _ in sys.stdin:
        sums = layout.replicate(Sums.zero(jnp.float32))
        started = time.perf_counter()
        state, sums = jax.block_until_ready(run_chunk(fixed, state, sums))
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, "loss": float(sums.means().loss)}), flush=True)


class Team:
    """Processes that train one model together."""

    def __init__(self, n_processes: int, n_cores: int, batch: int):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        given = (n_processes, n_cores, address, batch)
        self.members = [
            subprocess.Popen(
                [sys.executable, __file__, "--work", *map(str, (i, *given))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for i in range(n_processes)
        ]

    def turn(self) -> dict[str, float]:
        """The seconds of the slowest member, and the loss."""
        for member in self.members:
            assert member.stdin is not None
            print(file=member.stdin, flush=True)
        answers = [self._answer(member) for member in self.members]
        return {"seconds": max(a["seconds"] for a in answers), "loss": answers[0]["loss"]}

    def end(self) -> None:
        """Let the members go home."""
        for member in self.members:
            assert member.stdin is not None
            member.stdin.close()
        for member in self.members:
            member.wait(60)

    @staticmethod
    def _answer(member: subprocess.Popen) -> dict[str, float]:
        assert member.stdout is not None
        for line in member.stdout:
            if line.startswith("{"):  # libraries print lines of their own
                return json.loads(line)
        raise RuntimeError("A training process ended early; see its messages above.")


def compare(batch: int, rounds: int) -> dict[str, Any]:
    """Rows a second of each team, and how the pair compares, over rounds in turns."""
    teams = {team: Team(*team, batch) for team in TEAMS}
    try:
        first = {name: team.turn()["loss"] for name, team in teams.items()}  # compiles
        differ = max(first.values()) - min(first.values())
        if differ > 1e-3:
            raise RuntimeError(f"One process and two trained different models: losses {first}.")
        turns: dict[tuple[int, int], list[float]] = {name: [] for name in TEAMS}
        for round_ in range(rounds):
            for name in random.Random(round_).sample(TEAMS, len(TEAMS)):
                turns[name].append(teams[name].turn()["seconds"])
    finally:
        for team in teams.values():
            team.end()
    n_rows = batch * STEPS[batch]
    ratios = {
        name: [other / pair for other, pair in zip(turns[name], turns[PAIR], strict=True)]
        for name in (ALONE, WIDE)
    }
    return {
        "rows_a_second": {
            f"{n}_processes_{cores}_cores": n_rows / statistics.median(turns[n, cores])
            for n, cores in TEAMS
        },
        "efficiency": statistics.median(ratios[ALONE]) / 2,
        "efficiency_range": [min(ratios[ALONE]) / 2, max(ratios[ALONE]) / 2],
        "gain": statistics.median(ratios[WIDE]),
        "gain_range": [min(ratios[WIDE]), max(ratios[WIDE])],
        "loss_difference": differ,
    }


def show(found: dict[str, Any]) -> None:
    """Print the numbers for people."""
    names = [f"rows/s, {n} on {cores}" for n, cores in TEAMS]
    table = Table("rows a step", *names, "efficiency", "gain")
    for batch, numbers in found.items():
        speeds = [f"{speed:,.0f}" for speed in numbers["rows_a_second"].values()]
        ratios = [
            "{:.2f} ({:.2f} to {:.2f})".format(numbers[name], *numbers[f"{name}_range"])
            for name in ("efficiency", "gain")
        ]
        table.add_row(batch, *speeds, *ratios)
    Console().print(table)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="results/processes.json")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        process, n_processes, n_cores, address, batch = options.work
        return work(int(process), int(n_processes), int(n_cores), address, int(batch))
    from diglm.report.results import write_result

    started = time.perf_counter()
    found = {str(batch): compare(batch, options.rounds) for batch in STEPS}
    show(found)
    config = {
        "rounds": options.rounds,
        "columns": DIM,
        "blocks": BLOCKS,
        "width": WIDTH,
        "rows_a_turn": {str(batch): batch * steps for batch, steps in STEPS.items()},
        "cores": os.cpu_count(),
    }
    seconds = time.perf_counter() - started
    write_result(options.out, config=config, seed=0, seconds=seconds, metrics=found)


if __name__ == "__main__":
    main()
