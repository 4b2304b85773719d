"""The estimators' contract on small tables: predictions, densities, refusal, samples, units."""

import pickle

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from diglm import HybridClassifier, HybridRegressor
from diglm.data.toy import mixed_table, two_moons
from diglm.predictor import evaluate as engine
from diglm.predictor.draw import great_circle

TINY = dict(n_blocks=2, width=8, n_epochs=4, batch_size=64, random_state=0, verbose=False)


@pytest.fixture(scope="module")
def moons():
    X, y = two_moons(600, 0.1, 0)
    return X, y


@pytest.fixture(scope="module")
def classifier(moons):
    return HybridClassifier(**TINY | dict(n_epochs=40)).fit(*moons)


@pytest.fixture(scope="module")
def line():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)) * [1.0, 10.0, 0.1]
    return X, 5 + 2 * X[:, 0] - 0.3 * X[:, 1] + 0.2 * rng.normal(size=500)


@pytest.fixture(scope="module")
def regressor(line):
    return HybridRegressor(head="gaussian", **TINY | dict(n_epochs=30)).fit(*line)


# ---------------------------------------------------------------- predictions and densities


def test_classifier_tells_the_moons_apart_and_probabilities_sum_to_one(classifier, moons):
    X, y = moons
    assert classifier.score(X, y) > 0.95
    assert np.allclose(classifier.predict_proba(X).sum(axis=1), 1)
    assert np.allclose(np.exp(classifier.predict_log_proba(X)), classifier.predict_proba(X))
    assert np.array_equal(
        classifier.predict(X), classifier.classes_[np.argmax(classifier.predict_proba(X), axis=1)]
    )


def test_density_of_a_fitted_plane_integrates_to_one(classifier, moons):
    X, _ = moons
    low, high = X.min(axis=0) - 6, X.max(axis=0) + 6
    sides = [np.linspace(a, b, 700) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*sides), -1).reshape(-1, 2)
    cell = np.prod([side[1] - side[0] for side in sides])
    assert abs(np.exp(classifier.score_samples(grid)).sum() * cell - 1) < 1e-3


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_answers_do_not_depend_on_how_rows_are_divided(classifier, n_threads, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: n_threads)
    X = np.random.default_rng(0).normal(size=(2 * engine.MOST_CHUNKS * engine.CHUNK + 1, 2))
    together = classifier.score_samples(X)
    assert together.shape == (len(X),)
    for some in (slice(0, 3), slice(40_000, 40_700), slice(-2, None)):
        assert np.array_equal(together[some], classifier.score_samples(X[some]))


def test_density_of_a_fitted_line_integrates_to_one():
    rng = np.random.default_rng(0)
    X = np.where(rng.random(800) < 0.3, rng.normal(-3, 0.3, 800), rng.gamma(2, 1, 800))[:, None]
    y = X[:, 0] + rng.normal(size=800)
    model = HybridRegressor(**TINY).fit(X, y)
    grid = np.linspace(-400, 400, 2_000_001)
    total = np.trapezoid(np.exp(model.score_samples(grid[:, None])), grid)
    assert abs(total - 1) < 1e-3


def test_log_joint_is_the_sum_of_its_parts(classifier, moons, regressor, line):
    X, y = moons
    log_py = classifier.predict_log_proba(X)[np.arange(len(y)), y]
    assert np.allclose(classifier.log_joint(X, y), classifier.score_samples(X) + log_py)
    X, y = line
    joint = regressor.score_samples(X) + regressor.predict_dist(X).log_prob(y)
    assert np.allclose(regressor.log_joint(X, y), joint)


def test_a_change_of_unit_shifts_log_density_by_exactly_the_log_factor(line):
    X, y = line
    metres = HybridRegressor(**TINY).fit(X, y)
    millimetres = X * [1000.0, 1.0, 0.3048]
    other = HybridRegressor(**TINY).fit(millimetres, y)
    shift = other.score_samples(millimetres) - metres.score_samples(X)
    assert np.allclose(shift, -np.log(1000.0) - np.log(0.3048), atol=1e-6)
    assert np.allclose(other.predict(millimetres), metres.predict(X), atol=1e-6)


