"""Several networks answer together; what each leaves out judges them all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import make_moons

from diglm import HybridClassifier, HybridRegressor, load, sweep
from diglm.fitting.committee import expected_shares
from diglm.fitting.split import deal, split_labels, split_rows
from diglm.recipes import CouplingFlow

SMALL = dict(n_blocks=2, width=16, depth=1, n_epochs=40, batch_size=64, reject=0.1)
SMALL |= dict(random_state=0, verbose=False)


def curves(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=n)


@pytest.fixture(scope="module")
def committee():
    return HybridRegressor(CouplingFlow(tail=1, members=3), **SMALL).fit(*curves(400, 0))


def test_members_differ_and_answer_with_the_average_of_their_densities(committee):
    X, y = curves(50, 1)
    model, predictor = committee.model_, committee.predictor_
    members = model.members
    assert 3 <= len(members) <= 4
    values = predictor.encode(X).values
    zs = [jax.vmap(lambda x, m=m: m(x).z)(values) for m in members]
    assert not np.allclose(zs[0], zs[1], atol=0.01)
    head_y = (y - predictor.target.location) / predictor.target.scale
    told = [
        np.array(jax.vmap(lambda z, t, m=m: m.head(z).log_prob(t))(z, head_y))
        for m, z in zip(members, zs, strict=True)
    ]
    shares = np.asarray(model.log_shares.value)
    assert np.exp(shares).sum() == pytest.approx(1)
    expected = np.logaddexp.reduce(shares[:, None] + told) - np.log(predictor.target.scale)
    assert np.allclose(committee.predict_dist(X).log_prob(y), expected, atol=1e-3)
    one = model(jnp.asarray(values[0]))
    assert np.isclose(one.response.log_prob(head_y[0]), np.logaddexp.reduce(
        shares + np.array([t[0] for t in told])
    ), atol=1e-3)  # fmt: skip


def test_together_they_are_better_than_one_of_them(committee):
    X, y = curves(2000, 2)
    predictor = committee.predictor_
    alone = []
    for member in committee.model_.members[:3]:
        values = predictor.encode(X).values
        alone.append(np.asarray(jax.vmap(lambda x, m=member: m(x).response.mean)(values)))
    unit = predictor.target
    errors = [np.mean((unit.location + unit.scale * mean - y) ** 2) for mean in alone]
    assert np.mean((committee.predict(X) - y) ** 2) < 0.97 * np.mean(errors)


def test_every_method_works_with_it(committee, tmp_path):
    X, y = curves(30, 3)
    table = committee.assess(X)
    assert np.allclose(table["prediction"], committee.predict(X))
    low, high = committee.predict_interval(X, level=0.9).T
    assert np.all(low < high)
    assert np.allclose(committee.inverse_transform(committee.transform(X)), X, atol=1e-3)
    assert np.allclose(committee.predict_dist(X).cdf(committee.predict_dist(X).quantile(0.3)), 0.3)
    # Rows drawn given y are rows weighed by p(y|x).
    rows = committee.sample(2000, random_state=0)
    weights = np.exp(committee.predict_dist(rows).log_prob(np.full(2000, 1.5)))
    given = committee.predict(committee.sample(200, y=1.5, random_state=0))
    expected = np.average(committee.predict(rows), weights=weights)
    assert np.mean(given) == pytest.approx(expected, abs=4 * np.std(given) / 14)
    joint, targets = committee.sample_joint(2000, random_state=0)
    known = committee.predict_dist(joint).cdf(targets)
    assert stats.kstest(known, "uniform").pvalue > 1e-3
    change = committee.counterfactual(X[:2], target=1.0)
    assert np.allclose(change.prediction[change.valid], 1.0, atol=0.05) and change.valid.any()
    committee.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict(X), committee.predict(X))
    gone = np.where(np.arange(3) == 1, np.nan, X)
    spreads = (committee.predict(rows, return_std=True)[1] for rows in (X, gone))
    assert np.mean(next(spreads)) < np.mean(next(spreads))


def test_classes_stay_probabilities_and_are_drawn_given_one():
    X, y = curves(300, 4)
    model = HybridClassifier(CouplingFlow(tail=1, members=2), **SMALL).fit(X, y > 0)
    proba = model.predict_proba(X)
    assert np.allclose(proba.sum(1), 1) and len(model.model_.members) >= 2
    rows = model.sample(4000, random_state=0)
    weights = model.predict_proba(rows)[:, 1]
    given = model.predict_proba(model.sample(400, y=True, random_state=0))[:, 1]
    expected = np.average(weights, weights=weights)
    assert np.mean(given) == pytest.approx(expected, abs=4 * np.std(given) / 20)


def test_rows_are_dealt_so_that_each_is_left_out_by_half():
    strata = np.repeat([0, 1], [30, 13])
    hands = deal(np.arange(43), 4, strata, 0)
    assert len({len(hand) for hand in hands}) == 1
    counts = np.bincount(np.concatenate(hands), minlength=43)
    assert np.sum(counts == 2) == 40 and np.sum(counts == 4) == 3
    assert all(abs(np.mean(strata[hand]) - 13 / 43) < 0.12 for hand in hands)


def test_rows_that_judge_the_head_teach_it_nothing():
    X, y = curves(200, 5)
    settings = SMALL | dict(n_epochs=2)
    dealt = HybridRegressor(CouplingFlow(tail=1, members=2), **settings)
    told = HybridRegressor(CouplingFlow(tail=1, members=2), score="variance", **settings)
    for model, everybody in ((dealt, False), (told, True)):
        request = model._request(0)
        assert request.rules_read_head("vector") == everybody
    swept = sweep(dealt, X, y, generative_weight=[0.5, 1.0])
    assert len(swept.models[0].model_.members) >= 1
    assert np.all(np.isfinite(swept.table["held_out_nll"] if "held_out_nll" in swept.table else 0))


def test_the_share_of_a_model_is_its_expectation_given_how_well_it_did():
    rng = np.random.default_rng(0)
    ones, none = np.ones(2000), np.zeros((2, 0))

    def share(first, second, weights=ones):
        shares = expected_shares(np.stack([first, second]), weights)
        assert shares.sum() == pytest.approx(1)
        return shares[0]

    assert np.allclose(expected_shares(none, none[0]), 0.5)
    assert np.allclose(expected_shares(np.zeros((3, 0)), none[0]), 1 / 3)
    same = rng.normal(size=2000)
    assert share(same, same) == pytest.approx(0.5)
    # Rows of a mixture of two known densities in shares of 0.7 and 0.3.
    y = np.where(rng.random(2000) < 0.7, rng.normal(0, 1, 2000), rng.normal(3, 0.5, 2000))
    first, second = stats.norm.logpdf(y), stats.norm.logpdf(y, 3, 0.5)
    assert share(first, second) == pytest.approx(0.7, abs=0.04)
    assert share(3 * first, 3 * second, 3 * ones) == pytest.approx(0.7, abs=0.04)
    assert share(second, first) == pytest.approx(0.3, abs=0.04)
    # Of a third that is no part of it, next to nothing is left.
    three = expected_shares(np.stack([first, second, stats.norm.logpdf(y, -4)]), ones)
    assert three[0] == pytest.approx(0.7, abs=0.05) and three[2] < 0.03


def test_one_network_is_one_argument_away():
    X, y = curves(120, 6)
    settings = SMALL | dict(n_epochs=2)
    for flow in (CouplingFlow(tail=1, members=1), CouplingFlow(tail=0), "linear"):
        assert len(HybridRegressor(flow, **settings).fit(X, y).model_.members) == 1
    with pytest.raises(ValueError, match="members"):
        HybridRegressor(CouplingFlow(members=0)).fit(X, y)


def test_rows_without_a_label_take_nothing_from_those_that_have_one():
    X, y = curves(460, 7)
    fresh, truth = curves(1000, 8)
    settings = SMALL | dict(n_epochs=100)
    model = HybridRegressor(CouplingFlow(tail=1, members=3), **settings)
    alone = np.mean((model.fit(X[:100], y[:100]).predict(fresh) - truth) ** 2)
    few = model.fit(X[:100], y[:100], X_unlabelled=X[100:])
    assert len(few.model_.members) >= 3
    assert np.mean((few.predict(fresh) - truth) ** 2) < 1.15 * alone
    assert few.score_samples(fresh).mean() > model.fit(X[:100], y[:100]).score_samples(fresh).mean()


def test_where_no_label_is_held_out_some_to_train_on_are_set_apart():
    labelled = np.arange(400) < 60
    split = split_rows(0.2, None, np.ones(400), 0, labelled)
    assert not labelled[split.held_out].any()
    own = split_labels(split, labelled, 0.2, None, np.ones(400), 0)
    assert labelled[np.concatenate(own)].all() and len(own.train) + len(own.held_out) == 60
    assert len(own.held_out) == 12
    many = np.arange(400) < 300
    split = split_rows(0.2, None, np.ones(400), 0, many)
    own = split_labels(split, many, 0.2, None, np.ones(400), 0)
    assert np.array_equal(own.held_out, split.held_out[many[split.held_out]])


FEW = dict(n_blocks=4, width=32, n_epochs=60, reject=None, random_state=0, verbose=False)


def left(y, n_each, seed=0):
    """Which rows have a label."""
    rng = np.random.default_rng(seed)
    picked = [rng.permutation(np.flatnonzero(y == c))[:n_each] for c in np.unique(y)]
    return np.isin(np.arange(len(y)), np.concatenate(picked))


@pytest.mark.slow
def test_rows_without_a_label_are_believed_where_classes_are_threads_of_rows():
    X, y = make_moons(600, noise=0.1, random_state=0)
    fresh, truth = make_moons(2000, noise=0.1, random_state=1)
    known = left(y, 10)
    alone = HybridClassifier(CouplingFlow(tail=1), **FEW).fit(X[known], y[known])
    model = HybridClassifier(CouplingFlow(tail=1), unlabelled=-1, **FEW)
    model.fit(X, np.where(known, y, -1))
    assert len(model.model_.members) > len(alone.model_.members)
    assert model.score(fresh, truth) > alone.score(fresh, truth) + 0.02


@pytest.mark.slow
def test_rows_without_a_label_mislead_nobody_where_classes_overlap():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 2600)
    X = rng.normal(size=(2600, 4)) + 0.7 * y[:, None]
    X, y, fresh, truth = X[:600], y[:600], X[600:], y[600:]
    known = left(y, 30)
    told = []
    for weight in (3.0, "auto"):
        model = HybridClassifier(CouplingFlow(tail=1), unlabelled=-1, vat_weight=weight, **FEW)
        model.fit(X, np.where(known, y, -1))
        told.append(-np.mean(model.predict_log_proba(fresh)[np.arange(2000), truth]))
    alone = HybridClassifier(CouplingFlow(tail=1), **FEW).fit(X[known], y[known])
    plain = -np.mean(alone.predict_log_proba(fresh)[np.arange(2000), truth])
    assert told[1] < plain + 0.02 and told[1] < told[0] + 0.005


def test_without_terms_a_committee_is_that_of_the_labelled_rows():
    """The same rows teach and judge; but for units, which come from all rows, nothing differs."""
    X, y = curves(300, 9)
    X = stats.norm.ppf((stats.rankdata(X, axis=0) - 0.5) / 300)
    known = left(np.arange(300) % 2, 50)
    settings = SMALL | dict(n_epochs=30, reject=None)
    model = HybridRegressor(CouplingFlow(tail=1, members=2), **settings)
    fresh, truth = curves(1000, 10)
    alone = np.mean((model.fit(X[known], y[known]).predict(fresh) - truth) ** 2)
    others = np.mean((model.fit(X, np.where(known, y, np.nan)).predict(fresh) - truth) ** 2)
    assert others == pytest.approx(alone, rel=0.1)


def test_a_first_fit_compiles_few_programs():
    """A program takes longer than the work of a small one; slices and sums are none."""
    compiled = []

    def note(event, *_, **__):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    X, y = curves(173, 4)  # of a size, and networks of a width, that no other test has
    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        HybridClassifier(CouplingFlow(tail=1), **SMALL | {"width": 19, "n_epochs": 2}).fit(X, y > 0)
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert 3 < len(compiled) <= 20
