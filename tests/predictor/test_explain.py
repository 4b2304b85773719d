"""What each column adds, against what the others lead one to expect."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from diglm import HybridClassifier, HybridDensity, HybridRegressor, load
from diglm.predictor.conditionals import Conditionals

TINY = dict(n_epochs=5, batch_size=64, reject=0.05, random_state=0, verbose=False)


@pytest.fixture(scope="module")
def pair():
    """Two columns that go together and one that does not."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=800)
    return np.column_stack([a, 0.9 * a + 0.4 * rng.normal(size=800), 5 + rng.normal(size=800)])


@pytest.fixture(scope="module")
def normal(pair):
    """A linear flow: the normal distribution, whose conditionals are known."""
    y = 2 * pair[:, 0] + pair[:, 2] + 0.1 * np.random.default_rng(1).normal(size=800)
    return HybridRegressor("linear", head="gaussian", **TINY).fit(pair, y)


@pytest.fixture(scope="module")
def kinds():
    """Numbers, counts and levels, some of them missing."""
    rng = np.random.default_rng(0)
    kind = rng.choice(["u", "v", "w"], 500, p=[0.6, 0.3, 0.1])
    a = np.where(rng.random(500) < 0.2, np.nan, rng.normal(size=500))
    frame = pd.DataFrame({"a": a, "kind": kind, "count": rng.poisson(3, 500)})
    label = np.where(rng.random(500) < np.where(kind == "u", 0.9, 0.1), "yes", "no")
    return frame, HybridClassifier("linear", **TINY).fit(frame, label)


def test_surprise_is_that_of_the_conditional(pair, normal):
    """Of a normal, z^2 / 2 - 1 / 2 in deviations of its conditional."""
    rows = pair[:40].copy()
    rows[0, 1] += 2.0
    found = normal.explain(rows)
    draws = np.asarray(normal.sample(40_000, random_state=0))
    mean, precision = draws.mean(axis=0), np.linalg.inv(np.cov(draws.T))
    away = (rows - mean) @ precision / np.sqrt(np.diag(precision))
    expected = away**2 / 2 - 0.5
    # Margins are made normal by a spline, so the density is only nearly normal.
    assert np.median(np.abs(found.parts["surprise"] - expected)) < 0.1
    assert stats.spearmanr(found.parts["surprise"].ravel(), expected.ravel()).statistic > 0.95
    assert found.ranking()[0, 0] == 1 and found.parts["surprise"][0, 1] > 5
    conditional = mean[0] - precision[0, 1:] @ (rows[0, 1:] - mean[1:]) / precision[0, 0]
    assert found.expected[0, 0] == pytest.approx(conditional, abs=0.3)


def test_effects_on_a_linear_prediction(pair, normal):
    found = normal.explain(pair[:20])
    effects = np.asarray(found.prediction)
    assert np.allclose(found.answer, normal.predict(pair[:20]))
    # The third column goes with no other: what it adds is its distance from the mean.
    assert np.allclose(effects[:, 2], pair[:20, 2] - 5, atol=0.35)
    assert np.all(np.abs(effects[:, 1]) < 0.3)  # y does not hang on the second one


def test_familiar_rows_add_nothing_on_average(pair, normal):
    surprise = normal.explain(pair[:200]).parts["surprise"]
    assert np.all(np.abs(surprise.mean(axis=0)) < 0.2)


def test_conditional_weights_make_one(pair, normal):
    predictor = normal.predictor_
    facet = predictor.encoder.facets[1]
    at = Conditionals.of(predictor).given_rest(predictor.cells(pair[:3]), facet, None)
    assert np.allclose(np.exp(at.log_weights).sum(axis=1), 1)
    # The integral over one column is the density of the others.
    fine = np.linspace(-6, 6, 801)
    for i in range(3):
        rows = np.tile(pair[i], (801, 1))
        rows[:, 1] = fine
        mass = np.trapezoid(np.exp(normal.score_samples(rows)), fine)
        assert at.log_mass[i] == pytest.approx(np.log(mass), abs=0.05)


def test_levels_counts_gaps_and_what_was_never_seen(kinds):
    frame, model = kinds
    usual = pd.DataFrame({"a": [0.1], "kind": ["u"], "count": [3]})
    odd = pd.concat(
        [
            usual.assign(a=9.0),
            usual.assign(kind="zebra"),
            usual.assign(count=40),
            usual.assign(kind=None),
            usual.assign(a=np.nan),
        ],
        ignore_index=True,
    )
    found = model.explain(odd)
    assert [odd.columns[j] for j in found.ranking()[:4, 0]] == ["a", "kind", "count", "kind"]
    # A gap as often as one row in five is no surprise beyond its rarity.
    assert found.surprise["a"][4] == pytest.approx(-np.log(0.2), abs=0.5)
    assert set(found.expected["kind"]) <= {"u", "v", "w"}
    table = found.table(1)
    assert list(table.columns)[:3] == ["column", "value", "expected"]
    assert table["column"][0] == "kind" and table["value"][0] == "never seen"
    other = model.explain(odd[:1], target="no")
    assert other.answer[0] == pytest.approx(1 - found.answer[0])
    assert np.allclose(other.prediction, -found.prediction[:1])
    with pytest.raises(ValueError, match="Unknown class 'perhaps'"):
        model.explain(odd, target="perhaps")


def test_rows_are_explained_one_by_one(pair, normal):
    together = normal.explain(pair[:5]).parts["surprise"]
    alone = normal.explain(pair[3:4]).parts["surprise"]
    assert np.allclose(together[3], alone[0], atol=1e-9)


def test_a_density_has_no_prediction_to_explain(pair):
    density = HybridDensity("linear", **TINY).fit(pair)
    found = density.explain(pair[:2])
    assert found.prediction is None and found.answer is None
    with pytest.raises(ValueError, match="no target"):
        density.explain(pair[:2], target=1)


def test_figures_name_columns_and_values(kinds):
    pytest.importorskip("matplotlib")
    frame, model = kinds
    figure = model.explain(frame[:1].assign(count=40)).figure(0)
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels[-1].startswith("count = 40, not") and len(figure.axes) == 2


@pytest.mark.slow
def test_an_image_is_explained_by_a_map(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("diglm.data.image.PATCHES", 3)  # nine patches are soon explained
    images = np.load("tests/data/mnist_digits.npz")
    image = images[images.files[0]][:1].reshape(1, 28, 28, 1).astype(np.uint8)
    image[0, :6, :6] = 255  # a block in the corner
    found = load("mnist").explain(image)
    assert found.surprise.shape == found.prediction.shape == (1, 28, 28)
    top = np.unravel_index(np.argmax(found.surprise[0]), (28, 28))
    assert top[0] < 9 and top[1] < 9  # in the block or at its edge
    assert found.expected.shape == image.shape
    assert len(found.figure(0).axes) == 5  # three pictures and two scales
