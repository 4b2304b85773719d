"""Rows a second that `score_file` writes: in one process, and on one and two workers of Ray Data.

    python benchmarks/scoring.py [--out results/scoring.json] [--rounds 1]

A model of the flight study's size (8 affine couplings of 8 columns, one hidden layer of 100 units)
answers tables of two lengths in Parquet. The difference of the seconds is rows; what is left is
what every call costs: starting workers, loading the model and compiling it in each of them. Ray is
running before, as it is on a cluster, and one process has compiled before. Engines and lengths
are asked in a random order each round. All write the same rows.
"""

import argparse
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from rich.console import Console
from rich.table import Table

from diglm import HybridRegressor
from diglm.recipes import CouplingFlow
from diglm.report.results import write_result

DIM, BLOCKS, WIDTH, BLOCK = 8, 8, 100, 50_000
LENGTHS = (200_000, 4_000_000)
os.environ.setdefault("RAY_worker_niceness", "0")  # workers give way by default; here all are equal
ENGINES = {
    "one process": {"engine": "local"},
    "Ray, 1 worker": {"engine": "ray", "n_workers": 1},
    "Ray, 2 workers": {"engine": "ray", "n_workers": 2},
}


def table(path: Path, n_rows: int) -> Path:
    """Rows on disk, in row groups of 50,000."""
    generator = np.random.default_rng(0)
    names = [f"x{i}" for i in range(DIM)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(n_rows // BLOCK):
            columns = generator.normal(size=(DIM, BLOCK))
            writer.write_table(pa.table(dict(zip(names, columns, strict=True))), BLOCK)
    return path


def fitted() -> HybridRegressor:
    """A model of that size; how well it is fitted does not matter here."""
    x = np.random.default_rng(1).normal(size=(5_000, DIM))
    rows = pa.table({f"x{i}": x[:, i] for i in range(DIM)}).to_pandas()
    flow = CouplingFlow(members=1, tail=0)
    model = HybridRegressor(
        flow,
        n_blocks=BLOCKS,
        width=WIDTH,
        depth=1,
        head="heteroscedastic",
        n_epochs=1,
        score="density",
        random_state=0,
        verbose=False,
    )
    return model.fit(rows, x[:, 0] * np.tanh(x[:, 1]))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="results/scoring.json")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    started = time.perf_counter()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    model = fitted()
    seconds: dict[str, dict[int, list[float]]] = {
        name: {n: [] for n in LENGTHS} for name in ENGINES
    }
    with tempfile.TemporaryDirectory() as room:
        paths = {n: table(Path(room) / f"{n}.parquet", n) for n in LENGTHS}
        model.score_file(paths[LENGTHS[0]], Path(room) / "answers.parquet")  # compiles
        for round_ in range(options.rounds):
            turns = [(name, n) for name in ENGINES for n in LENGTHS]
            for name, n in random.Random(round_).sample(turns, len(turns)):
                since = time.perf_counter()
                out = model.score_file(paths[n], Path(room) / "answers.parquet", **ENGINES[name])
                seconds[name][n].append(time.perf_counter() - since)
                Console(stderr=True).print(f"{name}, {n:,} rows: {seconds[name][n][-1]:.1f} s")
                written = pq.read_metadata(out).num_rows
                if written != n:
                    raise RuntimeError(f"{name} wrote {written} of {n} rows.")
    ray.shutdown()
    shown, found = Table("engine", "rows a second", "seconds before the first"), {}
    few, many = LENGTHS
    for name, taken in seconds.items():
        short, long = (statistics.median(taken[n]) for n in LENGTHS)
        speed = (many - few) / (long - short)
        found[name] = {
            "rows_a_second": speed,
            "seconds_before": max(short - few / speed, 0.0),
            "seconds": {str(n): taken[n] for n in LENGTHS},
        }
        shown.add_row(name, f"{speed:,.0f}", f"{found[name]['seconds_before']:.1f}")
    Console().print(shown)
    config = {"lengths": LENGTHS, "columns": DIM, "blocks": BLOCKS, "width": WIDTH}
    config |= {"rounds": options.rounds}
    total = time.perf_counter() - started
    write_result(options.out, config=config, seed=0, seconds=total, metrics=found)


if __name__ == "__main__":
    main()
