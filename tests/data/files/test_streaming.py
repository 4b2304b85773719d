"""Rows from disk for training: each once an epoch, from any position, in bounded memory."""

import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diglm.data.files import formats
from diglm.data.files.opening import TableFileError, open_table
from diglm.data.files.streaming import StreamPlan, choose_shards, read_chunks
from diglm.types import Batch

NONE = np.array([], dtype=np.int64)


def numbered(n, **columns):
    return pa.table({"row": np.arange(n), "half": np.arange(n) / 2, **columns})


def stored(folder, n=1000, group=128, **columns):
    path = folder / "t.parquet"
    pq.write_table(numbered(n, **columns), path, row_group_size=group)
    return open_table(path)


def encode(table):
    rows = table["row"].to_numpy()
    x = np.stack([rows, 2 * table["half"].to_numpy()], axis=1).astype(np.float32)
    return Batch(x, rows, np.ones(len(rows), bool), np.ones(len(rows), np.float32))


def chunks_of(plan, shards=None, **options):
    shards = range(plan.n_shards) if shards is None else shards
    options = {"stop_epoch": 1, **options}
    with read_chunks(
        plan, encode, columns=["row", "half"], shards=list(shards), **options
    ) as found:
        return list(found)


def rows_of(chunks):
    return np.concatenate([chunk.rows.y.ravel() for chunk in chunks])


def alive():
    return [thread for thread in threading.enumerate() if thread.name == "diglm-chunks"]


# Which rows


