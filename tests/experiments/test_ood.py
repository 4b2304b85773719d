"""The study of scores: strange images of every kind, and every score judged on the same rows."""

import numpy as np
import pytest

from diglm import HybridDensity
from diglm.experiments.ood import Config, judge, known
from diglm.experiments.strange_images import CHOSEN_BY, JUDGED_BY, KINDS, make


@pytest.fixture(scope="module")
def digits():
    """Bars, standing in for digits."""
    images = np.zeros((12, 28, 28, 1), np.uint8)
    for i, image in enumerate(images):
        image[4 + i : 8 + i, 6:22] = 200
    return images


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_images_of_the_same_shape_and_differ_from_digits(kind, digits):
    made = make(kind, digits, 0)
    assert made.shape == digits.shape and made.dtype == np.uint8
    assert np.array_equal(made, make(kind, digits, 0))
    if kind != "mirrored":  # bars are their own mirror images
        assert np.mean(np.any(made != digits, axis=(1, 2, 3))) > 0.5


def test_kinds_that_chose_are_not_those_that_judge():
    assert not set(CHOSEN_BY) & set(JUDGED_BY) and set(KINDS) == set(CHOSEN_BY) | set(JUDGED_BY)


def test_every_score_that_a_model_can_have_is_judged():
    X = np.random.default_rng(0).normal(size=(300, 4))
    model = HybridDensity("linear", n_epochs=2, reject=0.1, random_state=0, verbose=False).fit(X)
    parts = [known(model.predictor_, X[i::3]) for i in range(3)]
    far = {"far": known(model.predictor_, X[:50] + 20)}
    found = judge(Config(rate=0.1), *parts, far)
    assert {"auto", "density", "neighbours", "likelihood_ratio"} <= set(found)
    assert "entropy" not in found and "simplicity" not in found
    for name in ("auto", "density", "neighbours"):
        assert found[name]["far"] == {"auroc": 1.0, "refused": 1.0}
        assert found[name]["familiar"]["refused"] <= 0.25
