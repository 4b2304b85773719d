"""diglm beside other flow libraries: one training step, and scoring 100,000 rows, as ratios.

    python benchmarks/speed.py [--out results/speed.json] [--rounds 7] [--without-compiled]

All libraries hold the same model of 10,464 parameters (see peers.py), run in one process, and take
turns in a random order each round. Only ratios within a round are claims; a machine's mood slows
all alike.
"""

import argparse
import importlib.metadata
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from diglm import Flow, Hybrid, flows
from diglm.heads import make_head
from diglm.objectives import JointObjective
from diglm.predictor import evaluate as engine
from diglm.report.results import write_result
from diglm.training.settings import Schedule, Settings
from diglm.training.state import State, restore
from diglm.training.step import Common, Shared, Turn, run_epoch
from diglm.types import Batch, partition
from peers import COUPLINGS, DIM, PEERS, RATE, WIDTH, AbstractPeer, check, interleave, summary, toy


class Diglm(AbstractPeer):
    """The library's own training epoch and its own scoring engine.

    The step is the one estimators run, with everything it carries: shuffled rows, guard against
    non-finite steps, clipping, schedule and averaged weights. Rows have no labels, so the
    objective is the density alone, as for the others.
    """

    name, package = "diglm", "diglm"

    def prepare(self, xs_train, batch=100):
        """Build the flow and compile an epoch."""
        bijection = flows.coupling(
            DIM,
            n_blocks=COUPLINGS,
            width=WIDTH,
            depth=1,
            mixing="exchange",
            activation="relu",
            unroll=COUPLINGS,
            key=jax.random.key(0),
        )
        self._model = Hybrid(Flow(bijection), make_head("gaussian", DIM))
        n, self._batch = len(xs_train), batch
        nothing = jnp.zeros(n)
        rows = Batch(jnp.asarray(xs_train), nothing, nothing > 0, nothing + 1)
        settings = Settings(learning_rate=RATE, warmup=0.0, final_rate=0.999)
        objective = JointObjective(1.0, density_only=True)
        schedule = Schedule.of(settings, 10**6)
        shared = Shared(self._model, objective, schedule)
        self._common = Common(shared, rows, None, None, batch)
        self._rng = np.random.default_rng(0)
        self._rows = n
        self._state = State.start(self._model)
        self.train(n // batch)
        self._state = State.start(self._model)

    @property
    def n_parameters(self):
        """Trained numbers of the flow (the head reads labels, of which there are none)."""
        return sum(leaf.size for leaf in jax.tree.leaves(partition(self._model.flow)[0]))

    def train(self, n_steps):
        """Steps in epochs of at most all rows, each epoch one compiled loop."""
        terms, per_epoch = None, self._rows // self._batch
        self._trained = None
        while n_steps > 0:
            order = jnp.asarray(self._rng.permutation(self._rows), jnp.int32)
            steps = jnp.asarray(min(n_steps, per_epoch), jnp.int32)
            key = jax.random.key(0, impl="unsafe_rbg")
            self._state, terms, _ = run_epoch((self._common, Turn(order, steps, key)), self._state)
            n_steps -= per_epoch
        jax.block_until_ready(self._state)
        return float("nan") if terms is None else float(terms.loss)

    def _score(self, xs, setting):
        if self._trained is None:  # as estimators do, once after training
            self._trained = restore(self._model, self._state.weights, self._state.fixed)
        return engine.evaluate(engine.density, self._trained, xs, np.zeros((1, DIM))).log_px

    score_settings = (None,)


def run(rounds: int, with_compiled: bool) -> dict:
    """Check that all do one job, then time them in turns."""
    console = Console(stderr=True)
    kinds = [kind for kind in PEERS if with_compiled or "compiled" not in kind.name]
    peers = [Diglm(), *(kind() for kind in kinds if kind.available())]
    console.print("checking that all libraries do the same job (compiling takes a while)")
    log_density = check(peers)
    n_steps = 100
    xs, _ = toy(10_000)
    for peer in peers:
        peer.prepare(xs)
    rows = np.random.default_rng(3).normal(size=(100_000, DIM)).astype(np.float32)
    console.print("timing in turns")
    steps = interleave({p.name: partial(p.train, n_steps) for p in peers}, rounds)
    scores = interleave({p.name: partial(p.score, rows) for p in peers}, rounds)
    found = {}
    for peer in peers:
        version = importlib.metadata.version(peer.package)
        step, score = (summary(s, "diglm")[peer.name] for s in (steps, scores))
        found[peer.name] = {
            "version": version,
            "parameters": peer.n_parameters,
            "log_density_after_200_steps": log_density[peer.name],
            "step_ms": 1e3 * step.median / n_steps,
            "step_ratio": step.ratio,
            "step_ratio_range": [step.ratio_low, step.ratio_high],
            "score_100k_s": score.median,
            "score_ratio": score.ratio,
            "score_ratio_range": [score.ratio_low, score.ratio_high],
        }
    return found


def show(found: dict) -> None:
    """Print the ratios for people."""
    table = Table("library", "ms a step", "times diglm's", "s for 100,000 rows", "times diglm's")
    for name, numbers in found.items():
        table.add_row(
            f"{name} {numbers['version']}",
            f"{numbers['step_ms']:.2f}",
            f"{numbers['step_ratio']:.1f}",
            f"{numbers['score_100k_s']:.3f}",
            f"{numbers['score_ratio']:.1f}",
        )
    Console().print(table)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="results/speed.json")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--without-compiled", action="store_true", help="leave torch.compile out")
    options = parser.parse_args()
    started = time.perf_counter()
    found = run(options.rounds, not options.without_compiled)
    show(found)
    config = {"rounds": options.rounds, "batch": 100, "rows": 100_000, "steps_a_round": 100}
    seconds = time.perf_counter() - started
    write_result(options.out, config=config, seed=0, seconds=seconds, metrics=found)


if __name__ == "__main__":
    main()