def test_rows_are_judged_alone_whatever_their_number(classifier, moons):
    X, _ = moons
    whole = classifier.score_samples(X)
    assert np.array_equal(whole[:7], classifier.score_samples(X[:7]))
    assert np.array_equal(whole[::-1], classifier.score_samples(X[::-1]))
    many = np.tile(X, (20, 1))  # more than one compiled buffer
    assert np.array_equal(classifier.score_samples(many)[-600:], whole)


def test_a_new_number_of_rows_does_not_recompile(classifier, moons, caplog):
    import jax

    X, _ = moons
    classifier.predict(X[:3])
    with jax.log_compiles(), caplog.at_level("WARNING", logger="jax"):
        for n in (1, 5, 200, 599):
            classifier.predict(X[:n])
            classifier.score_samples(X[:n])
    assert not [r for r in caplog.records if "Finished XLA compilation" in r.getMessage()]


def test_regressor_gives_distributions_in_the_users_units(regressor, line):
    X, y = line
    mean, std = regressor.predict(X, return_std=True)
    dist = regressor.predict_dist(X)
    assert regressor.score(X, y) > 0.95
    assert np.array_equal(mean, dist.mean)
    assert np.array_equal(std, dist.std)
    low, high = dist.interval(0.9)
    assert 0.8 < np.mean((y > low) & (y < high)) < 0.99
    assert dist.quantile([0.1, 0.5, 0.9]).shape == (500, 3)
    assert np.allclose(dist.cdf(dist.quantile(0.3)), 0.3)
    assert dist.sample(0, 50).shape == (50, 500)
    assert len(dist) == 500
    with pytest.raises(ValueError, match="between 0 and 1"):
        dist.quantile(1.5)


@pytest.mark.parametrize(
    "head", ["heteroscedastic", "student_t", "gamma", "poisson", "negative_binomial"]
)
def test_every_head_fits_scores_and_samples(head, line):
    X, y = line
    y = np.round(np.exp(0.5 * X[:, 0]) * 3) + 1
    model = HybridRegressor(head=head, **TINY).fit(X, y)
    assert np.all(np.isfinite(model.log_joint(X, y)))
    rows, drawn = model.sample_joint(5, random_state=0)
    assert rows.shape == (5, 3) and drawn.shape == (5,)
    assert model.sample(4, y=y[0], random_state=0).shape == (4, 3)


# ---------------------------------------------------------------- GLMs inside


def test_without_a_flow_the_classifier_is_logistic_regression():
    X, y = make_classification(400, 4, n_informative=3, n_redundant=0, flip_y=0.2, random_state=0)
    ours = HybridClassifier(
        flow="identity",
        generative_weight=0.0,
        validation_fraction=0.0,
        random_state=0,
        verbose=False,
    ).fit(X, y)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X, y)
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)


def test_without_a_flow_the_regressor_is_least_squares_and_poisson_regression(line):
    X, y = line
    settings = dict(
        flow="identity",
        generative_weight=0.0,
        validation_fraction=0.0,
        random_state=0,
        verbose=False,
    )
    ours = HybridRegressor(head="gaussian", **settings).fit(X, y)
    theirs = LinearRegression().fit(X, y)
    assert np.allclose(ours.predict(X), theirs.predict(X), atol=1e-3 * np.std(y))
    counts = np.random.default_rng(0).poisson(np.exp(0.5 + 0.4 * X[:, 0]))
    ours = HybridRegressor(head="poisson", **settings).fit(X, counts)
    theirs = PoissonRegressor(alpha=0, tol=1e-10, max_iter=10_000).fit(
        StandardScaler().fit_transform(X), counts
    )
    assert np.allclose(
        ours.predict(X), theirs.predict(StandardScaler().fit_transform(X)), rtol=1e-3
    )


