"""Rows without a label: how they are given, what they are for, and what cannot be done."""

import warnings

import numpy as np
import pandas as pd
import pytest

from diglm import HybridClassifier, HybridRegressor
from diglm.objectives import VirtualAdversarial
from diglm.recipes import CouplingFlow, Glow

LINEAR = dict(flow="linear", n_epochs=3, random_state=0, verbose=False)
TINY = dict(n_epochs=3, n_blocks=1, width=8, depth=1, random_state=0, verbose=False)


@pytest.fixture(scope="module")
def few():
    """Two clumps, of which ten rows have a label."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 150)
    X = rng.normal(size=(150, 2)) + 3.0 * y[:, None]
    known = np.concatenate([np.flatnonzero(y == c)[:5] for c in (0, 1)])
    return X, y, np.isin(np.arange(150), known)


def test_rows_marked_and_rows_apart_are_the_same_rows(few):
    X, y, known = few
    order = np.r_[np.flatnonzero(known), np.flatnonzero(~known)]
    X, y, known = X[order], y[order], known[order]
    marked = HybridClassifier(unlabelled=-1, **LINEAR).fit(X, np.where(known, y, -1))
    apart = HybridClassifier(**LINEAR).fit(X[known], y[known], X_unlabelled=X[~known])
    assert np.array_equal(marked.predict_proba(X), apart.predict_proba(X))
    assert apart.classes_.tolist() == [0, 1] and apart.classes_.dtype.kind == "i"
    assert np.array_equal(marked.score_samples(X), apart.score_samples(X))
    frames = [pd.DataFrame(part, columns=["a", "b"]) for part in (X[known], X[~known])]
    names = np.array(["no", "yes"])[y[known]]
    named = HybridClassifier(**LINEAR).fit(frames[0], names, X_unlabelled=frames[1][["b", "a"]])
    assert np.allclose(named.predict_proba(frames[1]), apart.predict_proba(X[~known]))


def test_numbers_take_unlabelled_rows_alike(few):
    X, y, known = few
    order = np.r_[np.flatnonzero(known), np.flatnonzero(~known)]
    X, known = X[order], known[order]
    value = X @ [1.0, 2.0] + 1.0
    marked = HybridRegressor(**LINEAR).fit(X, np.where(known, value, np.nan))
    apart = HybridRegressor(**LINEAR).fit(X[known], value[known], X_unlabelled=X[~known])
    assert np.array_equal(marked.predict(X), apart.predict(X))
    whole = HybridRegressor(**LINEAR).fit(
        X[known], np.arange(10), X_unlabelled=np.where(X[~known] > 4, np.nan, X[~known])
    )
    assert np.all(np.isfinite(whole.predict(X)))
    both = HybridRegressor(head="bayesian", **LINEAR)
    both.fit(X[known], np.c_[value, -value][known], X_unlabelled=X[~known])
    assert both.predict(X).shape == (150, 2)


@pytest.mark.slow
def test_images_take_unlabelled_rows_alike():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, (60, 4, 4, 1)).astype(np.uint8)
    y = (X[:, :2].mean(axis=(1, 2, 3)) > 128).astype(int)
    settings = TINY | dict(batch_size=16, n_epochs=1)
    model = HybridClassifier(Glow(augment=0), **settings).fit(X[:12], y[:12], X_unlabelled=X[12:])
    marked = np.where(np.arange(60) < 12, y, -1)
    same = HybridClassifier(Glow(augment=0), unlabelled=-1, **settings).fit(X, marked)
    assert np.array_equal(model.predict_proba(X), same.predict_proba(X))
    shaped = HybridClassifier(Glow(augment=0), unlabelled=-1, vat_weight=1.0, **settings)
    assert not np.array_equal(shaped.fit(X, marked).predict_proba(X), same.predict_proba(X))


def test_what_auto_means_is_settled_by_the_rows(few):
    X, y, known = few
    request = HybridClassifier()._request(0)
    smooth = request.settled(smooth=True, own_density=True)
    assert smooth.generative_weight == 0.0
    (term,) = smooth.terms
    assert isinstance(term, VirtualAdversarial) and term.radius is None
    assert request.settled(smooth=True, own_density=False).generative_weight == 1.0
    plain = request.settled(smooth=False, own_density=True)
    assert plain.generative_weight == 1.0 and plain.terms == ()
    asked = HybridClassifier(generative_weight=0.5, vat_weight=0.0)._request(0)
    assert asked.settled(smooth=True, own_density=True).terms == ()
    # With all labels, and of numbers, nothing is made smooth unless that is asked for.
    for model, target in ((HybridClassifier(**LINEAR), y), (HybridRegressor(**LINEAR), X[:, 0])):
        usual = model.fit(X, target)
        named = type(model)(generative_weight=1.0, vat_weight=0.0, **LINEAR).fit(X, target)
        assert np.array_equal(usual.predict(X), named.predict(X))


def test_few_labels_are_all_trained_on_and_many_are_held_out_too(few):
    X, y, known = few
    model = HybridClassifier(unlabelled=-1, **TINY).fit(X, np.where(known, y, -1))
    assert all(record["val_skill"] >= 0 for record in model.history_)
    assert model.history_[-1]["val_log_py"] == pytest.approx(model.history_[-1]["log_py"], abs=1.0)
    # A class of one row, among many others with labels, is trained on whichever row that is.
    many = np.random.default_rng(1).normal(size=(1500, 2))
    target = np.where(np.arange(1500) < 600, (many[:, 0] > 0).astype(int), -1)
    target[7] = 2
    for seed in range(3):
        rare = HybridClassifier("linear", unlabelled=-1, **TINY | dict(random_state=seed))
        assert rare.fit(many, target).classes_.tolist() == [0, 1, 2]


def test_without_terms_few_labels_leave_a_plain_glm(few):
    X, y, known = few
    marked = np.where(known, y, -1)
    plain = HybridClassifier(unlabelled=-1, vat_weight=0.0, **TINY).fit(X, marked)
    z = plain.transform(X)
    ones = np.c_[X, np.ones(len(X))]
    left = z - ones @ np.linalg.lstsq(ones, z, rcond=None)[0]
    assert np.abs(left).max() < 1e-4  # the features are the columns
    shaped = HybridClassifier(flow=CouplingFlow(tail=0), unlabelled=-1, **TINY).fit(X, marked)
    assert shaped.model_.density is None


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["marked", "apart"])
def test_rows_without_a_label_may_have_gaps(few, rows):
    """Also such as no labelled row has, and also where the gap lies in the column that tells."""
    X, y, known = few
    rng = np.random.default_rng(3)
    gaps = (rng.random(X.shape) < 0.3) & ~known[:, None]
    gappy = np.where(gaps, np.nan, X)
    settings = TINY | dict(n_epochs=60)
    model = HybridClassifier(CouplingFlow(tail=1), unlabelled=-1, vat_weight=1.0, **settings)
    if rows == "marked":
        model.fit(gappy, np.where(known, y, -1))
    else:
        model.fit(gappy[known], y[known], X_unlabelled=gappy[~known])
    told = model.predict_proba(gappy)
    assert np.allclose(told.sum(axis=1), 1) and np.all(np.isfinite(model.score_samples(gappy)))
    assert model.score(X, y) > 0.85
    nothing = np.full((1, 2), np.nan)
    assert abs(model.predict_proba(nothing)[0, 0] - 0.5) < 0.35  # what is left is how often


def test_labels_of_rows_without_a_weight_are_none(few):
    X, y, known = few
    marked = np.where(known, y, -1)
    with pytest.raises(ValueError, match="no label to learn from|No training row has a label"):
        HybridClassifier(unlabelled=-1, **TINY).fit(X, marked, sample_weight=~known)


def test_what_cannot_be_learned_from(few):
    X, y, known = few
    tiny = dict(unlabelled=-1, **TINY)
    with pytest.raises(ValueError, match="no label to learn from: all 150 rows"):
        HybridClassifier(**tiny).fit(X, np.full(150, -1))
    with pytest.raises(ValueError, match="at least two classes.*y has 1 class"):
        HybridClassifier(**tiny).fit(X, np.where(known, 1, -1))
    with pytest.raises(ValueError, match="No target to learn from: none of 150 rows"):
        HybridRegressor(**TINY).fit(X, np.full(150, np.nan))
    with pytest.raises(ValueError, match="NaN or None in 1 of 10 rows beside X_unlabelled"):
        target = y[known].astype(float)
        target[0] = np.nan
        HybridRegressor(**TINY).fit(X[known], target, X_unlabelled=X)
    with pytest.raises(ValueError, match=r"shape \(2,\), but those to be added \(3,\)"):
        HybridClassifier(**TINY).fit(X[known], y[known], X_unlabelled=np.ones((4, 3)))
    with pytest.raises(ValueError, match="of no group"):
        groups = np.zeros(150)
        HybridClassifier(head="mixed", **TINY).fit(X, y, X_unlabelled=X, groups=groups)


def test_minus_one_is_a_class_like_any_other_unless_it_is_named(few):
    X, y, known = few
    marked = np.where(known, y, -1)
    with pytest.warns(UserWarning, match=r"class -1 .*unlabelled=-1"):
        model = HybridClassifier("linear", **TINY).fit(X, marked)
    assert model.classes_.tolist() == [-1, 0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HybridClassifier("linear", reject=None, **TINY).fit(X, np.where(y == 0, -1, 1))
