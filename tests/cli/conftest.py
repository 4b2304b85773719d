"""A small table with strings and gaps, a model that `diglm train` made of it, and ways to ask."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from running_commands import HEADER, TINY, Ended, rows  # noqa: E402

from diglm.cli.app import main  # noqa: E402


@pytest.fixture
def diglm(capfdbinary, monkeypatch):
    """Run a command in this process."""

    def run(*words: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["diglm", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        sys.stdout.flush()
        out, err = (text.decode() for text in capfdbinary.readouterr())
        return Ended(ended.value.code or 0, out, err)

    return run


@pytest.fixture(scope="session")
def table(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "plants.csv"
    path.write_text("\n".join([HEADER, *rows(160)]) + "\n")
    return path


@pytest.fixture(scope="session")
def later_table(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "later.csv"
    path.write_text("\n".join([HEADER, *rows(60, seed=1)]) + "\n")
    return path


@pytest.fixture(scope="session")
def said_in_training() -> dict[str, str]:
    """What `train` said on stderr and printed, filled by the fixture of the model."""
    return {}


@pytest.fixture(scope="session")
def model(table, tmp_path_factory, said_in_training) -> Path:
    """A classifier, made as a person makes it."""
    out = tmp_path_factory.mktemp("models") / "plants.diglm"
    words = ["diglm", "train", str(table), "--target", "kind", "--out", str(out), "--json", *TINY]
    told = {"out": io.StringIO(), "err": io.StringIO()}
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", words)
        with redirect_stdout(told["out"]), redirect_stderr(told["err"]):
            main(words[1:])
    said_in_training |= {name: text.getvalue() for name, text in told.items()}
    assert not ended.value.code, said_in_training["err"]
    return out