# ---------------------------------------------------------------- refusal


def test_strange_rows_are_refused_and_answered_with_the_prior(classifier, moons):
    X, y = moons
    strange = X + 30.0
    assert classifier.rejects(X).mean() < 0.05
    assert classifier.rejects(strange).all()
    assert np.allclose(classifier.safe_predict_proba(strange), np.bincount(y) / len(y), atol=1e-6)
    accepted = ~classifier.rejects(X)
    safe = classifier.safe_predict_proba(X)
    assert np.array_equal(safe[accepted], classifier.predict_proba(X)[accepted])
    assert np.array_equal(
        classifier.rejects(X), classifier.score_samples(X) < classifier.threshold_
    )


def test_reject_options(moons):
    X, y = moons
    never = HybridClassifier(reject=None, **TINY).fit(X, y)
    assert not never.rejects(X + 1e6).any()
    paper = HybridClassifier(reject="minimum", slack=1.0, **TINY).fit(X, y)
    assert not paper.rejects(X).any()
    assert np.isclose(paper.threshold_, paper.score_samples(X).min() - 1.0)


def test_assess_is_one_table_of_the_callers_kind(classifier, regressor, moons, line):
    X, _ = moons
    table = classifier.assess(X)
    assert list(table.columns) == ["prediction", "probability", "log_px", "p_value", "rejected"]
    assert np.allclose(table["log_px"], classifier.score_samples(X))
    assert np.array_equal(table["prediction"], classifier.predict(X))
    assert np.array_equal(table["rejected"], classifier.rejects(X))
    assert np.allclose(table["p_value"], classifier.p_value(X))
    assert list(regressor.assess(line[0]).columns)[1] == "sd"


def test_regressor_answers_refused_rows_with_the_marginal(regressor, line):
    X, y = line
    mean, std = regressor.safe_predict(X * 1e3, return_std=True)
    assert np.allclose(mean, y.mean()) and np.allclose(std, y.std())


# ---------------------------------------------------------------- features, samples, changes


def test_transform_round_trips(classifier, regressor, moons, line):
    for model, X in ((classifier, moons[0]), (regressor, line[0])):
        assert np.allclose(model.inverse_transform(model.transform(X)), X, atol=1e-5)


def test_samples_look_like_the_training_rows(classifier, moons):
    X, y = moons
    drawn = classifier.sample(4000, random_state=0)
    assert np.allclose(drawn.mean(axis=0), X.mean(axis=0), atol=0.15)
    assert np.allclose(drawn.std(axis=0), X.std(axis=0), atol=0.2)
    upper = classifier.sample(500, y=0, random_state=0)
    assert np.mean(classifier.predict(upper) == 0) > 0.9
    assert np.array_equal(drawn, classifier.sample(4000, random_state=0))
    rows, labels = classifier.sample_joint(2000, random_state=1)
    assert np.isclose(np.mean(labels), np.mean(y), atol=0.1)
    assert np.mean(classifier.predict(rows) == labels) > 0.8


def test_gaussian_head_draws_x_given_y_exactly(regressor):
    # z | y is Gaussian in closed form: compare moments of the drawn linear predictor.
    target = 8.0
    z = regressor.transform(regressor.sample(20_000, y=target, random_state=0))
    head = regressor.model_.head
    b, s2 = np.asarray(head.weight[0], float), float(head(jnp.zeros(3)).scale) ** 2
    y = (target - regressor.y_location_) / regressor.y_scale_ - float(head.bias[0])
    V = np.linalg.inv(np.eye(3) + np.outer(b, b) / s2)
    assert np.allclose(z.mean(axis=0), V @ b * y / s2, atol=0.03)
    assert np.allclose(np.cov(z.T), V, atol=0.05)