def test_every_row_once_an_epoch_but_for_the_tail(tmp_path):
    table = stored(tmp_path, 1003)
    held_out = np.arange(5, 1003, 10)
    plan = StreamPlan(table, 4, 32, 5, 0, held_out)
    epochs = [[c for c in chunks_of(plan, stop_epoch=3) if c.epoch == e] for e in range(3)]
    dropped = []
    for chunks in epochs:
        assert [chunk.index for chunk in chunks] == list(range(plan.n_chunks))
        assert [chunk.n_steps for chunk in chunks] == [5] * (plan.n_steps // 5) + [plan.n_steps % 5]
        rows = rows_of(chunks)
        assert len(rows) == plan.n_steps * 32 == len(np.unique(rows))
        assert not np.isin(rows, held_out).any()
        dropped.append(set(range(1003)) - set(held_out) - set(rows))
        assert len(dropped[-1]) < 4 * (8 + 2)  # less than a step, but for unequal shards
        for chunk in chunks:
            assert chunk.rows.x.shape == (chunk.n_steps, 32, 2)
            np.testing.assert_array_equal(chunk.rows.x[..., 0], chunk.rows.y)
            np.testing.assert_array_equal(chunk.rows.x[..., 1], chunk.rows.y)
    assert dropped[0] != dropped[1] != dropped[2]
    assert not np.array_equal(rows_of(epochs[0]), rows_of(epochs[1]))


def test_a_batch_is_drawn_from_all_over_the_table(tmp_path):
    plan = StreamPlan(stored(tmp_path, 1024), 8, 16, 4, 0, NONE)
    for chunk in chunks_of(plan):
        shard = chunk.rows.y // 128
        assert (np.sort(shard, axis=1) == np.repeat(np.arange(8), 2)).all()


def test_a_file_of_one_row_group_drops_another_tail_each_epoch(tmp_path):
    plan = StreamPlan(stored(tmp_path, 100, group=100), 1, 64, 1, 0, NONE)
    dropped = [
        set(range(100)) - set(c.rows.y.ravel().tolist()) for c in chunks_of(plan, stop_epoch=4)
    ]
    assert len({frozenset(rows) for rows in dropped}) == 4


def test_rows_of_a_buffer_are_shuffled(tmp_path):
    plan = StreamPlan(stored(tmp_path, 4096, group=4096), 1, 32, 128, 0, NONE)
    rows = rows_of(chunks_of(plan))
    assert abs(np.corrcoef(np.arange(rows.size), rows)[0, 1]) < 0.1
    other = rows_of(chunks_of(StreamPlan(plan.table, 1, 32, 128, 1, NONE)))
    assert not np.array_equal(rows, other)


@st.composite
def layouts(draw):
    n = draw(st.integers(40, 300))
    n_shards = draw(st.sampled_from([1, 2, 4]))
    held = draw(st.lists(st.integers(0, n - 1), unique=True, max_size=n // 4))
    return {
        "n": n,
        "group": draw(st.integers(5, 120)),
        "block": draw(st.integers(1, 50)),
        "n_shards": n_shards,
        "batch_size": n_shards * draw(st.integers(1, 3)),
        "steps_per_chunk": draw(st.integers(1, 9)),
        "held": np.array(sorted(held), dtype=np.int64),
        "suffix": draw(st.sampled_from(["parquet", "arrow"])),
        "seed": draw(st.integers(0, 99)),
        "where": draw(st.floats(0, 1)),
    }


@given(layout=layouts())
@settings(max_examples=25)
def test_any_position_equals_reading_up_to_it(tmp_path_factory, layout):
    path = tmp_path_factory.mktemp("t") / f"t.{layout['suffix']}"
    rows = numbered(layout["n"])
    if layout["suffix"] == "parquet":
        pq.write_table(rows, path, row_group_size=layout["group"])
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows, layout["group"])
    sizes = (layout[key] for key in ("n_shards", "batch_size", "steps_per_chunk", "seed", "held"))
    plan = StreamPlan(open_table(path), *sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "BLOCK_ROWS", layout["block"])
        whole = chunks_of(plan, stop_epoch=2)
        start = int(layout["where"] * plan.n_chunks)
        resumed = chunks_of(plan, start=(1, start), stop_epoch=2)
        parts = [chunks_of(plan, [shard], stop_epoch=2) for shard in range(plan.n_shards)]
    assert len(whole) == 2 * plan.n_chunks
    assert [(c.epoch, c.index) for c in resumed] == [(1, i) for i in range(start, plan.n_chunks)]
    for ours, theirs in zip(resumed, whole[plan.n_chunks + start :], strict=True):
        np.testing.assert_array_equal(ours.rows.y, theirs.rows.y)
        np.testing.assert_array_equal(ours.rows.x, theirs.rows.x)
    for chunk, *pieces in zip(whole, *parts, strict=True):
        together = np.concatenate([piece.rows.y for piece in pieces], axis=1)
        np.testing.assert_array_equal(together, chunk.rows.y)
    for epoch in (0, 1):
        rows = rows_of([chunk for chunk in whole if chunk.epoch == epoch])
        assert len(np.unique(rows)) == len(rows) == plan.n_steps * plan.batch_size
        assert not np.isin(rows, layout["held"]).any()


def test_two_processes_of_two_shards_equal_one_of_four(tmp_path):
    plan = StreamPlan(stored(tmp_path), 4, 40, 7, 3, np.array([0, 1, 500, 999]))
    halves = zip(chunks_of(plan, [0, 1]), chunks_of(plan, [2, 3]), strict=True)
    for chunk, (left, right) in zip(chunks_of(plan), halves, strict=True):
        for whole, *parts in zip(chunk.rows, left.rows, right.rows, strict=True):
            np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


def test_a_process_reads_its_own_row_groups_only(tmp_path, monkeypatch):
    table = stored(tmp_path, 1000, group=50)
    seen = set()
    scan = type(table).scan

    def noting(self, group, *args):
        seen.add(group.index)
        return scan(self, group, *args)

    monkeypatch.setattr(type(table), "scan", noting)
    chunks_of(StreamPlan(table, 4, 8, 10, 0, NONE), [1])
    assert seen == set(range(5, 10))
    seen.clear()
    plan = StreamPlan(table, 4, 8, 10, 0, NONE)
    chunks_of(plan, start=(0, plan.n_chunks - 1))
    assert len(seen) <= 4 * 2  # the last chunk: 5 steps of 2 rows of each shard, and the cut group


def test_a_start_behind_the_last_chunk_is_the_next_epoch(tmp_path):
    plan = StreamPlan(stored(tmp_path), 2, 16, 10, 0, NONE)
    late = chunks_of(plan, start=(0, plan.n_chunks), stop_epoch=2)
    assert [(chunk.epoch, chunk.index) for chunk in late] == [(1, i) for i in range(plan.n_chunks)]


@pytest.mark.parametrize(
    ("batch_size", "n_processes", "expected"),
    [(512, 1, 8), (512, 2, 8), (512, 16, 16), (100, 1, 4), (100, 5, 5), (96, 3, 3), (7, 1, 1)],
)
def test_choose_shards(batch_size, n_processes, expected):
    assert choose_shards(batch_size, n_processes) == expected


@pytest.mark.parametrize("n_rows", [32, 39, 127])
def test_few_batches_are_drawn_from_one_place(tmp_path, n_rows):
    assert choose_shards(32, 1, n_rows) == 1
    assert StreamPlan(stored(tmp_path, n_rows), 1, 32, 1, 0, NONE).n_steps == n_rows // 32


def test_wrong_plans_are_refused(tmp_path):
    table = stored(tmp_path, 100)
    with pytest.raises(
        ValueError, match=r"3 processes .* batches of 100 .* multiple of 3, such as 99"
    ):
        choose_shards(100, 3)
    with pytest.raises(ValueError, match="multiple of n_shards; got 10 and 4"):
        StreamPlan(table, 4, 10, 1, 0, NONE)
    with pytest.raises(ValueError, match="100 rows to train on, too few for one batch of 128"):
        StreamPlan(table, 1, 128, 1, 0, NONE)
    with pytest.raises(ValueError, match="steps_per_chunk must be positive"):
        StreamPlan(table, 1, 8, 0, 0, NONE)
    for rows in ([3, 2], [4, 4], [-1, 2], [5, 100]):
        with pytest.raises(ValueError, match="ascending rows from 0 to 99"):
            StreamPlan(table, 1, 8, 1, 0, np.array(rows))
    with pytest.raises(ValueError, match="list of row numbers"):
        StreamPlan(table, 1, 8, 1, 0, np.array([0.5]))
    plan = StreamPlan(table, 2, 8, 1, 0, NONE)
    with pytest.raises(ValueError, match="shards must be numbers from 0 to 1"):
        chunks_of(plan, [2])
    with pytest.raises(ValueError, match=r"got start=\(0, 13\)"):
        chunks_of(plan, start=(0, 13))
    with pytest.raises(ValueError, match="no column 'rows'.*'row'"):
        read_chunks(plan, encode, columns=["rows"], shards=[0], stop_epoch=1)


# The thread


def test_an_error_in_the_background_reaches_the_consumer(tmp_path):
    plan = StreamPlan(stored(tmp_path), 1, 10, 10, 0, NONE)
    calls = []

    def faulty(table):
        calls.append(table.num_rows)
        if len(calls) == 3:
            raise KeyError("the encoder's own mistake")
        return encode(table)

    with read_chunks(plan, faulty, columns=["row", "half"], shards=[0], stop_epoch=1) as chunks:
        next(chunks), next(chunks)
        with pytest.raises(KeyError, match="own mistake") as caught:
            next(chunks)
        assert "faulty" in [entry.name for entry in caught.traceback]
        with pytest.raises(StopIteration):
            next(chunks)
    assert not alive()


@pytest.mark.parametrize("damage", ["delete", "truncate"])
def test_a_file_lost_between_chunks_is_named(tmp_path, damage):
    table = stored(tmp_path, 20_000, group=100)
    path = table.groups[0].path
    plan = StreamPlan(table, 2, 10, 5, 0, NONE)
    with read_chunks(plan, encode, columns=["row", "half"], shards=[0, 1], stop_epoch=1) as chunks:
        next(chunks)
        if damage == "delete":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:5000])
        with pytest.raises(TableFileError, match=r"Row group \d+ of .*t.parquet cannot be read"):
            list(chunks)
    assert not alive()


