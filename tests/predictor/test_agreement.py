"""Sets of classes and intervals of numbers that hold the truth as often as they say."""

import numpy as np
import pytest
from scipy import stats

from diglm import HybridClassifier, HybridRegressor, load
from diglm.predictor.agreement import Agreement
from diglm.refusal import RiskControl

EXACT = dict(flow="identity", random_state=0, verbose=False, reject=0.05)


def rows(n, seed, n_targets=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    noise = rng.standard_t(3, size=(n, n_targets)) * (0.2 + np.abs(X[:, :1]))
    y = X[:, :1] + noise
    return X, y[:, 0] if n_targets == 1 else y


def classes_of(y):
    return np.array(["low", "middle", "top"])[np.digitize(y, [-0.8, 0.8])]


def band(level, n):
    """Within which the share of truths lies all but always, where n rows set the limit.

    Over tables it is the order statistic of n uniform numbers that holds the level.
    """
    place = np.floor((1 - level) * (n + 1) + 1e-9)
    return stats.beta(n + 1 - place, place).interval(0.999)


@pytest.fixture(scope="module")
def classifier():
    X, y = rows(400, 0)
    return HybridClassifier(**EXACT).fit(X, classes_of(y))


def test_the_place_is_that_of_conformal_prediction():
    values = np.random.default_rng(0).permutation(np.arange(1, 100))[:, None] / 100
    agreement = Agreement(values, np.zeros(99, int))
    assert agreement.least(0.9) == 0.10  # the tenth of 99, and a new one
    assert agreement.least(0.995) == 0.0  # none is sure
    few = Agreement(np.arange(1.0, 9.0)[:, None] / 10, np.zeros(8, int))
    assert few.least(0.9) == 0.0 and few.least(0.85) == 0.1


@pytest.mark.parametrize("n", [3, 8, 20])
def test_tails_of_few_rows_hold_on_average_where_they_fade_exponentially(n):
    """Agreements are powers of uniform numbers: answers too sure, or too modest, by any factor."""
    rng = np.random.default_rng(n)
    for power in (0.3, 1.0, 3.0):
        held = []
        for _ in range(4000):
            values = rng.uniform(size=(n + 1, 1)) ** power
            held.append(values[-1, 0] >= Agreement(values[:-1], np.zeros(n, int)).tails(0.96)[0])
        assert abs(np.mean(held) - 0.96) < 0.012
    nobody = Agreement(np.zeros((0, 2)), np.zeros(0, int))
    assert np.allclose(nobody.tails(0.9), 0.1)


def test_sets_hold_the_truth_among_answered_rows_and_are_never_empty(classifier):
    X, y = rows(4000, 1)
    X[:100] *= 50
    codes = np.searchsorted(classifier.classes_, classes_of(y))
    answered = ~classifier.rejects(X)
    previous = np.zeros((4000, 3), bool)
    for level in (0.5, 0.8, 0.9, 0.95):
        found = classifier.predict_set(X, level)
        assert found.shape == (4000, 3) and found.dtype == bool
        assert np.all(found[answered].any(axis=1)) and not np.any(found[~answered])
        assert np.all(found >= previous)  # sets of a higher level hold those of a lower one
        inside = found[np.arange(4000), codes][answered]
        assert np.mean(inside) > band(level, len(classifier.predictor_.agreement.values))[0]
        previous = found
    assert np.mean(answered[:100]) < 0.05  # fifty times as far out
    assert classifier.predict_set(X, 0.9999)[answered].all()  # 80 rows are not sure of that
    best = classifier.predict(X[answered])
    assert np.all(previous[answered][np.arange(answered.sum()), np.searchsorted(
        classifier.classes_, best)])  # fmt: skip


def test_sets_may_hold_the_truth_of_every_class():
    X, y = rows(3000, 2)
    kinds = np.where(classes_of(y) == "top", "top", "other")
    model = HybridClassifier(**EXACT).fit(X, kinds)
    new, y_new = rows(8000, 3)
    truth = np.where(classes_of(y_new) == "top", "top", "other")
    codes = np.searchsorted(model.classes_, truth)
    answered = ~model.rejects(new)

    def coverage(**options):
        inside = model.predict_set(new, 0.9, **options)[np.arange(8000), codes]
        return [np.mean(inside[answered & (truth == name)]) for name in model.classes_]

    assert coverage()[1] < 0.85  # the rarer class pays for the other
    counts = np.bincount(model.predictor_.agreement.codes)
    for share, n in zip(coverage(by="class"), counts, strict=True):
        low, high = band(0.9, n)
        assert low < share < high
    with pytest.raises(ValueError, match="by must be 'class' or None; got 'group'"):
        model.predict_set(new, by="group")


@pytest.mark.parametrize("n_targets", [1, 2])
def test_intervals_hold_numbers_whatever_the_head_believes(n_targets, tmp_path):
    """Normal answers of one width, to noise with heavy tails that grows: the share still holds."""
    X, y = rows(1500, 4, n_targets)
    model = HybridRegressor(head="gaussian" if n_targets == 1 else "bayesian", **EXACT).fit(X, y)
    new, y_new = rows(8000, 5, n_targets)
    answered = ~model.rejects(new)
    shares = []
    for level in (0.5, 0.9):
        low, high = np.moveaxis(model.predict_interval(new, level), 1, 0)
        inside = (low <= y_new) & (y_new <= high)
        shares.append(np.mean(inside[answered], axis=0))
        low, high = band(level, len(model.predictor_.agreement.values))
        assert np.all((low < shares[-1]) & (shares[-1] < high))
    plain = model.predict_dist(new).interval(0.5)
    too_wide = np.mean(((plain[0] <= y_new) & (y_new <= plain[1]))[answered], axis=0)
    assert np.all(too_wide > 0.6)
    model.save(tmp_path / "model")
    assert np.array_equal(
        load(tmp_path / "model").predict_interval(new[:9]), model.predict_interval(new[:9])
    )


def test_a_level_is_a_probability(classifier):
    X, _ = rows(3, 0)
    with pytest.raises(ValueError, match="between 0 and 1; got 90. Write 95 % as 0.95"):
        classifier.predict_set(X, 90)


def test_where_every_row_is_refused_no_set_has_a_class():
    X, y = rows(60, 6)
    hopeless = RiskControl(error=0.001, confidence=0.99)
    model = HybridClassifier(**EXACT | {"reject": hopeless}).fit(X, classes_of(y))
    assert model.rejects(X).all() and not model.predict_set(X).any()
    assert np.allclose(model.safe_predict_proba(X), model.class_prior_)
    numbers = HybridRegressor(head="gaussian", **EXACT | {"reject": None}).fit(X[:12], y[:12])
    low, high = numbers.predict_interval(X, 0.9).T  # nothing held out: as the head believes
    assert np.allclose([low, high], numbers.predict_dist(X).interval(0.9))


@pytest.mark.parametrize("head", ["poisson", "hurdle", "bernoulli"])
def test_intervals_of_counts_and_masses_stay_within_what_can_be(head):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 2))
    mean = np.exp(0.5 * X[:, 0])
    y = {
        "poisson": rng.poisson(mean),
        "hurdle": rng.gamma(2.0, mean) * (rng.random(300) < 0.7),
        "bernoulli": rng.random(300) < stats.norm.cdf(X[:, 0]),
    }[head].astype(float)
    model = HybridRegressor(head=head, **EXACT).fit(X[:200], y[:200])
    low, high = model.predict_interval(X[200:], 0.8).T
    assert np.all(low >= 0) and np.all(low <= high)
    assert np.mean((low <= y[200:]) & (y[200:] <= high)) > 0.65
