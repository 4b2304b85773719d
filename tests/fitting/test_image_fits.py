"""Images through the estimators: fit, predict, refuse, sample, save, resume; and bad images."""

import jax
import numpy as np
import pytest
from sklearn.base import clone

from diglm import HybridClassifier, HybridRegressor, load
from diglm.bases import Normal, NormalMixture
from diglm.data.image import ImageEncoder, as_images
from diglm.fitting.classbase import _features, with_base_of_classes
from diglm.flows import Flow, glow, identity, n_read
from diglm.heads import CategoricalHead
from diglm.hybrid import Hybrid
from diglm.recipes import GivenImages, Glow
from diglm.types import Batch

TINY = {"n_blocks": [1], "width": 4, "batch_size": 32, "n_epochs": 2, "random_state": 0}


def pictures(n=80, shape=(6, 6, 1), seed=0):
    """Noise with a bright left half (class 1) or right half (class 0)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.integers(0, 60, (n, *shape))
    half = shape[1] // 2
    for image, label in zip(x, y, strict=True):
        image[:, slice(None, half) if label else slice(half, None)] += 150
    return x.astype(np.uint8), y


@pytest.fixture(scope="module")
def fitted():
    X, y = pictures()
    return HybridClassifier(**TINY, verbose=False).fit(X, y)


def test_answers_have_the_shapes_of_the_contract(fitted):
    X, y = pictures(20, seed=1)
    assert fitted.predict_proba(X).shape == (20, 2)
    assert fitted.score(X, y) > 0.8
    assert fitted.score_samples(X).shape == (20,) and np.all(np.isfinite(fitted.score_samples(X)))
    assert list(fitted.assess(X).columns)[-2:] == ["p_value", "rejected"]
    assert fitted.n_features_in_ == 36


def test_features_give_the_images_back(fitted):
    X, _ = pictures(7, seed=2)
    Z = fitted.transform(X)
    assert Z.shape == (7, 36)
    np.testing.assert_array_equal(fitted.inverse_transform(Z), X)


def test_samples_and_interpolations_are_images(fitted):
    X, _ = pictures(2, seed=3)
    assert fitted.sample(3, random_state=0).shape == (3, 6, 6, 1)
    drawn, classes = fitted.sample_joint(4, random_state=0)
    assert drawn.dtype == np.uint8 and classes.shape == (4,)
    strip = fitted.interpolate(X[0], X[1], 5)
    assert strip.shape == (5, 6, 6, 1)
    np.testing.assert_array_equal(strip[[0, -1]], X)
    assert fitted.sample(2, y=1, random_state=0).shape == (2, 6, 6, 1)
    changed = fitted.counterfactual(X[:1], 1)
    assert changed.x.shape == (1, 6, 6, 1)


def test_masses_of_an_image_do_not_depend_on_its_company(fitted):
    X, _ = pictures(70, seed=4)
    together = fitted.score_samples(X)
    np.testing.assert_allclose(fitted.score_samples(X[[69]]), together[[69]], rtol=1e-12)


def test_black_and_inverted_images_are_refused(fitted):
    assert np.all(fitted.rejects(np.zeros((1, 6, 6, 1), np.uint8)))
    assert np.all(fitted.rejects(np.full((1, 6, 6, 1), 255, np.uint8)))


def test_saved_models_answer_alike(fitted, tmp_path):
    X, _ = pictures(5, seed=5)
    fitted.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.score_samples(X), fitted.score_samples(X))
    np.testing.assert_array_equal(again.sample(2, random_state=0), fitted.sample(2, random_state=0))


def test_a_base_of_classes_leaves_predictions_as_they_were():
    X, y = pictures(200)
    one = HybridClassifier(Glow(base="normal"), **TINY, verbose=False).fit(X, y)
    chosen = HybridClassifier(**TINY, verbose=False).fit(X, y)
    assert isinstance(one.model_.flow.base, Normal)
    assert isinstance(chosen.model_.flow.base, NormalMixture)
    np.testing.assert_array_equal(chosen.predict_proba(X), one.predict_proba(X))
    new, _ = pictures(100, seed=6)
    assert np.mean(chosen.score_samples(new)) > np.mean(one.score_samples(new))


@pytest.mark.parametrize(("apart", "kept"), [(0.0, Normal), (1.5, NormalMixture)])
def test_a_base_of_classes_must_earn_its_place(apart, kept):
    rng, dim = np.random.default_rng(0), 30
    model = Hybrid(Flow(identity(dim), Normal(dim)), CategoricalHead(dim, 2))

    def rows(n):
        y = rng.integers(0, 2, n)
        x = rng.normal(size=(n, dim))
        x[:, 0] += apart * (2 * y - 1)
        return Batch(x, y, np.ones(n, bool), np.ones(n))

    settled = with_base_of_classes(model, rows(200), rows(200), always=False, seed=0)
    assert isinstance(settled.flow.base, kept)


def test_a_base_of_classes_knows_which_features_vary_together():
    rng, dim = np.random.default_rng(1), 6
    mixing = np.linalg.cholesky(0.5 * np.eye(dim) + 0.5)
    model = Hybrid(Flow(identity(dim), Normal(dim)), CategoricalHead(dim, 2))

    def rows(n):
        y = rng.integers(0, 2, n)
        x = rng.normal(size=(n, dim)) @ mixing.T + y[:, None]
        return Batch(x, y, np.ones(n, bool), rng.uniform(0.5, 1.5, n))

    base = with_base_of_classes(model, rows(9_000), rows(500), always=False, seed=0).flow.base
    covariance = np.linalg.inv(np.asarray(base.whitening.T @ base.whitening))
    np.testing.assert_allclose(covariance, mixing @ mixing.T, atol=0.06)
    np.testing.assert_allclose(base.means, [[0] * dim, [1] * dim], atol=0.08)

    few = with_base_of_classes(model, rows(9_000), rows(0), always=True, seed=0).flow.base
    assert few.whitening is None  # nothing held out says that it helps


def test_a_base_is_fitted_with_noise_of_its_own_in_every_image(fitted):
    # Fitted at the places at which masses are looked at, it would make them seem larger.
    same = np.repeat(pictures(1)[0], 50, axis=0)
    ((_, zs),) = _features(fitted.model_, same, np.random.default_rng(0))
    assert zs.shape == (50, 36) and np.all(np.std(zs, axis=0) > 1e-3)


def test_floats_are_levels_and_densities_are_in_their_unit():
    X, y = pictures()
    as_bytes = HybridClassifier(**TINY, verbose=False).fit(X, y)
    as_floats = clone(as_bytes).fit(X / 255, y)
    shift = as_floats.score_samples(X[:5] / 255) - as_bytes.score_samples(X[:5])
    np.testing.assert_allclose(shift, 36 * np.log(255), rtol=1e-9)
    assert as_floats.sample(1, random_state=0).max() <= 1.0


def test_colour_and_odd_sizes_and_numbers_to_predict():
    X, y = pictures(60, (5, 7, 3))
    model = HybridRegressor(head="gaussian", **TINY, verbose=False).fit(X, y.astype(float))
    np.testing.assert_array_equal(model.inverse_transform(model.transform(X[:3])), X[:3])
    assert model.predict(X[:3]).shape == (3,)


def test_a_bijection_of_images_is_taken_as_it_is():
    X, y = pictures(60)
    flow = glow((6, 6, 1), n_blocks=[1], width=3, highway=True, key=jax.random.key(1))
    model = HybridClassifier(flow, **TINY, verbose=False).fit(X, y)
    assert model.model_.flow.bijection.bijection.layers[0].high == 256.0
    with pytest.raises(ValueError, match=r"shape \(6, 6, 1\), so `flow` must map"):
        wrong = glow((8, 8, 1), n_blocks=[1], width=3, key=jax.random.key(1))
        HybridClassifier(wrong, **TINY).fit(X, y)


def test_a_fit_that_was_kept_goes_on_and_ends_the_same(tmp_path, monkeypatch):
    from diglm.training import stream

    X, y = pictures()
    whole = HybridClassifier(**TINY, verbose=False).fit(X, y, checkpoint=tmp_path / "whole")

    class Interrupted(Exception):
        pass

    ordinary, calls = stream.end_epoch, []

    def once(*args):
        calls.append(1)
        if len(calls) == 3:  # the start, the first epoch, and now the second
            raise Interrupted
        return ordinary(*args)

    monkeypatch.setattr(stream, "end_epoch", once)
    monkeypatch.setattr("diglm.fitting.sources.STEPS_A_CHUNK", 1)
    part = HybridClassifier(**TINY, verbose=False)
    with pytest.raises(Interrupted):
        part.fit(X, y, checkpoint=tmp_path / "part")
    monkeypatch.setattr(stream, "end_epoch", ordinary)
    monkeypatch.undo()
    resumed = HybridClassifier(**TINY, verbose=False).fit(X, y, checkpoint=tmp_path / "part")
    np.testing.assert_allclose(resumed.score_samples(X), whole.score_samples(X), rtol=1e-9)
    with pytest.raises(ValueError, match="set random_state"):
        HybridClassifier(**TINY | {"random_state": None}).fit(X, y, checkpoint=tmp_path / "x")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.zeros((3, 6, 6), np.uint8), r"add an axis: X\[..., None\]"),
        (np.zeros((0, 6, 6, 1), np.uint8), "none of them zero"),
        (np.zeros((3, 5, 6, 1), np.uint8), r"fitted to images of 6 x 6 .* got 5 x 6"),
        (np.zeros((3, 6, 6, 3), np.uint8), "with 3 channel"),
        (np.zeros((3, 6, 6, 1)), "fitted to images of bytes"),
        (np.full((3, 6, 6, 1), 300), "from 0 to 255; got 300 to 300"),
        (np.full((3, 6, 6, 1), np.nan), "NaN or infinity"),
        (np.full((3, 6, 6, 1), 2.0), r"lie in \[0, 1\]; got 2 to 2"),
        (np.zeros((3, 6, 6, 1), complex), "got complex128"),
        (np.array([[["a"]]])[..., None], "floats"),
    ],
)
def test_bad_images_are_named(fitted, bad, message):
    with pytest.raises(ValueError, match=message):
        fitted.predict(bad)


@pytest.mark.slow
def test_images_in_colour_have_a_reader(tmp_path):
    shape = (7, 5, 3)
    X, y = pictures(80, shape)
    model = HybridClassifier(Glow(reader=4), **TINY, verbose=False).fit(X, y)
    assert model.model_.guided == n_read(shape) == (shape[0] // 2) * (shape[1] // 2)
    assert model.score(X, y) > 0.8
    np.testing.assert_array_equal(model.inverse_transform(model.transform(X[:5])), X[:5])
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))


def test_images_in_colour_are_read_unless_told_otherwise():
    grey, colour = (6, 6, 1), (6, 6, 3)
    own = GivenImages(glow(colour, n_blocks=[1], width=4, key=jax.random.key(0)))
    for recipe, shape, width in (
        (Glow(), grey, 0),
        (Glow(), colour, 48),
        (Glow(reader=3), grey, 3),
        (Glow(reader=None), colour, 0),
        (own, colour, 0),
    ):
        assert recipe.reads(shape) == width


def test_images_that_no_recipe_fits():
    y = np.array([0, 1] * 10)
    with pytest.raises(ValueError, match="at least 4 x 4 pixels; got 1 x 1"):
        HybridClassifier(verbose=False).fit(np.zeros((20, 1, 1, 1), np.uint8), y)
    with pytest.raises(ValueError, match="is for rows of layout 'vector'"):
        HybridClassifier("coupling", verbose=False).fit(np.zeros((20, 6, 6, 1), np.uint8), y)
    with pytest.raises(ValueError, match="augment must be 'auto' or a whole number.*got 'lots'"):
        HybridClassifier(Glow(augment="lots"), **TINY).fit(np.zeros((20, 6, 6, 1), np.uint8), y)
    with pytest.raises(ValueError, match="dropout must be 'auto' or a finite number.*got 'x'"):
        HybridClassifier(dropout="x").fit(np.zeros((20, 6, 6, 1), np.uint8), y)
    with pytest.raises(ValueError, match="n_blocks must be 'auto' or a whole number"):
        HybridClassifier(n_blocks=0).fit(np.zeros((20, 6, 6, 1), np.uint8), y)


def test_wide_images_have_a_recipe():
    model = glow((4, 257, 1), n_blocks=[1], width=2, key=jax.random.key(0))
    assert model.out_shape == (4 * 257,)


def test_encoders_survive_their_description():
    encoder = ImageEncoder.fit(np.zeros((2, 5, 6, 3), np.float32))
    assert ImageEncoder.from_dict(encoder.to_dict()) == encoder
    with pytest.raises(ValueError, match="not one"):
        ImageEncoder.from_dict({"shape": [1, 2], "floats": True})
    assert as_images(np.zeros((1, 2, 2, 1), np.int64)).dtype == np.uint8
