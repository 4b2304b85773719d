"""What a release says of itself, in each place alike."""

import re
import tomllib
from pathlib import Path

import pytest

from diglm import __about__

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_the_version_is_the_same_everywhere():
    version = __about__.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    heads = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0] == version
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None and cited[1] == version


def test_the_license_and_the_authors_are_those_of_the_citation():
    cited = (ROOT / "CITATION.cff").read_text()
    assert f"license: {PROJECT['license']}" in cited
    assert all(author["name"] in cited for author in PROJECT["authors"])


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda path: path.stem)
def test_every_hint_names_an_extra_that_there_is(path):
    """`pip install 'diglm[files]'` in a message is a promise."""
    named = set(re.findall(r"diglm\[(\w+(?:,\w+)*)\]", path.read_text()))
    assert {extra for one in named for extra in one.split(",")} <= set(EXTRAS)


def test_the_commands_install_all_that_they_need():
    (commands,) = EXTRAS["commands"]
    assert set(re.search(r"\[(.*)\]", commands)[1].split(",")) == {
        "files",
        "images",
        "plot",
        "serve",
    }


def test_what_is_exact_for_tests_is_allowed_by_what_is_required():
    """Every package that is required has an exact version to be tested with."""
    pinned = {
        re.match(r"[\w.-]+", line)[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    needed = {
        re.match(r"[\w.-]+", one)[0].lower().replace("_", "-")
        for one in PROJECT["dependencies"] + [r for e in EXTRAS.values() for r in e]
    }
    studied = {"ngboost", "gpjax"}  # the studies' own, installed with them
    assert needed - studied - {"diglm"} <= pinned
