"""Files of which few rows have a label: found, kept in memory, and dealt to each batch."""

import numpy as np
import pandas as pd
import pytest

from diglm import HybridClassifier, HybridRegressor
from diglm.data.mixing import LABELLED_SHARE
from diglm.fitting import FileSource
from diglm.recipes import CouplingFlow
from diglm.training import Settings

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N_ROWS, N_LABELS = 1200, 30
QUICK = dict(n_blocks=1, width=8, depth=1, batch_size=40, n_epochs=2, random_state=0, verbose=False)


@pytest.fixture(scope="module", autouse=True)
def short_chunks():
    """Several chunks an epoch, though the table is small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("diglm.fitting.files.CHUNK_ROWS", 400)
        yield


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two clumps; the rows with a label are all among the last."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N_ROWS)
    x = rng.normal(size=(N_ROWS, 2)) + 3.0 * y[:, None]
    known = np.arange(N_ROWS) >= N_ROWS - N_LABELS
    frame = pd.DataFrame(x, columns=["a", "b"])
    frame["row"] = np.arange(N_ROWS) / N_ROWS
    frame["kind"] = np.where(known, np.array(["low", "high"])[y], None)
    frame["size"] = np.where(known, x[:, 0], np.nan)
    path = tmp_path_factory.mktemp("few") / "t.parquet"
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, 300)
    return path, frame, y


def plan_of(path, target):
    source = FileSource(path, target, features=["a", "b", "row"])
    read = source.read(0, "auto")
    model = HybridRegressor() if target == "size" else HybridClassifier()
    learned = model._learn_target(read.y, read.weights, nulls=True)

    def encode(X, y, weights):
        values = np.stack([X[name].to_numpy() for name in ("a", "b", "row")], axis=1)
        return learned.read(y).batch(values, weights)

    train = encode(read.X, read.y, read.weights)
    trainer = source.trainer(CouplingFlow(), train, Settings(batch_size=40), encode, 0)
    return read, trainer.plan


@pytest.mark.parametrize("target", ["kind", "size"])
def test_each_batch_holds_labels_and_no_row_of_them_is_held_out(table, target):
    path, frame, _ = table
    read, plan = plan_of(path, target)
    assert read.n_labelled == N_LABELS
    y = frame[target].to_numpy()
    told = pd.isna(read.y)
    assert np.sum(~told[read.split.train]) == N_LABELS and np.all(told[read.split.held_out])
    assert plan.plan.batch_size == 40
    assert abs(plan.plan.mixture.n_labelled - LABELLED_SHARE * 40) <= plan.plan.n_shards / 2
    seen = []
    shards = range(plan.plan.n_shards)
    with plan.read(shards=shards, start=(0, 0), stop_epoch=1) as chunks:
        for chunk in chunks:
            seen.append(chunk)
            assert np.all(chunk.rows.labelled.sum(axis=1) == plan.plan.mixture.n_labelled)
            rows = np.rint(chunk.rows.x[..., 2] * N_ROWS).astype(int)
            assert np.array_equal(chunk.rows.labelled, ~pd.isna(y)[rows])
    assert sum(chunk.n_steps for chunk in seen) == plan.plan.n_steps
    labelled = np.concatenate([chunk.rows.x[chunk.rows.labelled][:, 2] for chunk in seen])
    times = np.bincount(np.rint(labelled * N_ROWS).astype(int))[-N_LABELS:]
    assert np.min(times) > 0 and np.ptp(times) <= len(seen)
    with plan.read(shards=shards, start=(0, 1), stop_epoch=1) as chunks:
        again = next(chunks)
    assert all(np.array_equal(a, b) for a, b in zip(again.rows, seen[1].rows, strict=True))


def test_a_fit_from_a_file_learns_from_the_few(table):
    path, frame, y = table
    model = HybridClassifier(vat_weight=0.3, **QUICK)
    model.fit_file(path, "kind", features=["a", "b"])
    assert model.classes_.tolist() == ["high", "low"]
    found = model.predict(frame[["a", "b"]]) == np.array(["low", "high"])[y]
    assert np.mean(found) > 0.95
