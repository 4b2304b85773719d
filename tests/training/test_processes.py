"""Several devices and several processes train the model that one would, and none waits for ever."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("orbax.checkpoint")

N_ROWS, GROUP_ROWS = 1200, 100
PATIENCE_SECONDS = 240  # for a process of a test; compiling takes most of it

WORKER = """
import json, os, signal, sys

options = json.loads(sys.argv[1])
from diglm.distributed import connect

if options["processes"] > 1:
    connect(options["address"], options["processes"], options["process"], lost_seconds=10)
import jax
import numpy as np
from diglm import HybridRegressor
from diglm.data.files.opening import FileTable
from diglm.estimators import filefit

filefit.CHUNK_ROWS = 300
ticks, read, surveyed = 0, [], False
scan, survey = FileTable.scan, filefit.FileFit._survey

def tick(self, record):
    global ticks
    ticks += 1
    if options.get("signal") and ticks == options["chunk"]:
        os.kill(os.getpid(), getattr(signal, options["signal"]))

def counted(self, group, *args, **kwargs):
    if surveyed:
        read.append([group.path.name, group.index])
    return scan(self, group, *args, **kwargs)

def counted_survey(self):
    global surveyed
    found = survey(self)
    surveyed = True
    return found

filefit.ProgressBar.__call__ = tick
FileTable.scan, filefit.FileFit._survey = counted, counted_survey
model = HybridRegressor(
    n_blocks=2, width=8, depth=1, batch_size=50, n_epochs=2, head="gaussian", random_state=0,
    verbose=False,
)
model.fit_file(
    options["table"], "value", checkpoint=options["folder"], save_every=6,
)
leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(model.model_) if hasattr(leaf, "dtype")]
np.savez(options["out"], *leaves)
print(json.dumps({"read": read, "devices": jax.device_count()}))
"""


STEPS = """
import json, re, sys

options = json.loads(sys.argv[1])
from diglm.distributed import connect

if options["processes"] > 1:
    connect(options["address"], options["processes"], options["process"], lost_seconds=10)
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
from diglm import Flow, Hybrid, flows
from diglm.bijections import BatchNorm, Chain
from diglm.completion import Completion
from diglm.heads import make_head
from diglm.objectives import JointObjective
from diglm.training.devices import Layout
from diglm.training.settings import Schedule, Settings
from diglm.training.step import Shared, State, Sums, run_chunk
from diglm.types import Batch

