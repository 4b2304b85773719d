"""The pages say what runs and what was measured."""

import importlib.util
import re
import runpy
from pathlib import Path

import jax
import pytest
from mktestdocs import check_md_file

ROOT = Path(__file__).parent.parent
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
}
GALLERY = sorted(ROOT.glob("docs/gallery/*.py"))
SCRIPT = re.compile(r"```py\n *--8<-- \"docs/gallery/(\w+)\.py\"\n *```")
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
    """Code is Python and runs, or is said to be something else; scripts are run as files."""
    opened = FENCE.findall(PAGES[page])[::2]
    assert set(opened) <= {"python", "bash", "text", "py"}
    assert opened.count("py") == len(SCRIPT.findall(PAGES[page]))


def test_the_gallery_shows_every_script_and_its_figure():
    shown = SCRIPT.findall(PAGES["docs/gallery.md"])
    assert sorted(shown) == [script.stem for script in GALLERY]
    for name in shown:
        assert f"(images/gallery/{name}.png)" in PAGES["docs/gallery.md"]
        assert 3_000 < (ROOT / f"docs/images/gallery/{name}.png").stat().st_size < 100_000


@pytest.mark.slow
@pytest.mark.parametrize("script", GALLERY, ids=lambda script: script.stem)
def test_the_scripts_of_the_gallery_run(tmp_path, monkeypatch, script):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script))
    assert [made.name for made in tmp_path.iterdir()] == [f"{script.stem}.png"]


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
