"""Model files: whole, atomic, and harmless."""

import dataclasses
import json
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save as to_bytes

from diglm import HybridClassifier, HybridDensity, HybridRegressor, load
from diglm.bijections import AbstractBijection, ActNorm, Chain, Planar
from diglm.data.toy import mixed_table
from diglm.heads import Bayesian, Mixed
from diglm.predictor import Predictor, load_predictor, read_stored, save_predictor
from diglm.recipes import CouplingFlow, LinearFlow
from diglm.refusal import AbstractScore, Conformal, Density, Minimum

TINY = dict(n_blocks=1, width=4, n_epochs=2, batch_size=64, random_state=0, verbose=False)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    names = np.where(X[:, 0] > 0, "yes", "no")
    return HybridClassifier("linear", reject=0.1, **TINY).fit(X, names), X


@pytest.mark.parametrize("flow", ["auto", "spline", "planar", "linear", "identity"])
def test_a_loaded_model_gives_the_same_answers(flow, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    model = HybridRegressor(flow, head="gaussian", reject=0.1, **TINY).fit(X, X[:, 0])
    model.save(tmp_path / "model.diglm")
    again = load(tmp_path / "model.diglm")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.score_samples(X), model.score_samples(X))
    assert again.threshold_ == model.threshold_
    assert again.get_params() == model.get_params()
    assert again.history_ == model.history_
    assert again.n_features_in_ == 3
    pd.testing.assert_frame_equal(again.assess(X), model.assess(X))


def test_frames_classes_and_names_survive(tmp_path, fitted):
    model, X = fitted
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.classes_.tolist() == ["no", "yes"]
    assert np.array_equal(again.predict(X), model.predict(X))
    table = mixed_table(200, 0)
    frame = pd.DataFrame(table.x)
    model = HybridClassifier("linear", reject=0.1, **TINY).fit(frame, table.label)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.feature_names_in_.tolist() == list(frame.columns)
    assert np.array_equal(again.score_samples(frame), model.score_samples(frame))
    pd.testing.assert_frame_equal(again.sample(5, random_state=0), model.sample(5, random_state=0))


def test_a_composed_flow_is_saved_and_a_foreign_layer_is_refused(tmp_path, fitted):
    _, X = fitted
    y = (X[:, 0] > 0).astype(int)
    model = HybridClassifier(Chain([ActNorm(2), Planar(2, key=jax.random.key(0))]), **TINY).fit(
        X, y
    )
    model.save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").predict_proba(X), model.predict_proba(X))
    assert np.all(np.isfinite(model.score_samples(X)))

    class Mine(AbstractBijection):
        in_shape: tuple[int, ...] = eqx.field(static=True)
        out_shape: tuple[int, ...] = eqx.field(static=True)
        shift: jax.Array

        def forward_and_log_det(self, x, *, key=None):
            return x + self.shift, jnp.zeros((), x.dtype)

        def inverse_and_log_det(self, z):
            return z - self.shift, jnp.zeros((), z.dtype)

    model = HybridClassifier(Mine((2,), (2,), jnp.zeros(2)), **TINY).fit(X, y)
    before = (tmp_path / "m").read_bytes()
    with pytest.raises(TypeError, match="diglm's own classes only.*Mine is yours"):
        model.save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before


def test_a_truncated_file_is_a_clear_error_at_every_length(tmp_path, fitted):
    model, _ = fitted
    model.save(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    for share in (0.0, 0.001, 0.1, 0.5, 0.9, 0.999):
        (tmp_path / "cut").write_bytes(content[: int(share * len(content))])
        with pytest.raises(ValueError, match="not a whole diglm model file"):
            load(tmp_path / "cut")


def _with_header(change, model, path):
    """A copy of a saved model with its description changed."""
    from safetensors import safe_open

    model.save(path)
    with safe_open(path, framework="numpy") as file:
        description = json.loads(file.metadata()["diglm"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    description = change(description)
    path.write_bytes(to_bytes(arrays, metadata={"diglm": json.dumps(description)}))


def _replaced(old, new):
    return lambda description: json.loads(json.dumps(description).replace(old, new))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_replaced('"Hybrid"', '"os.system"'), "not a class of this diglm"),
        (_replaced('"HybridClassifier"', '"Popen"'), "estimator among .*got 'Popen'"),
        (_replaced('"format": 2', '"format": 99'), "format 99, this diglm reads format 2"),
        (_replaced('"in_shape"', '"__class__"'), "should have fields"),
        (_replaced('"ClassTarget"', '"Density"'), "Density should have fields"),
        (_replaced('"refusal"', '"_secret"'), "does not describe"),
        (_replaced('"table"', '"image"'), "does not describe"),
        (_replaced('"table"', '"film"'), "Expected a kind of data among"),
        (_replaced('"parameters"', '"perimeters"'), "does not describe"),
        (_replaced('"reject"', '"regret"'), "does not describe"),
        (lambda d: {"format": 2, "content": {"list": []}}, "not a description"),
        (lambda d: {"format": 2, "content": [1]}, "unexpected list"),
        (lambda d: [], "cannot be read"),
        (_replaced('"array": "0000"', '"array": "nowhere"'), "missing"),
    ],
)
def test_a_hostile_description_is_refused(change, message, tmp_path, fitted):
    path = tmp_path / "hostile"
    _with_header(change, fitted[0], path)
    with pytest.raises(ValueError, match=message):
        load(path)