def test_leaving_early_ends_the_thread(tmp_path):
    plan = StreamPlan(stored(tmp_path, 5000), 1, 10, 10, 0, NONE)

    def slow(table):
        time.sleep(0.02)
        return encode(table)

    since = time.perf_counter()
    with read_chunks(plan, slow, columns=["row", "half"], shards=[0], stop_epoch=1000) as chunks:
        next(chunks)
        assert len(alive()) == 1
    assert not alive()
    assert time.perf_counter() - since < 2
    assert chunks.waited > 0.01
    with pytest.raises(StopIteration):
        next(chunks)
    with pytest.raises(RuntimeError, match="consumer"):
        with read_chunks(plan, slow, columns=["row", "half"], shards=[0], stop_epoch=9) as chunks:
            next(chunks)
            raise RuntimeError("the consumer stops")
    assert not alive()
    read_chunks(plan, slow, columns=["row", "half"], shards=[0], stop_epoch=9).close()


def test_no_more_is_read_ahead_than_asked(tmp_path):
    plan = StreamPlan(stored(tmp_path, 5000), 1, 10, 10, 0, NONE)
    calls = []

    def counted(table):
        calls.append(table.num_rows)
        return encode(table)

    options = {"columns": ["row", "half"], "shards": [0], "stop_epoch": 1, "ahead": 3}
    with read_chunks(plan, counted, **options) as chunks:
        next(chunks)
        deadline = time.perf_counter() + 5
        while len(calls) < 5 and time.perf_counter() < deadline:
            time.sleep(0.01)
        time.sleep(0.1)
        assert len(calls) == 5  # one in use, three ready, one in the hands of the thread


@pytest.mark.parametrize("group", [4_000, 400_000])
def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch, group):
    monkeypatch.setattr(formats, "BLOCK_ROWS", 4_000)
    n = 400_000
    wide = {f"c{i}": np.random.default_rng(i).standard_normal(n) for i in range(8)}
    rows = numbered(n, **wide)
    # Small pages: a reader holds one of each column, by default of a megabyte, whatever the file.
    pages = {"data_page_size": 1 << 15, "use_dictionary": False}
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=group, **pages)
    plan = StreamPlan(open_table(tmp_path / "t.parquet"), 4, 80, 100, 0, NONE)
    assert plan.n_chunks == 50
    most = []

    def watching(rows):
        most.append(pa.total_allocated_bytes())
        return encode(rows)

    before = pa.total_allocated_bytes()
    names = rows.column_names
    with read_chunks(plan, watching, columns=names, shards=range(4), stop_epoch=1) as chunks:
        assert sum(chunk.n_steps for chunk in chunks) == n // 80
    assert max(most) - before < 0.4 * rows.nbytes