def test_interpolation_runs_from_one_row_to_the_other(classifier, moons):
    X, _ = moons
    path = classifier.interpolate(X[0], X[1], 5)
    assert path.shape == (5, 2)
    assert np.allclose(path[0], X[0], atol=1e-5) and np.allclose(path[-1], X[1], atol=1e-5)
    with pytest.raises(ValueError, match="one row for a"):
        classifier.interpolate(X[:2], X[0], 3)


@given(st.integers(2, 6), st.integers(0, 10_000))
def test_a_great_circle_turns_evenly_and_keeps_its_length(dim, seed):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, dim)) * rng.uniform(0.1, 5, (2, 1))
    way = great_circle(first, second, 7)
    lengths = np.linalg.norm(way, axis=1)
    assert np.allclose(way[[0, -1]], [first, second])
    assert np.allclose(lengths, np.linspace(lengths[0], lengths[-1], 7))
    units = way / lengths[:, None]
    cosines = np.sum(units[1:] * units[:-1], axis=1)
    assert np.allclose(cosines, cosines[0], atol=1e-6)


@pytest.mark.parametrize("second", [[-4.0, 0.0], [0.0, 0.0], [4.0, 0.0]])
def test_without_a_way_to_turn_the_line_is_straight(second):
    way = great_circle(np.array([2.0, 0.0]), np.array(second), 3)
    assert np.allclose(way[1], (np.array([2.0, 0.0]) + second) / 2)


def test_counterfactual_of_a_class_is_the_nearest_point_that_leads(classifier, moons):
    X, y = moons
    rows, wanted = X[:20], 1 - classifier.predict(X[:20])
    found = classifier.counterfactual(rows, wanted, margin=0.5)
    assert np.array_equal(found.prediction, wanted)
    odds = np.log(classifier.predict_proba(found.x))
    lead = odds[np.arange(20), wanted] - odds[np.arange(20), 1 - wanted]
    assert np.allclose(lead, 0.5, atol=1e-3)  # two classes: the bound is met exactly
    assert np.allclose(found.log_px, classifier.score_samples(found.x))
    assert np.array_equal(found.rejected, classifier.rejects(found.x))
    head = classifier.model_.head
    gap = np.asarray(head.weight[1] - head.weight[0], float)
    before = classifier.transform(rows)
    step = found.z - before  # along the normal of the boundary, hence the shortest
    cosine = np.abs(step @ gap) / np.linalg.norm(step, axis=1) / np.linalg.norm(gap)
    assert np.allclose(cosine, 1, atol=1e-3)


def test_counterfactual_of_a_number_predicts_it(regressor, line):
    found = regressor.counterfactual(line[0][:10], 7.0)
    assert np.allclose(found.prediction, 7.0, atol=1e-3)
    with pytest.raises(ValueError, match="beyond what this model can predict"):
        regressor.counterfactual(line[0][:1], 1e9)


def test_many_class_counterfactual_solves_the_least_distance_problem():
    from scipy.optimize import minimize

    from diglm.targets.nearest import nearest_leading

    rng = np.random.default_rng(0)
    weight, bias, z = rng.normal(size=(5, 4)), rng.normal(size=5), rng.normal(size=4)
    ours = nearest_leading(z, weight, bias, 2, 0.7)
    constraints = [
        {
            "type": "ineq",
            "fun": lambda u, k=k: (weight[2] - weight[k]) @ u + bias[2] - bias[k] - 0.7,
        }
        for k in (0, 1, 3, 4)
    ]
    best = minimize(lambda u: np.sum((u - z) ** 2), z, constraints=constraints, tol=1e-12)
    assert np.allclose(ours, best.x, atol=1e-4)


# ---------------------------------------------------------------- mixed tables


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_mixed_frames_with_missing_values(library):
    table = mixed_table(400, 0)
    frame = library(table.x)
    model = HybridClassifier(**TINY).fit(frame, table.label)
    assert np.all(np.isfinite(model.score_samples(frame)))
    assert model.score(frame, table.label) > 0.6
    drawn = model.sample(20, random_state=0)
    assert type(drawn) is type(frame) and list(drawn.columns) == list(frame.columns)
    assert np.all(np.isfinite(model.score_samples(drawn)))
    assert type(model.assess(frame)) is type(frame)
    back = model.inverse_transform(model.transform(frame))
    assert type(back) is type(frame)