def test_a_deeply_nested_description_is_refused(tmp_path, fitted):
    def nest(_):
        content: dict = {"list": []}
        for _ in range(100):
            content = {"list": [content]}
        return {"format": 2, "content": content}

    _with_header(nest, fitted[0], tmp_path / "deep")
    with pytest.raises(ValueError, match="nested too deeply"):
        load(tmp_path / "deep")


def test_other_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="No model file"):
        load(tmp_path / "nothing")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="not a whole diglm model file"):
        load(tmp_path / "text")
    (tmp_path / "other").write_bytes(to_bytes({"a": np.zeros(3)}))
    with pytest.raises(ValueError, match="not one written by diglm"):
        load(tmp_path / "other")
    with pytest.raises((FileNotFoundError, ValueError)):
        load(tmp_path)


def test_a_failed_save_keeps_the_earlier_file(tmp_path, fitted, monkeypatch):
    model, X = fitted
    path = tmp_path / "model"
    model.save(path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        model.save(path)
    monkeypatch.undo()
    assert np.array_equal(load(path).predict(X), model.predict(X))
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    with pytest.raises(OSError, match="Cannot write a model"):
        model.save(tmp_path / "no" / "folder" / "model")


# ---------------------------------------------------------------- what else a file holds


@pytest.mark.parametrize(
    "options",
    [
        dict(reject=Minimum(slack=1.0), score=Density()),
        dict(flow=CouplingFlow(base="normal"), reject=Conformal(0.2)),
        dict(reject=None, score="density"),
    ],
)
def test_objects_among_parameters_are_kept(options, tmp_path, fitted):
    _, X = fitted
    model = HybridClassifier(**TINY).set_params(**options).fit(X, X[:, 0] > 0)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.get_params() == model.get_params()
    assert again.threshold_ == model.threshold_
    assert callable(again.score) and again.score(X, X[:, 0] > 0) == model.score(X, X[:, 0] > 0)
    assert again.predictor_.refusal.threshold.rule == model.predictor_.refusal.threshold.rule


def test_heads_groups_and_memories_are_kept(tmp_path, fitted):
    _, X = fitted
    groups = np.arange(100) % 5
    y = X[:, 0] + groups
    model = HybridRegressor(LinearFlow(), head=Mixed(slopes=[0]), reject=0.1, **TINY)
    model.fit(X, y, groups=groups)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert np.array_equal(again.predict(X, groups=groups), model.predict(X, groups=groups))
    assert np.array_equal(again.groups_, model.groups_)
    assert np.array_equal(again.random_covariance_, model.random_covariance_)
    exact = HybridRegressor("identity", head=Bayesian(), reject=0.1).fit(X, y)
    exact.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.head == Bayesian()
    assert np.array_equal(again.predictor_.memory.seen.marks, exact.predictor_.memory.seen.marks)
    assert np.array_equal(again.posterior_.covariance, exact.posterior_.covariance)


def test_a_density_is_kept(tmp_path, fitted):
    _, X = fitted
    model = HybridDensity("linear", contamination=0.1, **TINY | dict(n_epochs=1)).fit(X)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert isinstance(again, HybridDensity) and again.contamination == 0.1
    assert np.array_equal(again.predict(X), model.predict(X))


def test_a_predictor_is_kept_without_an_estimator(tmp_path, fitted):
    model, X = fitted
    save_predictor(model.predictor_, tmp_path / "m", {"note": [1, 2.5, None]})
    predictor, about = read_stored(tmp_path / "m")
    assert isinstance(predictor, Predictor) and about == {"note": [1, 2.5, None]}
    assert np.array_equal(load_predictor(tmp_path / "m").invert(np.zeros((1, 2))),
                          model.inverse_transform(np.zeros((1, 2))))  # fmt: skip
    with pytest.raises(ValueError, match="does not describe a diglm model"):
        load(tmp_path / "m")  # nothing says which estimator it was


@dataclasses.dataclass
class Mine(AbstractScore):
    """A score that diglm does not know."""

    def __call__(self, known):
        return -known.log_px


def test_a_score_of_ones_own_cannot_be_stored_and_is_named(tmp_path, fitted):
    _, X = fitted
    model = HybridClassifier("linear", score=Mine(), reject=0.1, **TINY).fit(X, X[:, 0] > 0)
    with pytest.raises(TypeError, match="Mine is yours"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()
