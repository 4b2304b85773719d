"""The study of images on a handful of them: its numbers, and that it goes on where it was."""

import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from diglm.data.image_sets import Labelled
from diglm.experiments import image_figures, image_recipes, image_study
from diglm.experiments.image_study import ImageStudy, separation

STUDY = ImageStudy(
    name="squares",
    strange=("noise",),
    weights=(1.0,),
    shown=1.0,
    minutes=0.0,
    settings={"n_blocks": [1], "width": 4, "batch_size": 16, "verbose": False},
)


def squares(name, part="test", data_dir=None):
    """Dark images with a bright left or right half; strange ones are noise."""
    rng = np.random.default_rng(len(name) + len(part))
    y = np.arange(60) % 10
    x = rng.integers(0, 255 if name == "noise" else 40, (60, 6, 6, 1))
    if name != "noise":
        x[:, :, :3] += (20 * y)[:, None, None, None]
    return Labelled(x.astype(np.uint8), y)


def test_a_variant_of_the_recipe_is_judged_as_the_study_judges():
    options = {"n_epochs": 1, "batch_size": 16, "flow__base": "normal", "verbose": False}
    layers = {"n_blocks": [1], "width": 4}
    found = image_recipes.judged(layers, options, squares("squares", "train"), squares("squares"))
    assert set(found) == {"bits_per_dimension", "error", "nll", "cpu_seconds"}
    assert 0 < found["bits_per_dimension"] < 9 and 0 <= found["error"] <= 1


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """One run of the study."""
    folder = tmp_path_factory.mktemp("study")
    patch = pytest.MonkeyPatch()
    patch.setattr(image_study, "load_images", squares)
    patch.setattr(image_study, "VALIDATION_IMAGES", 12)
    patch.setattr(image_study, "PACE_STEPS", 2)
    patch.setattr(image_figures, "FOLDER", folder / "figures")
    image_study.run(STUDY, folder, kept=folder / "runs", minutes=0.0, weights=(1.0,))
    yield folder, patch
    patch.undo()


def test_the_columns_of_the_papers_table_are_there(ran):
    folder, _ = ran
    result = json.loads((folder / "squares_1.json").read_text())
    metrics = result["metrics"]
    assert 0 <= metrics["error"] <= 1 and metrics["nll"] > 0
    assert 0 < metrics["bits_per_dimension"] < 8.5
    strange = metrics["strange"]["noise"]
    assert strange["entropy"]["conformal"] <= np.log(10) + 1e-6
    assert 0 <= strange["auroc"] <= 1 and result["seconds"] > 0


def test_borrowed_images_are_learned_and_not_judged(monkeypatch):
    monkeypatch.setattr(image_study, "load_images", squares)
    train, test = image_study._parts(replace(STUDY, borrowed=45), None)
    assert len(train.y) == 45 and len(test.y) == 15
    np.testing.assert_array_equal(np.concatenate([train.x, test.x]), squares("squares").x)


def test_epochs_are_planned_once(ran, tmp_path):
    folder, _ = ran
    result = json.loads((folder / "squares_1.json").read_text())
    assert result["config"]["n_epochs"] == 1 and result["config"]["minutes"] == 0.0
    arguments = STUDY, 1.0, tmp_path / "run", squares("squares"), 9.0
    first = image_study._plan(*arguments, 7, Console(stderr=True))
    assert first == {"n_epochs": 7, "minutes": None}
    assert image_study._plan(*arguments, None, Console(stderr=True)) == first


def test_figures_are_drawn(ran):
    folder, _ = ran
    kinds = ("densities", "confidence", "samples", "interpolations")
    assert all((folder / "figures" / f"squares_{kind}.png").stat().st_size > 0 for kind in kinds)


def test_a_finished_result_is_passed_over_and_a_kept_run_is_not_trained_again(ran):
    folder, patch = ran
    before = (folder / "squares_1.json").read_text()

    def never(*_, **__):
        raise AssertionError("trained again")

    image_study.run(STUDY, folder, kept=folder / "runs", minutes=0.0, weights=(1.0,))
    assert (folder / "squares_1.json").read_text() == before
    patch.setattr("diglm.training.stream.run_chunk", never)
    again = folder / "again"
    image_study.run(STUDY, again, kept=folder / "runs", minutes=9.0, weights=(1.0,))
    first, second = (
        json.loads(t)["metrics"] for t in (before, (again / "squares_1.json").read_text())
    )
    assert second["nll"] == pytest.approx(first["nll"])


def test_separation_is_that_of_ranks():
    apart = separation(np.array([3.0, 4.0]), np.array([1.0, 2.0]))
    assert apart == {"auroc": 1.0, "aupr": 1.0, "fpr95": 0.0}
    mixed = separation(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    assert mixed["auroc"] == pytest.approx(0.5)
