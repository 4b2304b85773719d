"""Models that come with the package, found by name, on digits that they never saw."""

from pathlib import Path

import numpy as np
import pytest

import diglm
from diglm import HybridClassifier, estimators, load
from diglm.experiments.strange_images import make
from diglm.refusal import auroc

DIGITS = Path(__file__).parent.parent / "data" / "mnist_digits.npz"  # 200 of MNIST's test images


@pytest.fixture(scope="module")
def digits():
    with np.load(DIGITS) as stored:
        return stored["x"], stored["y"]


@pytest.fixture(scope="module")
def model():
    return load("mnist")


def test_it_is_small():
    assert (Path(diglm.__file__).parent / "models" / "mnist.safetensors").stat().st_size < 5e6


def test_it_knows_digits_and_what_is_none(model, digits):
    x, y = digits
    noise = np.random.default_rng(0).integers(0, 256, x.shape).astype(np.uint8)
    assert isinstance(model, HybridClassifier)
    assert np.mean(model.predict(x) == y) >= 0.98
    assert np.mean(model.rejects(x)) <= 0.04
    turned = x[:, ::-1].transpose(0, 2, 1, 3) // 2 + 60
    assert model.rejects(np.concatenate([part[:40] for part in (noise, 255 - x, turned)])).all()
    bits = -model.score_samples(x).mean() / (28 * 28 * np.log(2))
    assert bits < 1.45


@pytest.mark.parametrize("kind", ["blank", "dots", "lines", "blobs", "shapes", "stripes", "ramps"])
def test_it_refuses_what_is_simpler_than_any_digit(model, digits, kind):
    assert model.rejects(make(kind, digits[0][:60], 3)).mean() >= 0.95


def test_it_tells_spoiled_digits_from_digits(model, digits):
    x, _ = digits
    familiar = -model.strangeness(x)
    for kind, least in {"turned": 0.95, "mirrored": 0.85, "upside down": 0.85}.items():
        assert auroc(familiar, -model.strangeness(make(kind, x, 0))) >= least, kind


@pytest.mark.slow
def test_it_draws_and_interpolates_images(model, digits):
    x, _ = digits
    wanted = np.repeat([1, 4, 7], 8)  # every other class would be as many proposals again
    drawn = model.sample(24, y=wanted, random_state=0, temperature=0.7)
    assert drawn.shape == (24, 28, 28, 1) and drawn.dtype == np.uint8
    assert np.mean(model.predict(drawn) == wanted) > 0.9
    assert np.mean(model.rejects(drawn)) <= 0.25  # some draws are no digits, and it knows
    strip = model.interpolate(x[0], x[1], 5)
    assert (strip[0] == x[0]).all() and (strip[-1] == x[1]).all()
    assert np.mean(model.rejects(strip)) <= 0.6  # halfway between two digits is none


def test_a_file_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mnist").write_text("hello")
    with pytest.raises(ValueError, match="not a whole diglm model file"):
        load("mnist")


def test_an_unknown_name_lists_those_that_there_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(estimators, "SHIPPED", tmp_path)
    (tmp_path / "letters.safetensors").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"name come with diglm \(letters\)"):
        load("digits")
    with pytest.raises(FileNotFoundError, match="No model file at digits.safetensors"):
        load("digits.safetensors")
