"""Scores: strangeness from what one pass knows; a refusal is a score and a rule."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diglm.heads import make_head
from diglm.refusal import (
    SCORES,
    AbstractScore,
    Conformal,
    Density,
    Known,
    Minimum,
    fit_refusal,
    score_of,
)


def known(n=50, seed=0, facts=1):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2))
    head = make_head("gaussian", 2)
    response = jax.tree.map(np.asarray, jax.vmap(head)(jnp.asarray(z)))
    return Known(z, -np.sum(z**2, axis=1), response, np.zeros((n, facts), bool))


@dataclass
class FarFromHome(AbstractScore):
    """Distance of features from the mean of familiar ones; for this test."""

    power: float = 2.0
    centre: tuple[float, ...] = ()

    def fit(self, held_out):
        return FarFromHome(self.power, tuple(held_out.z.mean(axis=0).tolist()))

    def __call__(self, known):
        return np.sum(np.abs(known.z - np.array(self.centre)) ** self.power, axis=1)


def test_the_density_is_minus_log_px():
    rows = known()
    assert np.array_equal(Density()(rows), -rows.log_px)
    assert isinstance(score_of("density"), Density)
    assert score_of("auto")(rows).shape == (50,)


def test_scores_by_name_or_object():
    own = FarFromHome()
    assert score_of(own) is own
    with pytest.raises(ValueError, match=r"Expected a score among \[.*'density'.*got 'dense'"):
        score_of("dense")
    SCORES["far"] = FarFromHome
    try:
        assert isinstance(score_of("far"), FarFromHome)
    finally:
        del SCORES["far"]


def test_a_refusal_judges_new_rows_by_a_fitted_score_and_its_ranks():
    held_out, new = known(99), known(40, seed=1)
    refusal = fit_refusal(FarFromHome(), Conformal(0.1), held_out, None)
    assert refusal.score.centre == tuple(held_out.z.mean(axis=0))
    strangeness = refusal.strangeness(new)
    assert np.array_equal(strangeness, refusal.score(new))
    assert np.array_equal(refusal.rejects(new), strangeness > refusal.threshold.limit)
    assert np.array_equal(refusal.rejects(new), refusal.p_value(new) <= 0.1)
    paper = fit_refusal(Density(), Minimum(slack=1.0), held_out, new)
    assert paper.threshold.limit == max(-held_out.log_px.min(), -new.log_px.min()) + 1.0


def test_who_is_alone_is_refused_whatever_its_score():
    held_out, new = known(99), known(40, seed=1)
    alone = new._replace(unseen=np.ones((40, 1), bool))
    for rule in (Conformal(0.1), Minimum()):
        refusal = fit_refusal(Density(), rule, held_out, held_out)
        assert refusal.rejects(alone).all()
        assert np.all(refusal.p_value(alone) == 1 / 100)
