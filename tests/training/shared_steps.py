"""What processes that share the work are asked to do: steps, fits, and to die."""

import json
import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from fit_workers import CHUNK_ROWS, after_chunks, arrays_of, end, fit

N_STEPS, N_ROWS, DIM = 6, 12, 4


def steps(rich: bool) -> tuple[list[str], list[np.ndarray]]:
    """Steps shared by all processes: what they exchange in one, and the state they end with.

    A plain flow and head, or, if `rich`, everything that draws noise or ties rows together.
    """
    from diglm import Flow, Hybrid, flows
    from diglm.bijections import BatchNorm, Chain
    from diglm.completion import Completion
    from diglm.heads import CategoricalHead
    from diglm.objectives import Entropy, JointObjective, VirtualAdversarial
    from diglm.training.devices import Layout
    from diglm.training.settings import Schedule, Settings
    from diglm.training.state import State
    from diglm.training.step import Shared, Sums, run_chunk

    layout, key = Layout(), jax.random.key(0)
    dropout = 0.2 if rich else 0.0
    bijection = flows.coupling(
        DIM, n_blocks=2, width=8, depth=1, batch_norm=rich, dropout=dropout, key=key
    )
    columns = np.arange(DIM)
    completion = Completion(np.where(columns == 0, 1.0, 0.0), columns == 1)
    head, objective = CategoricalHead(DIM, 2, l2=0.1), JointObjective(0.3)
    if rich:
        bijection = Chain([BatchNorm(DIM), bijection])
        terms = (Entropy(0.2), VirtualAdversarial(0.5))
        objective = JointObjective(0.3, terms=terms, n_rows=100.0)
    model = Hybrid(Flow(bijection), head, completion, dropout)
    schedule = Schedule.of(Settings(learning_rate=0.01), 20)
    shared = layout.replicate(Shared(model, objective, schedule, layout.mesh))
    count = jnp.asarray(N_STEPS, jnp.int32)
    fixed = (shared, own_rows(layout), *layout.replicate((count, key)))
    given = layout.replicate((State.start(model), Sums.zero(jnp.result_type(float))))
    program = eqx.filter_jit(run_chunk.__wrapped__).lower(fixed, *given).compile()
    text = program.compiled.as_text()
    exchanges = re.findall(" (all-[a-z]+|reduce-scatter|collective-[a-z]+)[(]", text)
    return exchanges, [np.asarray(leaf) for leaf in jax.tree.leaves(program(fixed, *given))]


def own_rows(layout):
    """This process's rows of each step: cells, gaps, uneven weights and missing labels."""
    from diglm.types import Batch

    random = np.random.default_rng(0)
    x = random.normal(size=(N_STEPS, N_ROWS, DIM)) * np.arange(1, DIM + 1)
    x[..., 0] = np.round(x[..., 0])  # whole numbers, and gaps in the next column
    y = (x[..., 2] > 0).astype(float)
    x[..., 1][random.uniform(size=y.shape) < 0.2] = np.nan
    weight = random.integers(0, 3, y.shape).astype(float)
    weight[0, : N_ROWS // 2] = 0  # the first of two has nothing to learn from in this step
    rows = Batch(x, y, random.uniform(size=y.shape) < 0.7, weight)
    mine = np.array_split(np.arange(N_ROWS), layout.n_processes)[layout.process]
    return layout.spread(Batch(*(column[:, mine] for column in rows)))


def join(address: str, process: int, lost_seconds: int) -> None:
    from diglm.distributed import connect
    from diglm.fitting import files

    connect(address, 2, process, lost_seconds=lost_seconds)
    files.CHUNK_ROWS = CHUNK_ROWS


def train_on_devices(table: Path, folder: Path, out: Path) -> None:
    """A fit of one process that has several devices."""
    from diglm.fitting import files

    files.CHUNK_ROWS = CHUNK_ROWS
    np.savez(out, *arrays_of(fit(table, folder)), np.array(jax.device_count()))


def end_early(address: str, process: int, table: Path, told: Path, lost: Path) -> None:
    """Two runs that come to no end: of one the second process is told to stop, of one it dies."""
    join(address, process, lost_seconds=5)
    after_chunks(3, lambda: end("SIGTERM") if process == 1 else None)
    try:
        fit(table, told)
    except SystemExit as ended:
        print(f"ended with {ended.code}", flush=True)
    after_chunks(4, lambda: end("SIGKILL") if process == 1 else None)
    fit(table, lost)


def train_together(address: str, process: int, table: Path, lost: Path, out: Path) -> None:
    """Steps, a fit from the beginning, and one that goes on where others were lost."""
    from diglm.data.files.opening import FileTable
    from diglm.fitting.files import FileSource

    join(address, process, lost_seconds=60)
    read, surveyed = [], False
    scan, survey = FileTable.scan, FileSource._survey

    def counted(self, group, *args, **kwargs):
        if surveyed:
            read.append([group.path.name, group.index])
        return scan(self, group, *args, **kwargs)

    def counted_survey(self, *args):
        nonlocal surveyed
        found = survey(self, *args)
        surveyed = True
        return found

    FileTable.scan, FileSource._survey = counted, counted_survey
    fresh = arrays_of(fit(table))
    FileTable.scan, FileSource._survey = scan, survey
    (plain_exchanges, plain), (rich_exchanges, rich) = steps(False), steps(True)
    resumed = arrays_of(fit(table, lost))
    for name, arrays in (("fresh", fresh), ("steps", plain + rich), ("resumed", resumed)):
        np.savez(out / f"{name}{process}.npz", *arrays)
    about = {
        "read": read,
        "devices": jax.device_count(),
        "exchanges": [plain_exchanges, rich_exchanges],
    }
    (out / f"about{process}.json").write_text(json.dumps(about))
