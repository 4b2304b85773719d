"""Ranks of a stream are uniform and independent while nothing moves, whatever the reference."""

import numpy as np
import pytest
from scipy import stats

from diglm.predictor.betting import N_BETS, Capital, payoffs
from diglm.predictor.ranking import Ranking


def ranked(reference, stream, seed=0, pieces=()):
    ranking = Ranking.of(np.asarray(reference, float), seed)
    parts = np.split(np.asarray(stream, float), list(pieces))
    return np.concatenate([ranking.update(part)[0] for part in parts]), ranking


@pytest.mark.parametrize("kind", ["numbers", "ties", "constant", "infinite"])
def test_p_values_are_uniform_and_independent_of_one_small_reference(kind):
    """One reference of twenty rows, many streams: ranks among it alone would not be uniform."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20 + 60, 400))
    if kind == "ties":
        rows = np.round(rows)
    elif kind == "constant":
        rows = np.zeros_like(rows)
    elif kind == "infinite":
        rows[rng.random(rows.shape) < 0.3] = np.inf
        rows[rng.random(rows.shape) < 0.1] = -np.inf
    p, _ = ranked(rows[:20], rows[20:])
    assert np.all((p >= 0) & (p <= 1))
    assert stats.kstest(p.ravel(), "uniform").pvalue > 1e-3
    late, early = p[30:].mean(axis=0), p[:30].mean(axis=0)
    assert abs(np.corrcoef(early, late)[0, 1]) < 0.15  # of 400 streams


def test_pieces_do_not_matter():
    rng = np.random.default_rng(1)
    reference, stream = rng.normal(size=(30, 3)), np.round(rng.normal(size=(700, 3)), 1)
    whole, first = ranked(reference, stream)
    for pieces in ([1, 2, 3], [256], [255, 257, 600]):
        again, ranking = ranked(reference, stream, pieces=pieces)
        assert np.array_equal(whole, again) and np.array_equal(first.counts, ranking.counts)


def test_ranks_count_reference_and_earlier_rows():
    p, ranking = ranked([[0.0], [1.0]], [[5.0], [-5.0], [0.5]])
    # Above both: the last third. Below all three: the first quarter. Between: the middle.
    assert 2 / 3 <= p[0, 0] <= 1 and p[1, 0] <= 1 / 4 and 2 / 5 <= p[2, 0] <= 3 / 5
    assert ranking.counts[:, 0].tolist() == [1, 1, 1] and ranking.seen == 3


def test_bets_are_fair_and_never_lose_all():
    grid = (np.arange(10_000) + 0.5) / 10_000
    paid = payoffs(grid)
    assert paid.shape == (10_000, N_BETS) and np.all(paid > 0)
    assert np.allclose(paid.mean(axis=0), 1, atol=1e-3)


def test_false_alarms_are_as_rare_as_promised():
    p = np.random.default_rng(0).random((1000, 400))
    highest = Capital.at_start(400).update(p).max(axis=0)
    for level in (0.05, 0.2):
        assert np.mean(highest >= np.log(1 / level)) <= level  # Ville: at any of 1,000 looks


@pytest.mark.parametrize("kind", ["up", "down", "wider", "narrower", "few far out", "late"])
def test_whatever_moves_is_found(kind):
    rng = np.random.default_rng(0)
    reference, stream = rng.normal(size=(500, 20)), rng.normal(size=(800, 20))
    change = {
        "up": stream + 0.5,
        "down": stream - 0.5,
        "wider": 1.6 * stream,
        "narrower": 0.6 * stream,
        "few far out": np.where(rng.random(stream.shape) < 0.1, 9.0, stream),
        "late": stream + 0.7 * (np.arange(800) > 400)[:, None],
    }[kind]
    p, _ = ranked(reference, change)
    found = Capital.at_start(20).update(p).max(axis=0) >= np.log(20)
    assert np.mean(found) >= 0.9
