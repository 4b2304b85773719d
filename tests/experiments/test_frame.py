"""The frame of studies: budgets, files, what is passed over, what goes on, and what stands in."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from diglm.experiments.frame import BUDGETS, Folders, Run, Study, stand_ins
from diglm.experiments.frame import study as frame
from diglm.experiments.frame.flags import as_words, changed
from diglm.experiments.registry import STUDIES, study
from diglm.report import results


@dataclass(frozen=True)
class Config:
    """Settings of a study of sums."""

    numbers: tuple[int, ...] = (1, 2, 3)
    scale: float = 1.0
    embedded: tuple[str, ...] = ()


class Sums:
    """A study that counts what it computes, and can be killed at a step."""

    def __init__(self):
        self.asked, self.killed_at = [], None

    def runs(self, config):
        about = {name: value for name, value in vars(config).items() if name != "embedded" or value}
        return [Run("sum", about, lambda work: self.measure(work, config))]

    def measure(self, work, config):
        return {"sum": sum(work.step(str(n), lambda n=n: self.one(n)) for n in config.numbers)}

    def one(self, n):
        if n == self.killed_at:
            raise KeyboardInterrupt
        self.asked.append(n)
        return n

    @property
    def study(self):
        return Study("sums", full=Config(), small=Config((1,)), runs=self.runs, needs=("svhn",))


@pytest.fixture
def clean(monkeypatch):
    """A clean tree at one commit."""
    monkeypatch.setattr(results, "commit", lambda: "0123456789ab")
    monkeypatch.setattr(frame, "code", lambda: "0123456789ab")


@pytest.fixture
def folders(tmp_path):
    return Folders(tmp_path / "results", tmp_path / "figures", tmp_path / "kept")


def told(folders, name="sum"):
    return json.loads((folders.results / f"{name}.json").read_text())


def test_a_run_leaves_a_file_and_is_passed_over(clean, folders):
    sums = Sums()
    for _ in range(2):
        sums.study.run(Config(), folders, command="diglm reproduce sums")
    assert sums.asked == [1, 2, 3]
    stored = told(folders)
    assert stored["metrics"] == {"sum": 6} and stored["commit"] == "0123456789ab"
    assert stored["command"] == "diglm reproduce sums"
    assert stored["config"]["numbers"] == [1, 2, 3]
    sums.study.run(Config(), folders, command="", again=True)
    assert sums.asked == [1, 2, 3] * 2


def test_other_settings_are_not_passed_over(clean, folders):
    sums = Sums()
    sums.study.run(Config(), folders, command="")
    sums.study.run(replace(Config(), scale=2.0), folders, command="")
    assert len(sums.asked) == 6 and told(folders)["config"]["scale"] == 2.0


@pytest.mark.parametrize("now", ["ba9876543210", "0123456789ab+", None])
def test_results_of_other_code_are_not_passed_over(clean, folders, monkeypatch, now):
    sums = Sums()
    sums.study.run(Config(), folders, command="")
    monkeypatch.setattr(results, "commit", lambda: now)
    sums.study.run(Config(), folders, command="")
    assert sums.asked == [1, 2, 3] * 2


def test_a_result_of_a_changed_tree_never_stands(clean, folders, monkeypatch):
    monkeypatch.setattr(results, "commit", lambda: "0123456789ab+")
    sums = Sums()
    for _ in range(2):
        sums.study.run(Config(), folders, command="")
    assert sums.asked == [1, 2, 3] * 2


def test_a_killed_run_goes_on(clean, folders):
    sums = Sums()
    sums.killed_at = 3
    with pytest.raises(KeyboardInterrupt):
        sums.study.run(Config(), folders, command="")
    assert sums.asked == [1, 2] and not (folders.results / "sum.json").exists()
    sums.killed_at = None
    sums.study.run(Config(), folders, command="")
    assert sums.asked == [1, 2, 3] and told(folders)["metrics"] == {"sum": 6}
    assert not list(folders.kept.iterdir())


def test_results_on_other_data_are_not_passed_over(clean, folders):
    sums = Sums()
    for embedded in (("svhn",), (), ()):
        sums.study.run(replace(Config(), embedded=embedded), folders, command="")
    assert sums.asked == [1, 2, 3] * 2 and "embedded" not in told(folders)["config"]


def test_a_missing_figure_is_drawn_again(clean, folders):
    drawn = []

    def measure(work):
        work.figure("a.png").write_bytes(b"drawn")
        drawn.append(1)

    one = Study("draws", Config(), Config(), lambda c: [Run("a", {}, measure, figures=("a.png",))])
    one.run(Config(), folders, command="")
    (folders.figures / "a.png").unlink()
    one.run(Config(), folders, command="")
    one.run(Config(), folders, command="")
    assert len(drawn) == 2


def test_small_settings_fall_back_on_embedded_data(monkeypatch):
    one = Sums().study
    monkeypatch.setattr(stand_ins, "is_here", lambda name: False)
    assert one.settings("small") == Config((1,), embedded=("svhn",))
    assert one.settings("full") == Config()  # which says what is missing when it is read
    monkeypatch.setattr(stand_ins, "is_here", lambda name: True)
    assert one.settings("small") == Config((1,))


def test_small_results_have_a_folder_of_their_own():
    small, full = (Folders.of(budget) for budget in BUDGETS)
    assert len({small.results, full.results}) == len({small.figures, full.figures}) == 2
    assert small.kept != full.kept


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_fulfils_the_frame(name):
    one = study(name)
    assert one.about and type(one.small) is type(one.full)
    for settings in (one.full, one.small):
        runs = one.runs(settings)
        names = [run.name for run in runs]
        assert runs and len(set(names)) == len(names)
    if one.needs:
        standing = replace(one.small, embedded=one.needs)
        assert any(run.config.get("embedded") for run in one.runs(standing))


def test_results_and_figures_of_studies_do_not_collide():
    every = [run for name in STUDIES for run in study(name).runs(study(name).full)]
    names, figures = [r.name for r in every], [f for r in every for f in r.figures]
    assert len(set(names)) == len(names) and len(set(figures)) == len(figures)


def test_flags_replace_fields():
    assert changed(Config(), ["--numbers", "4", "5", "--scale", "2"]) == Config((4, 5), 2.0)
    assert changed(Config(), []) == Config()
    assert as_words(Config()) == "--numbers 1 2 3 --scale 1.0"


@pytest.mark.parametrize("words", [["--number", "1"], ["--scale", "much"], ["4"]])
def test_flags_that_are_none_are_refused(words):
    with pytest.raises(ValueError):
        changed(Config(), words)


@pytest.mark.parametrize("name", stand_ins.IMAGES)
def test_stand_ins_look_like_what_they_stand_for(name):
    side, channels = (28, 1) if name in ("mnist", "notmnist", "fashion-mnist") else (32, 3)
    some = stand_ins.images(name, "test", (name,))
    assert some.x.shape == (len(some.y), side, side, channels) and some.x.dtype == np.uint8
    assert len(np.unique(some.y)) >= 4 and np.ptp(some.x) > 200


def test_tables_stand_in_for_tables():
    first, second = (stand_ins.uci_split("yacht", n, True) for n in (0, 1))
    assert not np.array_equal(first.y_test[:9], second.y_test[:9]) and first.x_train.shape[1] == 10
    x, late = stand_ins.made_flights(5_000)
    assert x.shape == (5_000, 8) and np.all(np.diff(x[:, 0]) >= 0) and late.min() < 0
    x, odd = stand_ins.anomalies("wine", True)
    assert 0.3 < odd.mean() < 0.5 and len(x) == len(odd)
