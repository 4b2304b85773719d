"""Optional packages: what stands in for one that is missing, and what it says when it is used."""

import importlib
import sys
from types import ModuleType

import pytest

import diglm.data.files
from diglm.data.files.opening import open_table
from diglm.optional import optional, require

SAID = r"needs pyarrow: pip install 'diglm\[files\]'"


def test_what_is_there_is_the_module_itself():
    assert optional("json", "nothing") is importlib.import_module("json")
    require(optional("json", "nothing"))


def test_a_stand_in_serves_annotations_and_says_what_to_install_when_used():
    absent = optional("no_such_package.part", "files")
    assert not isinstance(absent, ModuleType)
    assert isinstance(absent.Table, type)  # an annotation, a class to compare with or to catch
    assert not isinstance(3, absent.lib.Array)
    with pytest.raises(ZeroDivisionError):
        try:
            raise ZeroDivisionError
        except absent.SomeError:
            pass
    for use in (absent, absent.Table, absent.compute.sum):
        with pytest.raises(ImportError, match=r"needs no_such_package: pip install 'diglm\[files"):
            use(1, column="a")
    with pytest.raises(ImportError, match="needs no_such_package"):
        require(absent)
    with pytest.raises(AttributeError):
        absent.__path__  # noqa: B018


def test_without_pyarrow_files_are_refused_on_first_use_and_the_extra_is_named(
    monkeypatch, tmp_path
):
    for name in ("pyarrow", "pyarrow.parquet", "pyarrow.compute"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("formats", "opening"):
        # Imported anew; those of the other tests come back when this one ends.
        monkeypatch.delitem(sys.modules, f"diglm.data.files.{name}")
        monkeypatch.setattr(diglm.data.files, name, getattr(diglm.data.files, name))
    opening = importlib.import_module("diglm.data.files.opening")
    assert opening.open_table is not open_table
    path = tmp_path / "t.parquet"
    path.write_bytes(b"x")
    with pytest.raises(ImportError, match=SAID):
        opening.open_table(path)


def test_the_modules_of_other_tests_are_untouched():
    assert importlib.import_module("diglm.data.files.opening").open_table is open_table
    assert diglm.data.files.opening.open_table is open_table  # type: ignore[attr-defined]
