"""The pages say what runs and what was measured."""

import importlib.util
import os
from pathlib import Path

import pytest
from mktestdocs import check_md_file

ROOT = Path(__file__).parent.parent


def measured():
    spec = importlib.util.spec_from_file_location("measured", ROOT / "docs" / "measured.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", measured().PAGES)
def test_measured_numbers_are_those_in_results(page):
    text = (ROOT / page).read_text()
    assert text == measured().render(text), "run: python docs/measured.py"


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/bayesian.md"])
def test_the_code_of_a_page_runs(tmp_path, page):
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        check_md_file(ROOT / page, memory=True)
    finally:
        os.chdir(here)
