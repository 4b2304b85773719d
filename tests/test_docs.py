"""The pages say what runs and what was measured."""

import importlib.util
import re
from pathlib import Path

import jax
import pytest
from mktestdocs import check_md_file

ROOT = Path(__file__).parent.parent
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
}
FENCE = re.compile(r"^ *```(\w*)", re.MULTILINE)


def measured():
    spec = importlib.util.spec_from_file_location("measured", ROOT / "docs" / "measured.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", measured().PAGES)
def test_measured_numbers_are_those_in_results(page):
    assert PAGES[page] == measured().render(PAGES[page]), "run: python docs/measured.py"


def test_the_page_of_results_is_that_of_the_files():
    """Every number, every mark, and every figure."""
    assert PAGES["docs/results.md"] == measured().results_page(), "run: python docs/measured.py"


@pytest.mark.parametrize("page", PAGES)
def test_no_code_hides_from_being_run(page):
    """Code is Python and runs, or is said to be something else."""
    opened = FENCE.findall(PAGES[page])[::2]
    assert set(opened) <= {"python", "bash", "text"}


@pytest.mark.folds
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if "```python" in text else [])
        for page, text in PAGES.items()
    ],
)
def test_the_code_of_a_page_runs(tmp_path, monkeypatch, page):
    monkeypatch.chdir(tmp_path)
    kept = {name: value for name, value in jax.config.values.items() if "cache" in name}
    try:
        check_md_file(ROOT / page, memory=True)
    finally:  # a page may say where compiled programs are kept
        for name, value in kept.items():
            jax.config.update(name, value)
