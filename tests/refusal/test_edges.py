"""No rows, one row, all or none refused, ties, infinities: every answer is defined."""

import numpy as np
import pytest

from diglm import HybridClassifier
from diglm.refusal import Conformal, Density, Never, fit_refusal, risk_coverage, score_of


@pytest.fixture(scope="module")
def refusal(known):
    return fit_refusal(score_of("auto"), Conformal(0.05), known(300, seed=1), known(400))


def test_no_rows_have_no_answers(refusal, known):
    strangeness, p_value, refused = refusal.judge(known(0))
    assert strangeness.shape == p_value.shape == refused.shape == (0,)


def test_one_row_is_answered_as_it_is_among_others(refusal, known):
    every = known(200, seed=2)
    among = np.stack(refusal.judge(every))[:, 7]
    assert np.array_equal(among, np.stack(refusal.judge(every.take(np.array([7]))))[:, 0])


def test_infinite_and_undefined_strangeness_is_the_largest(known):
    rows = known(4, seed=2)
    refusal = fit_refusal(Density(), Conformal(0.05), known(300, seed=1), known(400))
    odd = rows._replace(log_px=np.array([-np.inf, np.nan, np.inf, rows.log_px[3]]))
    strangeness, p_value, refused = refusal.judge(odd)
    assert strangeness[0] == strangeness[1] == np.inf and strangeness[2] == -np.inf
    assert p_value[0] == p_value[1] == pytest.approx(1 / 301) and p_value[2] == 1
    assert refused.tolist()[:3] == [True, True, False]


def test_held_out_rows_that_are_infinitely_strange_raise_the_threshold(known):
    held_out = known(199, seed=1)
    log_px = held_out.log_px.copy()
    log_px[:20] = -np.inf
    refusal = fit_refusal(Density(), Conformal(0.05), held_out._replace(log_px=log_px), known(50))
    assert refusal.threshold.limit == np.inf
    assert not refusal.rejects(known(50, seed=2, shift=9.0)).any()  # more than 5 % are as strange


def test_ties_are_answered_together(known):
    tied = known(199, seed=1)._replace(log_px=np.full(199, -3.0))
    refusal = fit_refusal(Density(), Conformal(0.05), tied, known(50))
    same, less = tied.take(np.arange(2)), tied.take(np.arange(2))
    less = less._replace(log_px=np.full(2, np.nextafter(-3.0, -4.0)))
    assert not refusal.rejects(same).any() and np.all(refusal.p_value(same) == 1)
    assert refusal.rejects(less).all() and np.all(refusal.p_value(less) == 1 / 200)


def test_all_or_none_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    settings = dict(n_epochs=2, random_state=0, verbose=False)
    model = HybridClassifier("linear", reject=0.05, **settings).fit(X, y)
    far = X[:4] + 50
    assert model.rejects(far).all() and not model.predict_set(far).any()
    assert np.allclose(model.safe_predict_proba(far), model.class_prior_)
    assert np.all(model.assess(far)["rejected"])
    open_to_all = HybridClassifier("linear", reject=Never(), **settings).fit(X, y)
    assert not open_to_all.rejects(far).any() and open_to_all.predict_set(far).any(axis=1).all()
    assert np.allclose(open_to_all.safe_predict_proba(far), open_to_all.predict_proba(far))


def test_curves_of_one_row():
    coverage, risk = risk_coverage(np.array([0.3]), np.array([True]))
    assert coverage.tolist() == [1.0] and risk.tolist() == [1.0]
