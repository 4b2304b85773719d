"""The page of results: gaps in the right direction, marks on what no command makes again."""

import json
from dataclasses import replace

import pytest

from diglm.__about__ import __version__
from diglm.experiments.frame import Folders, Run, whole
from diglm.experiments.frame.contrary import reservations
from diglm.experiments.frame.page import DOWN, UP, Column, Found, Results
from diglm.experiments.frame.paper import TABLE_1, TABLE_2, TABLE_3, TABLE_S2
from diglm.experiments.frame.short import SHORT
from diglm.experiments.frame.tables import grid_table, image_table
from diglm.experiments.frame.text import page_of
from diglm.experiments.registry import STUDIES, study
from diglm.registry import Registry

FIGURES = [f"Figure {n}" for n in range(1, 7)]
TABLES = ["Table 1", "Table 2", "Table 3", "Table S1", "Table S2"]


@pytest.fixture
def folders(tmp_path):
    return Folders(
        tmp_path / "results", tmp_path / "figures", tmp_path / "kept", tmp_path / "page.md"
    )


def stored(run, **changed):
    """A sound result of a run."""
    plain = json.loads(json.dumps(run.config, default=str))
    record = {"config": plain, "seed": run.seed, "commit": "0123456789ab", "seconds": 5.0}
    return record | {"version": __version__, "metrics": {}} | changed


def test_a_gap_says_which_way_it_goes():
    error, entropy = Column("error", DOWN, ".2%"), Column("entropy", UP)
    assert error.cell(0.005, 0.02) == "**0.50%** (2.00%, better by 1.50%)"
    assert error.cell(0.02, 0.005) == "**2.00%** (0.50%, worse by 1.50%)"
    assert entropy.cell(2.0, 1.0) == "**2.00** (1.00, better by 1.00)"
    assert entropy.cell(1.0, 2.0) == "**1.00** (2.00, worse by 1.00)"
    assert entropy.cell(1.0, 1.001) == "**1.00** (1.00, equal)"
    assert entropy.cell(None, 1.0) == "not run (1.00)" and entropy.cell(None, None) == "not run"
    assert entropy.cell([2.0, 3.0], 1.0) == "**2.50** ± 0.71 (1.00, better by 1.50)"
    assert entropy.cell([], 1.0) == "not run (1.00)" and entropy.cell([2.0], None) == "**2.00**"


@pytest.mark.parametrize(
    ("changed", "marks"),
    [
        ({}, ""),
        ({"commit": "0123456789ab+"}, "†"),
        ({"config": {"weight": 2.0}}, "‡"),
        ({"seed": 1}, "‡"),
        ({"version": "0.0.1"}, "§"),
        ({"config": {"weight": 1.0, "embedded": ["mnist"]}}, "°"),
        ({"config": {"weight": 2.0, "embedded": ["mnist"]}}, "‡°"),
        ({"commit": "0+", "version": "0.0.1"}, "†§"),
    ],
)
def test_what_no_command_makes_again_is_marked(changed, marks):
    for config in ({"weight": 1.0}, {"weight": 1.0, "embedded": ()}):
        run = Run("one", config, lambda work: None)
        found = Found(run, stored(run, **changed))
        assert found.marks == marks and found.origin[-1].endswith(marks)
        assert Found(run, None).origin == ["", "", ""]


def test_every_figure_and_table_of_the_paper_has_its_place(folders):
    page = page_of("full", folders)
    shown = [name for one in STUDIES for name in study(one).shows]
    for name in FIGURES + TABLES:
        assert name in page and shown.count(name) == 1
    assert "not drawn" in page and "not run (81.80)" in page and "**0." not in page
    assert all(f"diglm reproduce {name} --budget full" in page for name in STUDIES)


def test_every_row_of_the_paper_has_a_place_at_the_small_budget_too(folders):
    page = page_of("small", folders)
    assert "what the method can do is said by the full budget" in page
    assert "what the method can do" not in page_of("full", folders)
    for told, place in ((TABLE_1, 1), (TABLE_2, 1), (TABLE_3, 0), (TABLE_S2, 0)):
        assert all(f"not run ({row[place]:.2%})" in page for row in told.values())


