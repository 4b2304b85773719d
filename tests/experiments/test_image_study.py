"""The study of images on a handful of them: its numbers, and that it goes on where it was."""

import json
from dataclasses import replace

import numpy as np
import pytest

from diglm import load
from diglm.data.image_sets import Labelled
from diglm.experiments import image_recipes, image_study
from diglm.experiments.frame import Folders, Study
from diglm.experiments.image_study import ImageStudy, separation
from diglm.experiments.registry import study
from diglm.report import results

KINDS = ("densities", "confidence", "samples", "interpolations")
STUDY = ImageStudy(
    name="squares",
    strange=("noise",),
    weights=(1.0,),
    epochs=1,
    seeds=(0,),
    figures=tuple((1.0, kind, f"squares_{kind}.png") for kind in KINDS),
    settings={"n_blocks": [1], "width": 4, "batch_size": 16, "verbose": False},
)


def squares(name, part="test", embedded=()):
    """Dark images with a bright left or right half; strange ones are noise."""
    rng = np.random.default_rng(len(name) + len(part))
    y = np.arange(60) % 10
    x = rng.integers(0, 255 if name == "noise" else 40, (60, 6, 6, 1))
    if name != "noise":
        x[:, :, :3] += (20 * y)[:, None, None, None]
    return Labelled(x.astype(np.uint8), y)


def test_a_variant_of_the_recipe_is_judged_as_the_study_judges():
    options = {"batch_size": 16, "flow__base": "normal", "verbose": False}
    layers = {"n_blocks": [1], "width": 4}
    train, test = squares("squares", "train"), squares("squares")
    found = image_recipes.judged(layers, options, train, test, 1)
    assert set(found) == {"bits_per_dimension", "error", "nll", "cpu_seconds"}
    assert 0 < found["bits_per_dimension"] < 9 and 0 <= found["error"] <= 1


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """One run of the study, in a clean tree."""
    folder = tmp_path_factory.mktemp("study")
    folders = Folders(folder, folder / "figures", folder / "kept")
    patch = pytest.MonkeyPatch()
    patch.setattr(image_study, "images", squares)
    patch.setattr(image_study, "VALIDATION_IMAGES", 12)
    patch.setattr(results, "commit", lambda: "0123456789ab")
    of_squares = Study("squares", STUDY, STUDY, image_study.runs)
    of_squares.run(STUDY, folders, command="diglm reproduce squares")
    yield folders, patch, of_squares
    patch.undo()


def test_the_columns_of_the_papers_table_are_there(ran):
    folders, *_ = ran
    result = json.loads((folders.results / "squares_1.json").read_text())
    metrics = result["metrics"]
    assert 0 <= metrics["error"] <= 1 and metrics["nll"] > 0
    assert 0 < metrics["bits_per_dimension"] < 8.5
    strange = metrics["strange"]["noise"]
    for rule in ("minimum", "conformal"):
        assert 0 <= strange["entropy"][rule] <= np.log(10) + 1e-6
        assert strange["nll"][rule] > 0 and 0 <= strange["refused"][rule] <= 1
    assert 0 <= strange["auroc"] <= 1 and result["seconds"] > 0
    assert result["config"]["weight"] == 1.0 and result["config"]["n_epochs"] == 1


def test_borrowed_images_are_learned_and_not_judged(monkeypatch):
    monkeypatch.setattr(image_study, "images", squares)
    train, test, _ = image_study._sets(replace(STUDY, borrowed=45))
    assert len(train.y) == 45 and len(test.y) == 15
    np.testing.assert_array_equal(np.concatenate([train.x, test.x]), squares("squares").x)


def test_the_first_images_are_taken(monkeypatch):
    monkeypatch.setattr(image_study, "images", squares)
    parts = image_study._sets(replace(STUDY, n_train=20, n_test=9))
    assert [len(part.y) for part in (*parts[:2], parts[2]["noise"])] == [20, 9, 9]


@pytest.mark.parametrize("name", ["mnist", "svhn"])
def test_the_papers_tables_have_one_recipe_and_two_seeds(name):
    full = study(name).full
    found = image_study.runs(full)
    assert len(found) == len(full.weights) * len(full.seeds) and len(full.seeds) >= 2
    assert len({run.name for run in found}) == len(found)
    alike = [{k: v for k, v in run.config.items() if k != "weight"} for run in found]
    assert all(config == alike[0] for config in alike) and alike[0]["n_epochs"] == full.epochs
    assert {(run.config["weight"], run.seed) for run in found} == {
        (weight, seed) for weight in full.weights for seed in full.seeds
    }
    shown = {(weight, kind) for weight, kind, _ in full.figures}
    assert shown >= {(0.0, "densities"), (1.0, "densities"), (1.0, "interpolations")}


def test_figures_are_those_of_the_first_seed():
    two = image_study.runs(replace(STUDY, weights=(1.0, 0.0), seeds=(0, 3)))
    assert [(run.name, run.seed, len(run.figures)) for run in two] == [
        ("squares_1", 0, 4),
        ("squares_0", 0, 0),
        ("squares_1_seed3", 3, 0),
        ("squares_0_seed3", 3, 0),
    ]


def test_figures_are_drawn_and_the_model_is_kept(ran):
    folders, *_ = ran
    assert all((folders.figures / f"squares_{kind}.png").stat().st_size > 0 for kind in KINDS)
    again = load(folders.kept / "squares_1.safetensors")
    assert again.predict(squares("squares").x).shape == (60,)


def test_a_finished_result_is_passed_over(ran):
    folders, patch, of_squares = ran
    patch.setattr(image_study, "_classifier", lambda *_: pytest.fail("trained again"))
    before = (folders.results / "squares_1.json").read_text()
    of_squares.run(STUDY, folders, command="")
    assert (folders.results / "squares_1.json").read_text() == before


def test_separation_is_that_of_ranks():
    apart = separation(np.array([3.0, 4.0]), np.array([1.0, 2.0]))
    assert apart == {"auroc": 1.0, "aupr": 1.0, "fpr95": 0.0}
    mixed = separation(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    assert mixed["auroc"] == pytest.approx(0.5)
