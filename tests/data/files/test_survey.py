"""The survey of a table: a sample that shows everything rare, and rows held out."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from diglm.data.files import witnesses
from diglm.data.files.opening import TableFileError, open_table
from diglm.data.files.survey import survey


def numbered(n, **columns):
    return pa.table({"row": np.arange(n), "half": np.arange(n) / 2, **columns})


def peculiar(n=5000):
    """Columns with one row each that shows what the others hide."""
    words = np.array(["common"] * n, dtype=object)
    words[17], words[4321] = "rare", "rarer"
    gaps = np.arange(n, dtype=object)
    gaps[3000] = None
    nearly = np.full(n, 3.0)
    nearly[2222] = 2.5
    spike = np.zeros(n)
    spike[1111], spike[3333] = -50.0, 70.0
    late = np.full(n, 10)
    late[4999] = 11
    return pa.table(
        {
            "word": pa.array(words.tolist()),
            "level": pa.array(words.tolist()).dictionary_encode(),
            "gaps": pa.array(gaps.tolist(), pa.int64()),
            "nearly": nearly,
            "spike": spike,
            "flag": pa.array([i == 777 for i in range(n)]),
            "moment": pa.array(np.roll(np.arange(n), 100), pa.timestamp("ns")),
            "wait": pa.array(np.roll(np.arange(n), 200), pa.duration("ms")),
            "small": pa.array(np.roll(np.arange(n) % 100, 7).astype(np.float16)),
            "label": late,
        }
    )


def opened(folder, table, group=700):
    pq.write_table(table, folder / "t.parquet", row_group_size=group)
    return open_table(folder / "t.parquet")


def test_witnesses_show_what_the_sample_lacks(tmp_path):
    rows = peculiar()
    table = opened(tmp_path, rows)
    calls = []
    names = rows.column_names[:-1]
    found = survey(
        table,
        names,
        "label",
        n_sample=20,
        n_held_out=10,
        seed=0,
        progress=lambda *a: calls.append(a),
    )
    assert calls == [(min(700 * i, 5000), 5000) for i in range(1, 9)]
    assert (found.n_rows, found.n_drawn, found.n_missing_target) == (5000, 20, 0)
    assert found.sample.num_rows == len(found.sample_rows) and found.held_out.num_rows == 10
    assert found.sample.to_pydict() == rows.take(found.sample_rows).to_pydict()
    assert found.held_out.to_pydict() == rows.take(found.held_out_rows).to_pydict()
    assert len(np.unique(np.concatenate([found.sample_rows, found.held_out_rows]))) == (
        len(found.sample_rows) + 10
    )
    kept = np.delete(np.arange(5000), found.held_out_rows)
    expected, sample = rows.take(kept).to_pandas(), found.sample.to_pandas()
    for name in ("word", "level", "flag", "label"):
        assert set(sample[name]) == set(expected[name])
    for name in ("gaps", "nearly", "spike", "moment", "wait", "small", "label"):
        assert sample[name].min() == expected[name].min()
        assert sample[name].max() == expected[name].max()
    assert sample["gaps"].isna().any() and (sample["nearly"] == 2.5).any()


def test_witnesses_are_never_held_out(tmp_path):
    table = opened(tmp_path, peculiar(), group=5000)
    found = survey(table, ["word", "gaps", "spike"], "label", n_sample=5, n_held_out=4900, seed=1)
    assert not np.isin(found.sample_rows, found.held_out_rows).any()
    assert (np.diff(found.held_out_rows) > 0).all()


def test_a_small_table_is_sampled_whole(tmp_path):
    rows = peculiar()
    found = survey(opened(tmp_path, rows), ["word"], "label", n_held_out=1000, seed=0)
    assert found.n_drawn == found.sample.num_rows == 4000
    assert found.sample.column_names == ["word", "label"]
    together = np.sort(np.concatenate([found.sample_rows, found.held_out_rows]))
    np.testing.assert_array_equal(together, np.arange(5000))
    other = survey(opened(tmp_path, rows), ["word"], "label", n_held_out=1000, seed=1)
    assert not np.array_equal(other.held_out_rows, found.held_out_rows)


def test_missing_targets_are_counted(tmp_path):
    y = np.where(np.arange(300) % 3 == 0, np.nan, 1.0)
    table = opened(tmp_path, numbered(300, y=y))
    assert survey(table, ["row"], "y", n_held_out=10, seed=0).n_missing_target == 100
    for empty in (pa.array(np.full(300, np.nan)), pa.nulls(300, pa.string())):
        table = opened(tmp_path, numbered(300, y=empty))
        with pytest.raises(TableFileError, match="target 'y' is missing in all 300 rows"):
            survey(table, ["row"], "y", n_held_out=10, seed=0)


def test_what_a_survey_refuses(tmp_path, monkeypatch):
    far = np.zeros(300)
    far[250] = np.inf
    table = opened(tmp_path, numbered(300, far=far), group=100)
    with pytest.raises(
        TableFileError, match=r"Column 'far' holds infinity in row group 2 of .*t.p"
    ):
        survey(table, ["far"], "row", n_held_out=10, seed=0)
    with pytest.raises(ValueError, match="no column 'raw'.*'row'"):
        survey(table, ["raw"], "row", n_held_out=10, seed=0)
    with pytest.raises(ValueError, match="less than the table's 300 rows"):
        survey(table, ["row"], "half", n_held_out=300, seed=0)
    monkeypatch.setattr(witnesses, "MOST_LEVELS", 200)
    table = opened(tmp_path, numbered(300, name=[f"person {i}" for i in range(300)]), group=100)
    with pytest.raises(TableFileError, match=r"Column 'name' has more than 200 .*identifier"):
        survey(table, ["name"], "row", n_held_out=10, seed=0)


def test_columns_of_gaps_alone_do_not_stop_a_survey(tmp_path):
    gaps = {"nan": np.full(300, np.nan), "null": pa.nulls(300), "text": pa.nulls(300, pa.string())}
    table = opened(tmp_path, numbered(300, **gaps), group=100)
    found = survey(table, list(gaps), "row", n_sample=5, n_held_out=10, seed=0)
    assert found.sample["nan"].to_numpy()[0] != found.sample["nan"].to_numpy()[0]
    assert found.sample["null"].null_count == found.sample.num_rows