def test_numbers_and_figures_that_are_there_are_shown(folders):
    for run in study("mnist").runs(study("mnist").full):
        rules = {"minimum": 2.0, "conformal": 2.25}
        strange = {"bits_per_dimension": 4.0, "nll": rules, "entropy": rules}
        strange |= {"refused": {"minimum": 0.003, "conformal": 0.62}}
        metrics = {"bits_per_dimension": 1.2, "error": 0.01 + 0.002 * run.seed, "nll": 0.03}
        metrics |= {"strange": {"notmnist": strange}}
        folders.results.mkdir(exist_ok=True)
        path = folders.results / f"{run.name}.json"
        path.write_text(json.dumps(stored(run, metrics=metrics, commit="0123456789ab+")))
    folders.figures.mkdir()
    (folders.figures / "figure_4b.png").write_bytes(b"drawn")
    page = page_of("full", folders)
    assert "**1.10%** ± 0.14% (2.22%, better by 1.12%)" in page  # of two seeds
    assert "| 10 | 0, 1 | 0123456789ab+ † |" in page
    assert "**2.00** ± 0.00 (2.30, better by 0.30) | **2.25** ± 0.00 |" in page
    assert "| **0.3%** ± 0.0% | **62.0%** ± 0.0% |" in page
    assert "](figures/figure_4b.png)\n\n*mnist_1 †*" in page
    rows = image_table(Results("full", folders), "mnist", "notmnist", TABLE_1).splitlines()
    assert len(rows) == 2 + len(TABLE_1)


def test_what_contradicts_the_paper_is_said_from_the_numbers(folders):
    of = Results("full", folders)
    assert reservations(of, "svhn", "cifar10") == "*Nothing of this table has been run.*"
    folders.results.mkdir()
    told = {0.0: (1.45, 3.65, 0.0), 0.1: (1.6, 3.5, 0.026), 1.0: (1.34, 3.74, 0.003)}
    for run in study("svhn").runs(study("svhn").full):
        weight = run.config["weight"]
        if weight not in told:
            continue
        entropy, nll, refused = told[weight]
        strange = {
            "bits_per_dimension": 4.0,
            "entropy": {"minimum": entropy, "conformal": 2.0},
            "nll": {"minimum": nll, "conformal": 2.5},
            "refused": {"minimum": refused, "conformal": 0.62},
        }
        metrics = {"bits_per_dimension": 2.4, "error": 0.06, "nll": 0.2}
        record = stored(run, metrics=metrics | {"strange": {"cifar10": strange}})
        if weight == 1.0:
            record["config"]["n_epochs"] = 8
        (folders.results / f"{run.name}.json").write_text(json.dumps(record))
    said = reservations(of, "svhn", "cifar10")
    assert "different numbers of epochs (8, 16)" in said
    assert "under the paper's rule 0.0% at 0, 2.6% at 0.1/D, 0.3% at 1/D; under ours 62.0%" in said
    assert "surer than those of the model without a density (1.45): 1.34 at 1/D." in said
    assert "worse in NLL than those of the model without a density (3.65): 3.74 at 1/D." in said
    assert said in page_of("full", folders)


def test_a_search_of_less_than_the_grid_says_what_it_searched(folders):
    (run,) = study("unlabelled_search").runs(study("unlabelled_search").small)
    best = {"dropout": 0.0, "vat_radius": 1.0, "entropy_weight": 1.0, "vat_weight": 0.0}
    folders.results.mkdir()
    record = stored(run, metrics={"best": best})
    (folders.results / f"{run.name}.json").write_text(json.dumps(record))
    rows = grid_table(Results("small", folders)).splitlines()
    assert "| dropout | 0, 0.2, 0.5 | 0 (of 0) |" in rows
    assert "| vat_weight | 0, 0.3, 1, 3 | 0 (of 0, 1) |" in rows


def test_what_the_readme_shows_is_measured_by_studies():
    for _, name, file, *_ in SHORT:
        assert file in {run.name for run in study(name).runs(study(name).full)}


def test_all_studies_run_in_turn_and_a_failure_stops_none(folders, monkeypatch, tmp_path):
    asked = []
    few = Registry("study", {name: STUDIES[name] for name in ("model", "toy_regression", "digits")})
    monkeypatch.setattr(whole, "STUDIES", few)
    monkeypatch.setattr(whole, "_run", lambda words: asked.append(words) or "model" in words)
    standing = replace(study("digits"), runs=lambda settings: [])  # nothing is left to do
    monkeypatch.setattr(whole, "study", lambda name: standing if name == "digits" else study(name))
    told = whole.run_all("small", tmp_path, again=False)
    assert [one.outcome for one in told] == [whole.FAILED, whole.RAN, whole.STOOD]
    assert [words[4] for words in asked] == ["model", "toy_regression"]
    assert asked[0][2:] == [
        "diglm",
        "reproduce",
        "model",
        "--budget",
        "small",
        "--out",
        str(tmp_path),
    ]
