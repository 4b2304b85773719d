"""A table dealt into random order on disk: every training row once, in its own shard."""

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from diglm.data.files import dealing  # noqa: E402
from diglm.data.files.opening import open_table  # noqa: E402
from diglm.data.files.streaming import StreamPlan, read_chunks  # noqa: E402
from diglm.types import Batch  # noqa: E402

ROWS, SHARDS = 5_000, 4
HELD = np.arange(7, ROWS, 13)


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setattr(dealing, "BUCKET_ROWS", 300)
    path = tmp_path / "ordered.parquet"
    number = np.arange(ROWS)
    kind = pa.array(np.array(["a", "b", None], dtype=object)[number % 3]).dictionary_encode()
    pq.write_table(pa.table({"number": number, "kind": kind}), path, row_group_size=700)
    return StreamPlan(open_table(path), SHARDS, 40, 10, 3, HELD)


def numbers(plan, shard):
    blocks = dealing.training_blocks(plan, ["number"], shard)
    return np.concatenate([block["number"].to_numpy() for block in blocks])


def test_a_shard_keeps_its_rows_and_loses_their_order(plan, tmp_path):
    dealt = dealing.deal(plan, ["number", "kind"], shards=range(SHARDS), folder=tmp_path / "dealt")
    assert dealt.table.n_rows == ROWS - len(HELD)
    for shard in range(SHARDS):
        before, after = numbers(plan, shard), numbers(dealt, shard)
        np.testing.assert_array_equal(np.sort(after), before)
        assert abs(np.corrcoef(np.arange(len(after)), after)[0, 1]) < 0.15
        # Any tenth of a shard is a fair sample of it.
        tenth = after[: len(after) // 10]
        assert abs(tenth.mean() - before.mean()) < 0.15 * np.ptp(before)


def test_columns_stay_together_and_categories_become_their_values(plan, tmp_path):
    dealt = dealing.deal(plan, ["number", "kind"], shards=range(SHARDS), folder=tmp_path / "dealt")
    rows = pa.concat_tables(
        block
        for shard in range(SHARDS)
        for block in dealing.training_blocks(dealt, ["number", "kind"], shard)
    )
    assert rows.schema.field("kind").type == pa.string()
    expected = np.array(["a", "b", None], dtype=object)[rows["number"].to_numpy() % 3]
    assert rows["kind"].to_pylist() == expected.tolist()


def test_processes_that_deal_their_own_shards_see_what_one_would(plan, tmp_path):
    whole = dealing.deal(plan, ["number"], shards=range(SHARDS), folder=tmp_path / "one")
    for own in ([0, 1], [2, 3]):
        part = dealing.deal(plan, ["number"], shards=own, folder=tmp_path / f"two-{own[0]}")
        assert part.cuts == whole.cuts and part.n_steps == whole.n_steps
        for shard in own:
            np.testing.assert_array_equal(numbers(part, shard), numbers(whole, shard))
        missing = 3 - own[0]
        assert not (tmp_path / f"two-{own[0]}" / f"shard-{missing:03d}.arrow").exists()


def test_a_complete_shard_is_used_again_and_a_torn_one_never_appears(plan, tmp_path, monkeypatch):
    folder = tmp_path / "dealt"
    monkeypatch.setattr(dealing.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        dealing.deal(plan, ["number"], shards=[0], folder=folder)
    assert list(folder.iterdir()) == []
    monkeypatch.undo()
    monkeypatch.setattr(dealing, "BUCKET_ROWS", 300)
    first = dealing.deal(plan, ["number"], shards=[0], folder=folder)
    stamp = (folder / "shard-000.arrow").stat().st_mtime_ns
    again = dealing.deal(plan, ["number"], shards=[0], folder=folder)
    assert (folder / "shard-000.arrow").stat().st_mtime_ns == stamp
    np.testing.assert_array_equal(numbers(first, 0), numbers(again, 0))


def test_every_chunk_of_a_dealt_table_is_a_fair_sample(plan, tmp_path):
    """The order of the file must not show in what a model sees last."""
    dealt = dealing.deal(plan, ["number"], shards=range(SHARDS), folder=tmp_path / "dealt")

    def encode(rows):
        x = rows["number"].to_numpy().astype(float)[:, None]
        return Batch(x, x[:, 0], np.ones(len(x), bool), np.ones(len(x)))

    seen = []
    with read_chunks(
        dealt, encode, columns=["number"], shards=range(SHARDS), stop_epoch=1
    ) as chunks:
        for chunk in chunks:
            seen.append(chunk.rows.x.ravel())
            if chunk.n_steps == dealt.steps_per_chunk:
                assert abs(seen[-1].mean() - ROWS / 2) < 0.1 * ROWS
    values, counts = np.unique(np.concatenate(seen), return_counts=True)
    assert counts.max() == 1 and len(values) > 0.95 * (ROWS - len(HELD))
    assert not np.isin(values, HELD).any()