def test_missingness_is_learned_at_least_as_well_as_median_and_indicator():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    missing = rng.random(1500) < np.where(y == 1, 0.5, 0.1)  # missing tells about y
    X[missing, 0] = np.nan
    model = HybridClassifier(**TINY | dict(n_epochs=30)).fit(X[:1000], y[:1000])
    filled = np.column_stack(
        [np.where(missing, np.nanmedian(X[:1000, 0]), X[:, 0]), X[:, 1:], missing]
    )
    simple = LogisticRegression().fit(filled[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) >= simple.score(filled[1000:], y[1000:]) - 0.01


def test_unknown_category_and_new_missing_value_are_finite_and_refused():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=300), "kind": rng.choice(["a", "b", "c"], 300)})
    y = (frame["size"] > 0).astype(int)
    model = HybridClassifier(**TINY).fit(frame, y)
    strange = pd.DataFrame({"size": [0.1, np.nan], "kind": ["zebra", "a"]})
    assert np.all(np.isfinite(model.score_samples(strange)))
    assert model.rejects(strange).all()
    assert np.all(np.isfinite(model.predict_proba(strange)))


@pytest.mark.parametrize(
    "columns", ["constant", "duplicate", "one", "wide", "whole"], ids=lambda name: name
)
def test_awkward_tables_fit(columns):
    rng = np.random.default_rng(0)
    base = rng.normal(size=(80, 3))
    X = {
        "constant": np.column_stack([base, np.full(80, 7.0)]),
        "duplicate": np.column_stack([base, base]),
        "one": base[:, :1],
        "wide": rng.normal(size=(40, 120)),
        "whole": rng.integers(0, 5, size=(80, 3)).astype(float),
    }[columns]
    y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    model = HybridClassifier(**TINY).fit(X, y)
    assert np.all(np.isfinite(model.score_samples(X)))
    assert np.all(np.isfinite(model.predict_proba(X)))
    assert np.all(np.isfinite(model.sample(5, random_state=0)))
    if columns == "constant":
        changed = X.copy()
        changed[:, 3] = 100.0
        assert model.rejects(changed).all()


# ---------------------------------------------------------------- labels, weights, scikit-learn


@pytest.mark.slow
def test_unlabelled_rows_are_opt_in_and_help():
    X, y = two_moons(500, 0.1, 0)
    labels = np.where(np.arange(500) < 20, y, -1)
    model = HybridClassifier(unlabelled=-1, **TINY | dict(n_epochs=20)).fit(X, labels)
    assert model.classes_.tolist() == [0, 1]
    plain = HybridClassifier(**TINY).fit(X, labels)
    assert plain.classes_.tolist() == [-1, 0, 1]
    numbers = np.where(np.arange(500) < 50, X[:, 0] * 2, np.nan)
    semi = HybridRegressor(entropy_weight=0.1, vat_weight=0.1, **TINY).fit(X, numbers)
    assert np.all(np.isfinite(semi.predict(X)))


def test_sample_weight_and_class_weight_shift_the_answer():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = (rng.random(400) < 0.2).astype(int)  # labels without relation to X
    settings = TINY | dict(n_epochs=10)
    plain = HybridClassifier(**settings).fit(X, y).predict_proba(X)[:, 1].mean()
    balanced = (
        HybridClassifier(class_weight="balanced", **settings)
        .fit(X, y)
        .predict_proba(X)[:, 1]
        .mean()
    )
    weighted = HybridClassifier(**settings).fit(X, y, sample_weight=np.where(y == 1, 4.0, 1.0))
    assert abs(plain - 0.2) < 0.06
    assert abs(balanced - 0.5) < 0.1
    assert abs(weighted.predict_proba(X)[:, 1].mean() - 0.5) < 0.1


