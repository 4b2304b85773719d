"""CSV as programs and countries write it: separators, decimal points, encodings, broken files."""

import gzip

import pytest

pytest.importorskip("pyarrow")

from diglm.data.files.dialect import LOOKED_AT, dialect_of  # noqa: E402
from diglm.data.files.opening import TableFileError, open_table  # noqa: E402

PLAIN = "kind,height,place\nshort,9.5,here\ntall,20.25,\n"


def written(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def content(path):
    table = open_table(path)
    return table.read(table.groups[0], table.names).to_pydict()


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", "|"),
        PLAIN.replace(",", ";").replace(".", ","),
        PLAIN.replace("\n", "\r\n"),
        "\ufeff" + PLAIN,
        PLAIN.encode("utf-16"),
        PLAIN.replace("tall,20.25,", "tall,20.25,?"),
    ],
)
def test_a_table_is_the_same_however_it_is_written(tmp_path, text):
    assert content(written(tmp_path, text)) == {
        "kind": ["short", "tall"],
        "height": [9.5, 20.25],
        "place": ["here", None],
    }


@pytest.mark.parametrize(
    ("text", "separator", "decimal"),
    [
        ("a\nx; y\nz\n", ",", "."),  # one column of text
        ("a,b\nx; y,1\nz; w,2\n", ",", "."),
        ('a;b\n"x\n;y";1\n', ";", "."),  # a new line within quotation marks
        ("a;b\n1,5;2.5\n", ";", "."),
        ("a;b\n1,5;2\n", ";", ","),
        ("a,b\n1,2\n3\n", ",", "."),  # broken; its parser says where
        ("", ",", "."),
    ],
)
def test_separators_are_those_that_every_line_has_alike(tmp_path, text, separator, decimal):
    assert dialect_of(written(tmp_path, text))[1:] == (separator, decimal)


def test_letters_that_are_not_unicode_are_read_and_said(tmp_path):
    path = written(tmp_path, "town\nZürich\n".encode("latin-1"))
    with pytest.warns(UserWarning, match="read as Windows-1252"):
        assert content(path) == {"town": ["Zürich"]}


def test_a_letter_that_the_first_look_cuts_in_two_is_unicode_still(tmp_path):
    path = written(tmp_path, "é" * LOOKED_AT)
    assert dialect_of(path).encoding == "utf-8"
    assert dialect_of(written(tmp_path, "a" + "é" * LOOKED_AT, "o.csv")).encoding == "utf-8"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("t.csv", b"a,b\n\xff\0,1\n", "no text"),
        ("t.csv.gz", b"not packed", "cannot be read"),
        ("t.csv.gz", gzip.compress(PLAIN.encode() * 99, mtime=0)[:60], "cannot be unpacked"),
    ],
)
def test_what_is_no_table_is_an_error(tmp_path, name, data, message):
    with pytest.raises(TableFileError, match=message):
        open_table(written(tmp_path, data, name))
