"""Whether the head reads columns as they are or made normal is decided by rows left out."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import rankdata

from diglm import HybridRegressor
from diglm.bijections import MarginalMap
from diglm.recipes import CouplingFlow
from diglm.recipes.margins import PENALTIES, left_out_errors, reads_better

TINY = dict(n_blocks=1, width=8, depth=1, n_epochs=1, reject=0.1, random_state=0, verbose=False)


def scores(rows):
    return ndtri((rankdata(rows, axis=0) - 0.5) / len(rows))


def skewed(n=80, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.exp(1.5 * rng.normal(size=(n, 3)))
    return rows, rng.normal(size=n)


def test_errors_are_those_of_fits_without_the_row():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(25, 3)), rng.normal(size=(25, 2))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    best = np.inf
    for penalty in PENALTIES * len(X):
        errors = np.zeros(len(X))
        for i in range(len(X)):
            kept = np.arange(len(X)) != i
            centre, level = X[kept].mean(axis=0), y[kept].mean(axis=0)
            # The penalty is on slopes alone; a row left out moves the mean as well.
            Z = X[kept] - centre
            gram = Z.T @ Z + penalty * np.eye(3)
            slopes = np.linalg.solve(gram, Z.T @ (y[kept] - level))
            errors[i] = np.sum((y[i] - level - (X[i] - centre) @ slopes) ** 2)
        best = min(best, errors.mean())
    assert np.mean(left_out_errors(X, y)) == pytest.approx(best, rel=1e-9)


def test_what_is_linear_in_logs_is_read_off_normal_scores_and_what_is_linear_is_not():
    rows, noise = skewed()
    bent = np.log(rows).sum(axis=1, keepdims=True) + 0.3 * noise[:, None]
    straight = rows.sum(axis=1, keepdims=True) + 0.3 * noise[:, None]
    assert reads_better(scores(rows), rows, bent)
    assert not reads_better(scores(rows), rows, straight)
    assert not reads_better(scores(rows), rows, noise[:, None])


def test_rows_without_labels_do_not_count_and_few_decide_nothing():
    rows, noise = skewed()
    bent = np.log(rows).sum(axis=1, keepdims=True) + 0.3 * noise[:, None]
    partly = np.where(np.arange(len(rows))[:, None] < 40, bent, np.nan)
    assert reads_better(scores(rows), rows, partly)
    assert not reads_better(scores(rows), rows, np.where(np.arange(80)[:, None] < 5, bent, np.nan))


@pytest.mark.parametrize("straight", [True, False])
def test_the_flow_of_the_head_has_margins_where_they_help(straight):
    rows, noise = skewed(200)
    y = (rows if straight else np.log(rows)).sum(axis=1) + 0.3 * noise
    model = HybridRegressor(CouplingFlow(tail=1), **TINY).fit(rows, y)
    margins = [isinstance(layer, MarginalMap) for layer in model.model_.flow.bijection.layers]
    assert any(margins) != straight
