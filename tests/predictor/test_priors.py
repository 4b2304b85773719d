"""Class frequencies of rows without a label."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp

from diglm.predictor import LabelShift, class_frequencies

CENTRES = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
BEFORE = np.array([0.6, 0.3, 0.1])


def drawn(frequencies, n, seed=0):
    """Rows of three normals, and their log p(x|y)."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=frequencies)
    X = rng.normal(size=(n, 2)) + CENTRES[y]
    return y, -0.5 * np.sum((X[:, None] - CENTRES) ** 2, axis=2)


def answers(log_px_y):
    """Exact log p(y|x) where classes are as frequent as before."""
    return log_softmax(log_px_y + np.log(BEFORE), axis=1)


@pytest.mark.parametrize("truth", [[0.1, 0.2, 0.7], [0.6, 0.3, 0.1], [0.02, 0.96, 0.02]])
def test_known_frequencies_are_found(truth):
    _, log_px_y = drawn(truth, 3_000)
    found, errors, gain = class_frequencies(answers(log_px_y), BEFORE)
    assert found.sum() == pytest.approx(1) and np.all(np.abs(found - truth) < 3 * errors)
    assert (gain > 20) == (truth != list(BEFORE))


def test_they_are_the_most_likely_ones():
    """By another optimiser, from p(x|y) itself."""
    _, log_px_y = drawn([0.1, 0.2, 0.7], 500)

    def loss(free):
        logs = log_softmax(np.append(free, 0.0))
        return -np.sum(logsumexp(log_px_y + logs, axis=1)) - BEFORE @ logs

    best = log_softmax(np.append(minimize(loss, np.zeros(2), tol=1e-9).x, 0.0))
    found, _, gain = class_frequencies(answers(log_px_y), BEFORE)
    np.testing.assert_allclose(found, np.exp(best), atol=1e-3)
    free = np.log(found[:2] / found[2])
    before = np.log(BEFORE[:2] / BEFORE[2])
    counted = BEFORE @ (np.log(found) - np.log(BEFORE))  # what the row of training itself says
    assert gain == pytest.approx(loss(before) - loss(free) - counted, abs=1e-6)


def test_standard_errors_are_what_repetition_shows():
    truth, found, told = [0.2, 0.3, 0.5], [], []
    for seed in range(200):
        frequencies, errors, _ = class_frequencies(answers(drawn(truth, 300, seed)[1]), BEFORE)
        found.append(frequencies)
        told.append(errors)
    np.testing.assert_allclose(np.std(found, axis=0), np.mean(told, axis=0), rtol=0.15)


def test_a_class_that_is_gone_is_all_but_gone():
    y, log_px_y = drawn([0.5, 0.5, 0.0], 2_000)
    found, errors, _ = class_frequencies(answers(log_px_y), BEFORE)
    assert 0 < found[2] < 3 * errors[2] < 0.03 and np.all(y < 2)


def test_classes_that_rows_cannot_tell_apart_have_no_standard_error():
    _, log_px_y = drawn([0.5, 0.5, 0.0], 400)
    log_px_y[:, 2] = log_px_y[:, 1]
    found, errors, _ = class_frequencies(answers(log_px_y), BEFORE)
    assert np.isfinite(errors[0]) and np.all(np.isinf(errors[1:]))
    assert found[1] / found[2] == pytest.approx(3.0)  # as before


def test_one_row_says_little():
    found, _, _ = class_frequencies(answers(drawn([1, 0, 0], 1)[1]), BEFORE)
    assert 0.4 < found[0] < 1


def test_the_p_value_is_uniform_where_nothing_moved():
    values = []
    for seed in range(200):
        found = class_frequencies(answers(drawn(BEFORE, 300, seed)[1]), BEFORE)
        values.append(LabelShift(np.arange(3), BEFORE, *found, 300, 0.0).p_value)
    assert 0.42 < np.mean(values) < 0.62 and 0.01 < np.mean(np.array(values) < 0.05) < 0.12
