"""Tables in files: row groups, CSV spools, Arrow columns in and out, errors that say where."""

import datetime
import gzip
import pickle
import shutil
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from diglm.data.files import formats, spool
from diglm.data.files.opening import TableFileError, open_table
from diglm.data.table.encoder import TableEncoder

N = 1000


def example(n=N, seed=0):
    r = np.random.default_rng(seed)
    return pa.table(
        {
            "row": np.arange(n),
            "size": r.standard_normal(n),
            "colour": pa.array(r.choice(["red", "green"], n)).dictionary_encode(),
            "word": pa.array(r.choice(["a", "b", None], n).tolist(), pa.string()),
            "flag": r.random(n) < 0.5,
        }
    )


def write(table, path, group=300):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=group)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, group)
    return path


def read_all(table, names=None):
    names = names or table.names
    return pa.concat_tables([table.read(group, names) for group in table.groups])


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks so small that a short CSV file has many."""
    monkeypatch.setattr(spool, "BLOCK_BYTES", 64)


# Opening


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather"])
def test_row_groups_cover_the_table_in_order(tmp_path, suffix):
    table = open_table(write(example(), tmp_path / f"t.{suffix}"))
    assert table.n_rows == N
    assert [group.n_rows for group in table.groups] == [300, 300, 300, 100]
    assert [group.start for group in table.groups] == [0, 300, 600, 900]
    assert table.names == example().column_names
    assert read_all(table).to_pydict() == example().to_pydict()
    assert read_all(table, ["flag", "row"]).column_names == ["flag", "row"]
    assert pickle.loads(pickle.dumps(table)) == table


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_part_of_a_row_group_comes_in_blocks(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(formats, "BLOCK_ROWS", 70)
    table = open_table(write(example(), tmp_path / f"t.{suffix}"))
    blocks = list(table.scan(table.groups[1], ["row"], 65, 215))
    assert max(block.num_rows for block in blocks) <= 70 and len(blocks) >= 3
    assert pa.concat_tables(blocks)["row"].to_pylist() == list(range(365, 515))


def test_a_folder_is_one_table(tmp_path):
    rows = example()
    for i, start in enumerate((0, 400, 500)):
        stop = (400, 500, 1000)[i]
        write(rows.slice(start, stop - start), tmp_path / f"d/part{i}/x.parquet")
    write(rows.slice(0, 0), tmp_path / "d/part1/empty.parquet")
    (tmp_path / "d/_SUCCESS").touch()
    (tmp_path / "d/.part.crc").write_bytes(b"x")
    (tmp_path / "d/_log").mkdir()
    (tmp_path / "d/_log/0.json").write_text("{}")
    table = open_table(tmp_path / "d")
    assert read_all(table).to_pydict() == rows.to_pydict()
    assert all(group.n_rows for group in table.groups)
    assert sum(group.n_rows for group in table.groups) == table.n_rows == N


def test_fingerprint_is_of_the_data_not_of_the_copy(tmp_path):
    path = write(example(), tmp_path / "t.parquet")
    first = open_table(path).fingerprint()
    (tmp_path / "copy").mkdir()
    assert open_table(shutil.copy(path, tmp_path / "copy")).fingerprint() == first
    assert open_table(write(example(N - 1), path)).fingerprint() != first
    assert open_table(write(example(), path, group=100)).fingerprint() != first


def test_types_that_writers_spell_differently(tmp_path):
    path = tmp_path / "t.arrow"
    table = pa.table(
        {
            "colour": pa.array(["a", "b"])
            .dictionary_encode()
            .cast(pa.dictionary(pa.int8(), "string")),
            "price": pa.array([Decimal("1.50"), None]),
            "day": pa.array([datetime.date(2024, 1, 1), None], pa.date64()),
            "view": pa.array(["u", None], pa.string_view()),
        }
    )
    read = open_table(write(table, path))
    expected = [pa.dictionary(pa.int32(), "string"), pa.float64(), pa.date32(), pa.large_string()]
    assert read.schema.types == expected
    rows = read_all(read)
    assert rows.schema == read.schema
    assert rows["price"].to_pylist() == [1.5, None]
    read.require(read.names)


def test_missing_and_unsupported_columns_are_named(tmp_path):
    rows = example(20).append_column("tags", pa.array([[1]] * 20))
    rows = rows.append_column("raw", pa.array([b"x"] * 20))
    rows = rows.append_column("clock", pa.array([datetime.time(1)] * 20))
    table = open_table(write(rows, tmp_path / "t.parquet"))
    with pytest.raises(ValueError, match=r"no column 'colr' in .*'word'.* Did you mean 'colour'"):
        table.require(["row", "colr"])
    for name, advice in (("tags", "spread nested"), ("raw", "text"), ("clock", "midnight")):
        with pytest.raises(TypeError, match=rf"'{name}' is of type .*{advice}"):
            table.require([name])
    table.require(["row", "size", "colour", "word", "flag"])


# Files that are no tables


def test_paths_that_hold_no_table(tmp_path):
    def message(path):
        with pytest.raises(TableFileError) as caught:
            open_table(path)
        assert str(path) in str(caught.value)
        return str(caught.value)

    assert "does not exist" in message(tmp_path / "no.parquet")
    (tmp_path / "t.xlsx").write_bytes(b"x")
    assert "no known kind" in message(tmp_path / "t.xlsx")
    for suffix in ("parquet", "arrow", "csv"):
        path = tmp_path / f"empty.{suffix}"
        path.touch()
        assert "0 bytes" in message(path)
    assert "no rows" in message(write(example(0), tmp_path / "none.parquet"))
    (tmp_path / "head.csv").write_text("a,b\n")
    assert "no rows" in message(tmp_path / "head.csv")
    (tmp_path / "folder").mkdir()
    assert "no files" in message(tmp_path / "folder")
    (tmp_path / "text.parquet").write_text("not parquet at all")
    assert "Parquet" in message(tmp_path / "text.parquet")
    (tmp_path / "text.arrow").write_text("not arrow at all")
    assert "Arrow" in message(tmp_path / "text.arrow")


def test_a_folder_of_several_kinds_or_schemas(tmp_path):
    write(example(), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("a\n1\n")
    with pytest.raises(TableFileError, match=r"mixes kinds of files \(.*(a.parquet|b.csv), .*\)"):
        open_table(tmp_path)
    (tmp_path / "b.csv").unlink()
    other = example()
    write(other.set_column(0, "row", other["row"].cast("float64")), tmp_path / "b.parquet")
    with pytest.raises(
        TableFileError, match=r"b.parquet differs .*'row': it is double, expected int64"
    ):
        open_table(tmp_path)
    write(other.drop_columns(["word"]), tmp_path / "b.parquet")
    with pytest.raises(TableFileError, match=r"b.parquet differs .*'word': it is absent"):
        open_table(tmp_path)
    write(other.select(["word", "row", "flag", "size", "colour"]), tmp_path / "b.parquet")
    assert open_table(tmp_path).n_rows == 2 * N  # the order of the columns is free


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_files_that_change_after_opening(tmp_path, suffix):
    path = write(example(), tmp_path / f"t.{suffix}")
    table = open_table(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TableFileError, match=rf"Row group 3 of .*t.{suffix} cannot be read"):
        table.read(table.groups[3], ["row"])
    path.unlink()
    with pytest.raises(TableFileError, match=r"Row group 1 .*No such file"):
        table.read(table.groups[1], ["row"])
    write(example(400), path)
    with pytest.raises(TableFileError, match=r"Row group 1 .*ends at row 100 where row 300"):
        table.read(table.groups[1], ["row"])


def test_a_column_that_cannot_be_decoded_is_named(tmp_path):
    path = write(example(), tmp_path / "t.parquet")
    place = pq.read_metadata(path).row_group(2).column(1)
    assert place.path_in_schema == "size"
    table = open_table(path)
    content = bytearray(path.read_bytes())
    start = place.dictionary_page_offset or place.data_page_offset
    content[start : start + place.total_compressed_size] = b"\xff" * place.total_compressed_size
    path.write_bytes(content)
    with pytest.raises(TableFileError, match=r"Row group 2 of .*, column 'size'"):
        table.read(table.groups[2], ["row", "size", "flag"])
    assert table.read(table.groups[1], ["size"]).num_rows == 300


# CSV


CSV = "row,price,word,day\n" + "".join(
    f"{i},{i / 4 if i % 5 else ''},{'x' if i % 3 else ''},2024-01-{1 + i % 28:02}\n"
    for i in range(90)
)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv"])
def test_csv_is_read_as_written(tmp_path, small_blocks, monkeypatch, name):
    monkeypatch.setattr(spool, "BLOCK_ROWS", 40)
    text = CSV.replace(",", "\t") if name.endswith("tsv") else CSV
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    table = open_table(path)
    assert [group.n_rows for group in table.groups] == [40, 40, 10]
    rows = read_all(table)
    assert rows.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.date32()]
    assert rows["row"].to_pylist() == list(range(90))
    assert rows["price"].to_pylist() == [i / 4 if i % 5 else None for i in range(90)]
    assert rows["word"].to_pylist() == ["x" if i % 3 else None for i in range(90)]
    assert rows["day"][29].as_py() == datetime.date(2024, 1, 2)


def test_a_spool_is_written_once_and_anew_when_the_file_changes(tmp_path):
    path = tmp_path / "data" / "t.csv"
    path.parent.mkdir()
    path.write_text(CSV)
    kept = path.parent  # a spool among its sources is no part of the table
    first = open_table(path.parent, spool=kept)
    written = first.groups[0].path
    before = written.stat().st_mtime_ns
    again = open_table(path.parent, spool=kept)
    assert again == first and written.stat().st_mtime_ns == before
    assert again.fingerprint() == first.fingerprint()
    path.write_text(CSV + "90,1,x,2024-01-01\n")
    changed = open_table(path.parent, spool=kept)
    assert changed.n_rows == 91 and changed.groups[0].path != written
    assert changed.fingerprint() != first.fingerprint()


def test_a_failed_conversion_leaves_no_spool(tmp_path, small_blocks):
    path = tmp_path / "t.csv"
    path.write_text(CSV + "oops\n")
    with pytest.raises(TableFileError):
        open_table(path, spool=tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []


def test_several_csv_files_follow_the_first(tmp_path, small_blocks):
    (tmp_path / "a.csv").write_text("a,b\n")
    (tmp_path / "b.csv").write_text("a,b\n1,x\n")
    (tmp_path / "c.csv").write_text("b,a\ny,2.5\n")
    table = open_table(tmp_path)
    assert read_all(table).to_pydict() == {"a": [1.0, 2.5], "b": ["x", "y"]}
    (tmp_path / "d.csv").write_text("a,c\n3,z\n")
    with pytest.raises(TableFileError, match=r"d.csv lacks the column 'b', which .*a.csv has"):
        open_table(tmp_path)


def test_whole_numbers_may_become_fractions(tmp_path, small_blocks):
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n" + "1,2,\n" * 50 + "1.5,2,\n" * 50 + "7,2.25,late\n")
    rows = read_all(open_table(path))
    assert rows.schema.types == [pa.float64(), pa.float64(), pa.string()]
    assert rows["a"].to_pylist() == [1.0] * 50 + [1.5] * 50 + [7.0]
    assert rows["b"].to_pylist()[-1] == 2.25
    assert rows["c"].to_pylist()[-2:] == [None, "late"]


def test_csv_errors_say_where(tmp_path, small_blocks):
    def message(content):
        path = tmp_path / "bad.csv"
        path.write_bytes(content.encode("latin-1"))
        with pytest.raises(TableFileError) as caught:
            open_table(path)
        assert "bad.csv" in str(caught.value)
        return str(caught.value)

    good = "a,b\n" + "1,2\n" * 50
    assert "near line 52: expected 2 fields, got 3: '1,2,3'" in message(good + "1,2,3\n" + "1,2\n")
    text = message(good + "1,two\n")
    assert "near line 52, column 'b': expected int64" in text and "found 'two'" in text
    assert "Parquet" in text
    assert "column 'a': expected double" in message("a\n" + "1\n" * 50 + "1.5\n" * 50 + "x\n")
    assert "is not UTF-8 text to its end" in message("a,b\n" + "cafe,1\n" * 20_000 + "café,1\n")
    assert "several columns named ['a']" in message("a,a\n1,2\n")
    assert "quotation mark" in message('a,b\n"' + "x,y\n" * 100)


# Arrow tables in the encoder


def arrow_columns():
    moments = [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2, 12), None] * 4
    days = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 5), None] * 4
    return {
        "whole": pa.array([1, 2, None] * 4),
        "small": pa.array([1, 2, 3] * 4, pa.uint8()),
        "single": pa.array([0.5, 1.25, None] * 4, pa.float32()),
        "text": pa.array(["a", "b", None] * 4),
        "long": pa.array(["a", "b", None] * 4, pa.large_string()),
        "level": pa.array(["a", "b", None] * 4).dictionary_encode(),
        "number level": pa.array([10, 20, None] * 4).dictionary_encode(),
        "bool": pa.array([True, False, None] * 4),
        "moment": pa.array(moments, pa.timestamp("ms")),
        "zoned": pa.array(moments, pa.timestamp("us", "Europe/Rome")),
        "wait": pa.array([1, 2, None] * 4, pa.duration("s")),
        "day": pa.array(days),
        "day64": pa.array(days, pa.date64()),
        "decimal": pa.array([Decimal("1.5"), Decimal("2.5"), None] * 4),
    }


@pytest.mark.parametrize("name", arrow_columns())
def test_arrow_columns_round_trip(name):
    table = pa.table({name: arrow_columns()[name]})
    encoder = TableEncoder.fit(table)
    assert encoder.container == "pyarrow"
    encoder = TableEncoder.from_dict(encoder.to_dict())
    back = encoder.decode(encoder.encode(table).values)
    assert isinstance(back, pa.Table)
    assert back[name].to_pylist() == table[name].to_pylist()
    if name not in ("long", "day64", "decimal"):
        assert back.schema == table.schema


def test_arrow_and_pandas_encode_alike():
    table = example()
    encoder = TableEncoder.fit(table.to_pandas())
    same = TableEncoder.fit(table)
    expected, got = encoder.encode(table.to_pandas()), same.encode(table)
    np.testing.assert_array_equal(got.values, expected.values)
    np.testing.assert_array_equal(encoder.encode(table).values, expected.values)


def test_chunks_with_dictionaries_of_their_own():
    parts = [["a", "b"], ["c", "a", None], ["b"]]
    chunks = [pa.array(part).dictionary_encode() for part in parts]
    table = pa.table({"x": pa.chunked_array(chunks)})
    plain = pd.DataFrame({"x": [value for part in parts for value in part]})
    expected = TableEncoder.fit(plain).encode(plain).values
    np.testing.assert_array_equal(TableEncoder.fit(table).encode(table).values, expected)