def test_rows_of_weight_zero_do_not_matter():
    X, y = load_iris(return_X_y=True)
    weight = np.r_[np.ones(120), np.zeros(30)]
    changed = X.copy()
    changed[120:] *= 50
    order = np.random.default_rng(0).permutation(150)
    X, y, changed = X[order], y[order], X[order].copy()
    changed[120:] *= 50
    first = HybridClassifier(**TINY).fit(X, y, sample_weight=weight)
    second = HybridClassifier(**TINY).fit(changed, y, sample_weight=weight)
    assert np.allclose(first.predict_proba(X[:10]), second.predict_proba(X[:10]))


def test_strings_and_booleans_are_classes():
    X, y = two_moons(200, 0.1, 0)
    names = np.where(y == 1, "upper", "lower")
    model = HybridClassifier(**TINY).fit(X, names)
    assert set(model.predict(X)) <= {"upper", "lower"}
    assert model.sample(3, y="upper", random_state=0).shape == (3, 2)
    with pytest.raises(ValueError, match="Unknown class 'left'"):
        model.log_joint(X[:1], ["left"])
    assert HybridClassifier(**TINY).fit(X, y == 1).classes_.tolist() == [False, True]


def test_pipelines_grids_clones_and_pickles():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), HybridClassifier(**TINY))
    assert len(cross_val_score(pipeline, X, y, cv=2)) == 2
    grid = GridSearchCV(HybridClassifier(**TINY), {"generative_weight": [0.0, 1.0]}, cv=2).fit(X, y)
    model = grid.best_estimator_
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert clone(model).get_params() == model.get_params()


def test_a_base_of_one_normal_a_class_is_a_density_and_draws_classes(moons):
    X, y = moons
    model = HybridClassifier(base="mixture", **TINY | dict(n_epochs=20)).fit(X, y)
    assert model.model_.flow.base.means.shape == (2, 2)
    side = np.linspace(-4, 5, 181)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    mass = np.exp(model.score_samples(grid)).sum() * (side[1] - side[0]) ** 2
    assert mass == pytest.approx(1, abs=0.01)
    wanted = np.repeat([0, 1], 50)
    assert np.mean(model.predict(model.sample(100, y=wanted, random_state=0)) == wanted) > 0.8


def test_the_base_of_classes_is_around_the_weighted_means_of_their_features(moons):
    X, y = moons
    options = TINY | dict(n_epochs=3, validation_fraction=0.0)
    weights = 1.0 + (np.arange(len(y)) % 3)
    model = HybridClassifier(base="mixture", **options).fit(X, y, weights)
    Z = model.transform(X)
    means = [np.average(Z[y == k], axis=0, weights=weights[y == k]) for k in (0, 1)]
    np.testing.assert_allclose(model.model_.flow.base.means, means, rtol=1e-4, atol=1e-5)
    shares = np.bincount(y, weights) / weights.sum()
    np.testing.assert_allclose(
        softmax(np.asarray(model.model_.flow.base.logits, float)), shares, rtol=1e-5
    )
    plain = HybridClassifier(base="normal", **options).fit(X, y, weights)
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


@pytest.mark.parametrize("y", [None, 1])
def test_cooler_samples_are_less_varied(moons, y):
    X, labels = moons
    model = HybridClassifier(**TINY | dict(n_epochs=10)).fit(X, labels)
    warm, cool = (
        np.mean(
            np.std(model.transform(model.sample(300, y, random_state=0, temperature=t)), axis=0)
        )
        for t in (1.0, 0.5)
    )
    assert cool < 0.8 * warm
    with pytest.raises(ValueError, match="temperature must be"):
        model.sample(1, temperature=0.0)


