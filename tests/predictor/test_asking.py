"""Which labels teach a classifier most."""

import jax
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import entropy

from diglm import HybridClassifier
from diglm.heads import Bayesian
from diglm.heads.bayesian.jaakkola import GaussianWeights
from diglm.heads.bayesian.variational import VariationalHead
from diglm.predictor import asking
from diglm.recipes import CouplingFlow

TINY = dict(n_epochs=5, batch_size=64, reject=0.05, random_state=0, verbose=False)


@pytest.fixture(scope="module")
def lines():
    """Two columns; the classes part along their sum."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    return X, (X.sum(axis=1) + 0.5 * rng.logistic(size=120) > 0).astype(int)


@pytest.fixture(scope="module")
def bayesian(lines):
    head = Bayesian(inference="laplace", prior_precision=1.0)
    return HybridClassifier("identity", head=head, **TINY).fit(*lines)


def test_versions_average_to_the_answer_and_share_their_weights(bayesian, lines):
    found = asking.Versions(bayesian.predictor_, bayesian._encode(lines[0]))
    assert found.answers.shape == (120, asking.N_DRAWS, 2)
    mean = np.einsum("s,rsc->rc", found.shares, found.answers)
    np.testing.assert_allclose(mean, bayesian.predict_proba(lines[0]), atol=0.05)
    twice = asking.Versions(bayesian.predictor_, bayesian._encode(lines[0][[3, 3]])).answers
    np.testing.assert_array_equal(twice[0], twice[1])
    np.testing.assert_allclose(twice[0], found.answers[3])


@pytest.mark.parametrize("kind", ["bernoulli", "binary", "categorical", "poisson"])
def test_draws_of_weights_have_the_posterior(kind):
    head = VariationalHead(kind, 2, n_classes=3)
    n = len(head.mean)
    covariance = np.stack([0.04 * np.array([[2, 1, 0], [1, 2, 0], [0, 0, 1.0]])] * n)
    mean = np.arange(3.0 * n).reshape(n, 3) / 10
    head = head.holding(GaussianWeights(mean, covariance, 0.0, 1.0))
    z = np.array([0.5, -1.0])
    drawn = head.versions(jax.numpy.asarray(z), jax.random.key(0), 20_000)
    phi = np.append(z, 1.0)
    places, weights = np.polynomial.hermite_e.hermegauss(40)
    eta = mean[0] @ phi + np.sqrt(phi @ covariance[0] @ phi) * places
    link = {"poisson": np.exp}.get(kind, expit)
    expected = weights / weights.sum() @ link(eta)
    got = np.mean(np.asarray(drawn.mean), axis=0)
    if kind == "categorical":
        assert got.shape == (3,) and got.sum() == pytest.approx(1)
    else:
        assert got if kind != "binary" else got[1] == pytest.approx(expected, rel=0.01)


def test_the_gain_is_the_mutual_information(bayesian, lines):
    """Against quadrature over the log-odds."""
    head, phi = bayesian.model_.head, np.c_[bayesian.transform(lines[0]), np.ones(120)]
    mean, covariance = np.asarray(head.mean[0]), np.asarray(head.covariance[0])
    places, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    offset = float(head.offset.value[0])
    spread = np.sqrt(np.einsum("ni,ij,nj->n", phi, covariance, phi))
    p = expit((phi @ mean + offset)[:, None] + spread[:, None] * places)
    both = np.stack([p, 1 - p])
    exact = entropy(both @ weights) - entropy(both) @ weights
    gain = bayesian.information_gain(lines[0])
    assert np.corrcoef(gain, exact)[0, 1] > 0.85
    np.testing.assert_allclose(gain.mean(), exact.mean(), rtol=0.25)
    assert np.all(gain >= 0)


def test_two_rows_alike_are_not_both_asked_about():
    """Of copies of a row one label says most of what both would."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)), np.arange(12) % 2
    head = Bayesian(inference="laplace", prior_precision=0.5)
    model = HybridClassifier("identity", head=head, **{**TINY, "reject": None}).fit(X, y)
    pool = np.array([[4.0, 0.0]] * 6 + [[0.0, 3.5]])
    gain = model.information_gain(pool)
    assert np.all(gain[:6] > gain[6])
    assert model.most_informative(pool, 2).tolist() == [0, 6]


def test_noise_is_not_asked_about():
    """Where classes are certainly mixed, entropy is highest and a label teaches nothing."""
    rng = np.random.default_rng(0)
    known, rare = np.zeros((400, 1)), np.full((4, 1), 3.0)
    X = np.concatenate([known + 0.01 * rng.normal(size=known.shape), rare])
    y = np.r_[np.arange(400) % 2, [1, 1, 1, 1]]
    head = Bayesian(inference="laplace", prior_precision=1.0)
    model = HybridClassifier("identity", head=head, **{**TINY, "reject": None}).fit(X, y)
    pool = np.array([[0.0], [3.0]])
    uncertain = entropy(model.predict_proba(pool), axis=1)
    assert uncertain[0] > uncertain[1] and model.most_informative(pool)[0] == 1


def test_what_would_be_refused_is_not_asked_about(bayesian):
    X = np.array([[60.0, -60.0], [0.1, 0.0]])
    assert bayesian.rejects(X).tolist() == [True, False]
    assert bayesian.most_informative(X, 2).tolist() == [1]


def test_a_committee_is_asked_where_it_disagrees(lines):
    flow = CouplingFlow(members=3, tail=1)
    model = HybridClassifier(flow, n_blocks=1, width=4, **TINY).fit(*lines)
    found = asking.Versions(model.predictor_, model._encode(lines[0]))
    n_members = len(model.model_.members)
    assert found.answers.shape[1] == n_members > 1
    mean = np.einsum("s,rsc->rc", found.shares, found.answers)
    np.testing.assert_allclose(mean, model.predict_proba(lines[0]), atol=1e-9)
    each = np.einsum("s,sr->r", found.shares, entropy(np.swapaxes(found.answers, 0, 1), axis=-1))
    np.testing.assert_allclose(
        model.information_gain(lines[0]), entropy(mean, axis=1) - each, atol=1e-9
    )
    assert len(set(model.most_informative(lines[0], 10))) == 10


def test_a_model_without_doubts_asks_where_it_is_unsure(classifier, moons):
    X = moons[0]
    chosen = classifier.most_informative(X, 5)
    uncertain = entropy(classifier.predict_proba(X), axis=1)
    uncertain[classifier.rejects(X)] = -1
    np.testing.assert_array_equal(chosen, np.argsort(-uncertain)[:5])
    with pytest.raises(AttributeError) as error:
        classifier.information_gain(X)
    assert "needs a model that doubts" in str(error.value.__cause__)
