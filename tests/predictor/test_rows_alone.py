"""A row's answer is its own: not of the rows beside it, nor of how many there are."""

import dataclasses

import jax
import numpy as np
import pytest

from diglm import blocks
from diglm.predictor import evaluate


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_answers_do_not_depend_on_how_rows_are_divided(classifier, n_threads, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: n_threads)
    n = 2 * blocks.MOST_CHUNKS * evaluate.CHUNK + 1
    X = np.random.default_rng(0).normal(size=(n, 2))
    together = classifier.score_samples(X)
    assert together.shape == (n,)
    for some in (slice(0, 3), slice(40_000, 40_700), slice(-2, None)):
        assert np.array_equal(together[some], classifier.score_samples(X[some]))


def test_rows_are_judged_alone_whatever_their_number(classifier, moons):
    X, _ = moons
    whole = classifier.score_samples(X)
    assert np.array_equal(whole[:7], classifier.score_samples(X[:7]))
    assert np.array_equal(whole[::-1], classifier.score_samples(X[::-1]))
    many = np.tile(X, (20, 1))  # more than one compiled buffer
    assert np.array_equal(classifier.score_samples(many)[-600:], whole)


def test_a_new_number_of_rows_does_not_recompile(classifier, moons, caplog):
    X, _ = moons
    classifier.assess(X[:3])
    with jax.log_compiles(), caplog.at_level("WARNING", logger="jax"):
        for n in (1, 5, 200, 599):
            classifier.predict(X[:n])
            classifier.score_samples(X[:n])
            classifier.assess(X[:n])
    assert not [r for r in caplog.records if "Finished XLA compilation" in r.getMessage()]


def test_what_is_asked_once_is_what_is_asked_often(classifier, moons, caplog):
    predictor = classifier.predictor_
    encoded = predictor.encode(np.tile(moons[0], (20, 1)))
    once = dataclasses.replace(predictor.viewer, once=True)
    ours, theirs = once.look(encoded), predictor.viewer.look(encoded)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)
    with jax.log_compiles(), caplog.at_level("WARNING", logger="jax"):
        for n in (1, 300, 600):  # a model on the way is asked about rows to train on and held out
            predictor.viewer.read(encoded.take(np.arange(n)))
            once.look(encoded.take(np.arange(n)))
    assert len([r for r in caplog.records if "Finished XLA compilation" in r.getMessage()]) <= 1


def test_one_pass_says_what_each_question_does(regressor, line):
    X, y = line
    predictor = regressor.predictor_
    encoded = predictor.encode(X)
    known = predictor.known(encoded)
    assert np.array_equal(known.log_px, predictor.log_px(encoded))
    assert np.array_equal(known.z, predictor.features(encoded))
    alone = predictor.response(encoded)
    for one, other in zip(jax.tree.leaves(known.response), jax.tree.leaves(alone), strict=True):
        assert np.array_equal(one, other)
    columns = predictor.columns(encoded)
    assert tuple(columns) == predictor.column_names
    assert predictor.called("Someone").owner == "Someone"
    with pytest.raises(ValueError, match="fitted without groups"):
        predictor.codes(np.zeros(3), 3)


def test_transform_round_trips(classifier, regressor, moons, line):
    for model, X in ((classifier, moons[0]), (regressor, line[0])):
        assert np.allclose(model.inverse_transform(model.transform(X)), X, atol=1e-5)