@pytest.mark.parametrize("options", [dict(head="bayesian"), dict(volume_weight=0.5)])
def test_a_mixture_base_says_what_it_does_not_go_with(moons, options):
    with pytest.raises(ValueError, match="base='mixture' goes with head='categorical'"):
        HybridClassifier(base="mixture", **options, **TINY).fit(*moons)
    with pytest.raises(ValueError, match="base must be one of .*; got 'flat'"):
        HybridClassifier(base="flat", **TINY).fit(*moons)


def test_discriminative_and_volume_weighted_models_fit(moons):
    X, y = moons
    sharp = HybridClassifier(generative_weight=0.0, **TINY).fit(X, y)
    assert np.all(np.isfinite(sharp.score_samples(X)))
    narrow = HybridClassifier(volume_weight=0.2, **TINY).fit(X, y)
    assert narrow.model_.flow.base.variance == 0.2
    assert np.all(np.isfinite(narrow.score_samples(X)))


def test_a_bijection_object_can_be_the_flow(moons):
    import jax

    from diglm.bijections import ActNorm, Chain, Planar

    X, y = moons
    flow = Chain([ActNorm(2), Planar(2, key=jax.random.key(0))])
    model = HybridClassifier(flow, **TINY).fit(X, y)
    assert np.all(np.isfinite(model.score_samples(X)))
    with pytest.raises(ValueError, match=r"must map \(2,\) to \(2,\)"):
        HybridClassifier(Planar(3, key=jax.random.key(0)), **TINY).fit(X, y)


@pytest.mark.parametrize("flow", ["spline", "planar", "linear", "identity"])
def test_every_recipe_fits(flow, moons):
    X, y = moons
    model = HybridClassifier(flow, **TINY).fit(X, y)
    assert np.all(np.isfinite(model.log_joint(X, y)))


def test_the_same_seed_gives_the_same_model(moons):
    X, y = moons
    first, second = (HybridClassifier(**TINY).fit(X, y) for _ in range(2))
    assert np.array_equal(first.predict_proba(X), second.predict_proba(X))
    assert first.threshold_ == second.threshold_


def test_a_mixture_predicts_a_skewed_target_by_its_mean_and_its_shape():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    y = x[:, 0] + rng.exponential(np.exp(0.3 * x[:, 1]))
    tiny = dict(n_blocks=2, width=8, depth=1, n_epochs=30, random_state=0, verbose=False)
    model = HybridRegressor("linear", head="mixture", **tiny).fit(x, y)
    dist = model.predict_dist(x)
    at = np.linspace(-60.0, 80.0, 40_001)
    at = at[::8]
    density = np.exp([dist.log_prob(np.full(len(x), place)) for place in at])
    np.testing.assert_allclose(np.trapezoid(density, at, axis=0), 1.0, atol=2e-3)
    np.testing.assert_allclose(
        np.trapezoid(density * at[:, None], at, axis=0), dist.mean, atol=0.01
    )
    np.testing.assert_allclose(dist.cdf(dist.quantile(0.3)), 0.3, atol=1e-9)
    drawn = dist.sample(0, 4_000)
    error = 5 * dist.std / np.sqrt(len(drawn))
    assert np.mean(np.abs(drawn.mean(axis=0) - dist.mean) < error) > 0.99
    symmetric = HybridRegressor("linear", head="heteroscedastic", **tiny).fit(x, y)
    assert dist.log_prob(y).mean() > symmetric.predict_dist(x).log_prob(y).mean() + 0.05
    with pytest.raises(ValueError, match="not a linear predictor"):
        model.counterfactual(x[:1], 2.0)


def test_no_row_is_predicted_with_more_certainty_than_training_rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 1))
    y = x[:, 0] + np.exp(x[:, 0]) * rng.normal(size=600)  # ever surer to the left
    model = HybridRegressor("linear", head="heteroscedastic", random_state=0, verbose=False)
    model.fit(x, y)
    least = model.predict(x, return_std=True)[1].min()
    far = model.predict(np.array([[-50.0], [-1e6]]), return_std=True)[1]
    assert np.all(far >= 0.999 * least) and least > 0.01
