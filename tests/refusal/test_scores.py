"""Scores: strangeness from what one pass knows; a refusal is a score and a rule."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

from diglm.heads import Categorical
from diglm.refusal import (
    SCORES,
    AbstractScore,
    Combined,
    Conformal,
    Density,
    Evidence,
    Minimum,
    Neighbours,
    Typicality,
    fit_refusal,
    score_of,
    typical_batch,
)
from diglm.refusal.scores.answers import Energy, Margin, PredictiveEntropy, Undecided, Unseen
from diglm.refusal.scores.background import LikelihoodRatio
from diglm.refusal.scores.classes import ClassDensity, ClassDistance
from diglm.refusal.scores.goodness import GoodnessOfFit, statistics
from diglm.refusal.scores.simplicity import Simplicity

OF_CLASSES = {"entropy", "undecided", "margin", "energy", "class_distance", "class_density"}
OF_IMAGES = {"simplicity", "complexity"}
BY_VALUES = sorted(set(SCORES) - OF_CLASSES - OF_IMAGES - {"variance", "unseen", "high_density"})


@dataclass
class FarFromHome(AbstractScore):
    """Distance of features from the mean of familiar ones; for this test."""

    power: float = 2.0
    centre: tuple[float, ...] = ()

    wants_training = 50

    def fit(self, training, aside):
        assert training.n_rows <= 50
        return FarFromHome(self.power, tuple(training.z.mean(axis=0).tolist()))

    def __call__(self, known):
        return np.sum(np.abs(known.z - np.array(self.centre)) ** self.power, axis=1)


def test_the_density_is_minus_log_px(known):
    rows = known()
    assert np.array_equal(Density()(rows), -rows.log_px)
    assert isinstance(score_of("density"), Density)


def test_scores_by_name_or_object():
    own = FarFromHome()
    assert score_of(own) is own
    with pytest.raises(ValueError, match=r"Expected a score among \[.*'density'.*got 'dense'"):
        score_of("dense")
    with pytest.raises(ValueError, match="k must be a whole number of at least 1; got 0"):
        score_of(Neighbours(k=0))
    with pytest.raises(ValueError, match="parts must be scores, at least one"):
        score_of(Combined([]))
    SCORES["far"] = FarFromHome
    try:
        assert isinstance(score_of("far"), FarFromHome)
    finally:
        del SCORES["far"]


@pytest.mark.parametrize("name", BY_VALUES)
def test_rows_far_from_all_familiar_ones_are_strange(name, known):
    score = score_of(name)
    fitted = score.fit(known(300), known(200, seed=1))
    usual, far = fitted(known(100, seed=2)), fitted(known(100, seed=3, shift=6.0))
    assert usual.shape == (100,) and np.isfinite(usual).all() and np.isfinite(far).all()
    if name == "likelihood_ratio":  # the background explains them as badly
        return
    assert far.min() > np.median(usual) and far.mean() > usual.max()
    assert fitted(known(0)).shape == (0,)
    assert np.allclose(fitted(known(7, seed=2, dim=4)), fitted(known(7, seed=2)))


@pytest.mark.parametrize("name", sorted(OF_CLASSES))
def test_scores_of_classes(name, known):
    score = score_of(name)
    assert "HybridClassifier" in score.why_not(known())
    fitted = score.fit(known(300, classes=3), known(200, seed=1, classes=3))
    found = fitted(known(100, seed=2, classes=3))
    assert found.shape == (100,) and np.isfinite(found).all()
    with pytest.raises(ValueError, match=f"score={type(score).__name__} cannot be had: it compare"):
        fit_refusal(score, Conformal(0.1), known(), known())


def test_undecided_answers_are_strange(known):
    rows = known(3, classes=3)
    logits = np.array([[5.0, 0.0, 0.0], [1.0, 0.9, -4.0], [-3.0, -3.0, -3.0]])
    rows = rows._replace(response=Categorical(jnp.asarray(logits)))
    for score in (PredictiveEntropy(), Undecided(), Margin()):
        assert score(rows).argmin() == 0, score
    assert np.array_equal(np.argsort(Energy()(rows)), [0, 1, 2])
    assert np.allclose(Energy()(rows), -np.log(np.exp(logits).sum(axis=1)))


def test_distance_to_the_nearest_class_is_that_of_mahalanobis(known):
    training = known(4000, classes=2, dim=2)
    fitted = ClassDistance(shrinkage=0.0).fit(training, training)
    classes = training.z.argmax(axis=1)
    means = np.stack([training.z[classes == k].mean(axis=0) for k in (0, 1)])
    around = training.z - means[classes]
    inverse = np.linalg.inv(around.T @ around / len(around))
    rows = known(20, seed=1, classes=2, dim=2)
    gaps = rows.z[:, None] - means
    wanted = np.einsum("nki,ij,nkj->nk", gaps, inverse, gaps).min(axis=1)
    assert np.allclose(fitted(rows), wanted, rtol=1e-3)


def test_density_given_the_class_is_bayes_rule(known):
    training, rows = known(500, classes=2), known(20, seed=1, classes=2)
    fitted = ClassDensity().fit(training, training)
    marginal = np.asarray(training.response.mean).mean(axis=0)
    shares = np.asarray(rows.response.mean) / marginal
    assert np.allclose(fitted(rows), -rows.log_px - np.log(shares.max(axis=1)))


def test_typicality_is_two_sided(known):
    fitted = Typicality().fit(known(500, dim=50), known(500, seed=1, dim=50))
    centre = known(1, dim=50)
    at_mode = centre._replace(log_px=np.array([-25 * np.log(2 * np.pi)]))
    assert fitted(at_mode)[0] > np.quantile(fitted(known(500, seed=2, dim=50)), 0.99)
    assert Density()(at_mode)[0] < Density()(known(500, seed=2, dim=50)).min()


def test_a_batch_shows_what_no_row_does():
    rng = np.random.default_rng(0)
    familiar = rng.normal(size=2000)
    assert typical_batch(rng.normal(0.5, 1, 100), familiar) < 0.01
    assert typical_batch(rng.normal(-0.5, 1, 100), familiar) < 0.01
    found = [typical_batch(rng.normal(size=30), familiar, n_draws=500, seed=i) for i in range(200)]
    assert np.mean(np.array(found) <= 0.1) < 0.17
    with pytest.raises(ValueError, match="at least one of each; got 0 and 2000"):
        typical_batch(np.zeros(0), familiar)


def test_latents_that_are_no_sample_of_the_base_are_strange(known):
    fitted = GoodnessOfFit().fit(known(500, dim=60), known(500, seed=1, dim=60))
    usual = fitted(known(300, seed=2, dim=60))
    rows = known(50, seed=3, dim=60)
    dependent = np.repeat(rows.u[:, ::2], 2, axis=1)
    two_values = np.sign(rows.u)
    for u in (dependent, two_values, 0.5 * rows.u):
        assert fitted(rows._replace(u=u)).mean() > np.quantile(usual, 0.99)
    assert "no sample to test" in GoodnessOfFit().why_not(known(5, dim=2))
    told = statistics(np.random.default_rng(0).normal(size=(4000, 50)))
    assert np.allclose(told[:, :4].mean(axis=0), 0, atol=0.5)
    assert np.allclose(told[:, 0].std(), 1, atol=0.1)


def test_the_ratio_to_a_background_finds_broken_relations(known):
    """Columns that are equal in training: one moved within its range is strange to the ratio."""
    rng = np.random.default_rng(0)
    same = np.repeat(rng.normal(size=(500, 1)), 2, axis=1)
    rows = known(500, dim=2)._replace(values=same)
    fitted = LikelihoodRatio().fit(rows, rows)
    # A density that knows the relation, and one row of each kind.
    new = known(2, dim=2)._replace(values=np.array([[1.0, 1.0], [1.0, -1.0]]))
    new = new._replace(log_px=np.array([-1.0, -30.0]))
    kept, broken = fitted(new)
    assert broken - kept > 20


def test_unseen_facts_and_gaps_count_first(known):
    rows = known(3)
    values = rows.values.copy()
    values[1, 0] = np.nan
    rows = rows._replace(values=values, unseen=np.array([[False], [False], [True]]))
    found = Unseen()(rows)
    assert np.all(np.floor(found) == [0, 1, 1])


def test_simple_images_are_strange_and_tables_have_no_code(known, images):
    blank = np.zeros((5, 12, 12, 1), np.uint8)
    rows = known(40, values=images(40))
    assert Simplicity()(known(5, values=blank)).min() > Simplicity()(rows).max()
    assert "no images" in Simplicity().why_not(known())
    assert "no images" in Neighbours("pixels").why_not(known())


def test_a_variance_needs_numbers(known):
    score = score_of("variance")
    assert "predicts none" in score.why_not(known())
    rows = known(30, numbers=True)
    assert score.why_not(rows) == "" and np.array_equal(score(rows), rows.response.variance)


def test_a_refusal_judges_new_rows_by_a_fitted_score_and_its_ranks(known):
    held_out, training, new = known(99), known(80, seed=5), known(40, seed=1)
    refusal = fit_refusal(FarFromHome(), Conformal(0.1), held_out, training)
    assert np.allclose(refusal.score.centre, training.some(50).z.mean(axis=0))
    strangeness, p_value, rejected = refusal.judge(new)
    assert np.array_equal(strangeness, refusal.score(new))
    assert np.array_equal(refusal.strangeness(new), strangeness)
    assert np.array_equal(refusal.p_value(new), p_value)
    assert np.array_equal(refusal.rejects(new), rejected)
    assert np.array_equal(rejected, strangeness > refusal.threshold.limit)
    assert np.array_equal(rejected, p_value <= 0.1)
    paper = fit_refusal(Density(), Minimum(slack=1.0), held_out, new)
    assert paper.threshold.limit == max(-held_out.log_px.min(), -new.log_px.min()) + 1.0


def test_of_many_held_out_rows_a_score_that_learns_has_every_second(known):
    few, many, training = known(399), known(400), known(50, seed=1)
    assert len(fit_refusal(FarFromHome(), Conformal(0.1), few, training).threshold.ranks) == 399
    assert len(fit_refusal(FarFromHome(), Conformal(0.1), many, training).threshold.ranks) == 200
    assert len(fit_refusal(Density(), Conformal(0.1), many, None).threshold.ranks) == 400


def test_who_is_alone_is_refused_whatever_its_score(known):
    held_out, new = known(99), known(40, seed=1)
    alone = new._replace(unseen=np.ones((40, 1), bool))
    for rule in (Conformal(0.1), Minimum()):
        refusal = fit_refusal(Density(), rule, held_out, held_out)
        assert refusal.rejects(alone).all()
        assert np.all(refusal.p_value(alone) == 1 / 100)


def test_what_was_learned_is_no_parameter(known):
    fitted = Evidence(Neighbours(k=3), weight=2.0).fit(known(), known(seed=1))
    assert set(fitted.get_params()) == {"score", "beyond", "weight"}
    assert "nearest" not in fitted.score.get_params() and "nearest" not in repr(fitted.score)