N_STEPS, N_ROWS, DIM = 6, 12, 4
random, layout, key = np.random.default_rng(0), Layout(), jax.random.key(0)
x = random.normal(size=(N_STEPS, N_ROWS, DIM)) * np.arange(1, DIM + 1)
x[..., 0] = np.round(x[..., 0])  # whole numbers, and gaps in the next column
y = (x[..., 2] > 0).astype(float)
x[..., 1][random.uniform(size=y.shape) < 0.2] = np.nan
weight = random.integers(0, 3, y.shape).astype(float)
weight[0, : N_ROWS // 2] = 0  # the first of two has nothing to learn from in this step
rows = Batch(x, y, random.uniform(size=y.shape) < 0.7, weight)
mine = np.array_split(np.arange(N_ROWS), layout.n_processes)[layout.process]
rows = layout.spread(Batch(*(column[:, mine] for column in rows)))


def steps(rich):
    # A plain flow and head, or one with everything that draws noise or ties rows together.
    dropout = 0.2 if rich else 0.0
    bijection = flows.coupling(
        DIM, n_blocks=2, width=8, depth=1, batch_norm=rich, dropout=dropout, key=key
    )
    columns = np.arange(DIM)
    completion = Completion(np.where(columns == 0, 1.0, 0.0), columns == 1)
    head, objective = make_head("categorical", DIM, n_classes=2, l2=0.1), JointObjective(0.3)
    if rich:
        bijection = Chain([BatchNorm(DIM), bijection])
        objective = JointObjective(0.3, entropy_weight=0.2, vat_weight=0.5, n_rows=100.0)
    model = Hybrid(Flow(bijection), head, completion, dropout)
    schedule = Schedule.of(Settings(learning_rate=0.01), 20)
    shared = layout.replicate(Shared(model, objective, schedule, layout.mesh))
    fixed = (shared, rows, *layout.replicate((jnp.asarray(N_STEPS, jnp.int32), key)))
    given = layout.replicate((State.start(model), Sums.zero(jnp.result_type(float))))
    program = eqx.filter_jit(run_chunk.__wrapped__).lower(fixed, *given).compile()
    text = program.compiled.as_text()
    exchanges = re.findall(" (all-[a-z]+|reduce-scatter|collective-[a-z]+)[(]", text)
    return exchanges, jax.tree.leaves(program(fixed, *given))


(exchanges, plain), (more_exchanges, rich) = steps(False), steps(True)
np.savez(options["out"], *(np.asarray(leaf) for leaf in plain + rich))
print(json.dumps([exchanges, more_exchanges]))
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    random = np.random.default_rng(0)
    size, count = random.normal(size=N_ROWS), random.poisson(3, N_ROWS)
    value = size + 0.3 * count + 0.3 * random.normal(size=N_ROWS)
    size[::97] = np.nan
    path = tmp_path_factory.mktemp("table") / "rows.parquet"
    pq.write_table(pa.table({"size": size, "count": count, "value": value}), path, GROUP_ROWS)
    return path


@pytest.fixture(scope="module")
def alone(table, tmp_path_factory) -> list[np.ndarray]:
    """The model of one process on one device."""
    out = tmp_path_factory.mktemp("alone") / "out.npz"
    succeeded(run(table, out))
    return arrays(out)


def run(table, out, *, n: int = 1, folder=None, devices: int = 1, script=WORKER, **ending):
    """Processes that fit together; `ending`, a chunk and a signal, is for the last of them."""
    address = f"127.0.0.1:{free_port()}"
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    processes = []
    for i in range(n):
        options = {
            "address": address,
            "processes": n,
            "process": i,
            "table": str(table),
            "out": str(out).format(i),
            "folder": None if folder is None else str(folder),
            **(ending if i == n - 1 else {}),
        }
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", script, json.dumps(options)],
                env=os.environ | {"XLA_FLAGS": flags},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        said = [process.communicate(timeout=PATIENCE_SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, *words) for process, words in zip(processes, said, strict=True)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def succeeded(results) -> list[dict]:
    for code, _, errors in results:
        assert code == 0, errors
    return [json.loads(said.splitlines()[-1]) for _, said, _ in results]


def arrays(out: Path) -> list[np.ndarray]:
    found = np.load(out)
    return [found[name] for name in found.files]


def assert_close(ours: list[np.ndarray], theirs: list[np.ndarray], rtol=1e-4, atol=1e-5):
    assert len(ours) == len(theirs) > 10
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def test_processes_that_do_not_find_one_another_say_so():
    address = f"127.0.0.1:{free_port()}"
    lonely = f"from diglm.distributed import connect\nconnect('{address}', 2, 5)"
    done = subprocess.run([sys.executable, "-c", lonely], capture_output=True, text=True)
    assert done.returncode == 1
    assert "did not find one another" in done.stderr
    assert "its own process_id" in done.stderr


@pytest.mark.slow
def test_two_devices_train_the_model_of_one(table, alone, tmp_path):
    told = succeeded(run(table, tmp_path / "out.npz", devices=2, folder=tmp_path / "run"))
    assert told[0]["devices"] == 2
    assert_close(arrays(tmp_path / "out.npz"), alone)


@pytest.mark.slow
def test_two_processes_train_the_model_of_one(table, alone, tmp_path):
    told = succeeded(run(table, tmp_path / "out{}.npz", n=2))
    first, second = (arrays(tmp_path / f"out{i}.npz") for i in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert_close(first, alone)
    assert {one["devices"] for one in told} == {2}
    # Of the file each process reads its own half, of the copy in random order its own shard.
    halves = [{group for name, group in one["read"] if name == table.name} for one in told]
    n_groups = N_ROWS // GROUP_ROWS
    assert halves == [set(range(n_groups // 2)), set(range(n_groups // 2, n_groups))]
    shards = [{name for name, _ in one["read"] if name != table.name} for one in told]
    assert shards == [{"shard-000.arrow"}, {"shard-001.arrow"}]


@pytest.mark.slow
def test_steps_shared_with_noise_and_batch_statistics_are_those_of_one_and_exchange_once(tmp_path):
    """Cells, gaps, dropout, uneven weights, missing labels, batch norm, adversarial steps."""
    assert succeeded(run(None, tmp_path / "alone.npz", script=STEPS)) == [[[], []]]
    two_processes = run(None, tmp_path / "process{}.npz", script=STEPS, n=2)
    for plain, with_batch_norm in succeeded(two_processes):
        assert plain == ["all-reduce"]
        assert with_batch_norm.count("all-reduce") == 1
        assert "all-gather" in with_batch_norm
    alone = arrays(tmp_path / "alone.npz")
    for name in ("process0", "process1"):
        assert_close(arrays(tmp_path / f"{name}.npz"), alone, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_a_process_that_dies_ends_the_run_and_both_resume(table, alone, tmp_path):
    out, folder = tmp_path / "out{}.npz", tmp_path / "run"
    results = run(table, out, n=2, folder=folder, chunk=4, signal="SIGKILL")
    (left, _, errors), (killed, _, _) = results
    assert killed == -signal.SIGKILL
    assert left != 0
    assert "LostProcessError: A step of 2 processes failed in process 0" in errors
    assert not list(tmp_path.glob("*.npz"))
    succeeded(run(table, out, n=2, folder=folder))
    first, second = (arrays(tmp_path / f"out{i}.npz") for i in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert_close(first, alone)


@pytest.mark.slow
def test_sigterm_to_one_ends_both_and_one_process_may_go_on_alone(table, alone, tmp_path):
    out, folder = tmp_path / "out{}.npz", tmp_path / "run"
    results = run(table, out, n=2, folder=folder, chunk=3, signal="SIGTERM")
    assert [code for code, _, _ in results] == [143, 143], results
    succeeded(run(table, out, folder=folder))
    assert_close(arrays(tmp_path / "out0.npz"), alone)
