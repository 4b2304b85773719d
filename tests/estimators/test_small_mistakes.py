"""What a tired person types: each is answered with what was expected, what came and what to do."""

import multiprocessing
import os
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from diglm import HybridClassifier, HybridDensity, HybridRegressor, load
from diglm.predictor import MissedTargetWarning
from diglm.refusal import SmallTableWarning

TINY = dict(n_epochs=2, batch_size=32, random_state=0, verbose=False)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    return X, (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def classifier(rows):
    return HybridClassifier("linear", reject=0.1, **TINY).fit(*rows)


@pytest.fixture(scope="module")
def regressor(rows):
    X, _ = rows
    return HybridRegressor("linear", head="gaussian", reject=0.1, **TINY).fit(X, X[:, 0])


def test_a_marker_of_missing_labels_may_be_of_another_type_than_the_classes(rows):
    X, y = rows
    names = ["no" if value == 0 else "yes" for value in y]
    names[:30] = [-1] * 30
    model = HybridClassifier("linear", unlabelled=-1, **TINY).fit(X, names)
    assert model.classes_.tolist() == ["no", "yes"]
    with pytest.raises(ValueError, match="mixes text and other values such as -1"):
        HybridClassifier("linear", **TINY).fit(X, names)


def test_counterfactual_wants_one_target_or_one_a_row(classifier, regressor, rows):
    X, _ = rows
    with pytest.raises(ValueError, match=r"one value or one a row \(3\); got 2"):
        classifier.counterfactual(X[:3], [0, 1])
    with pytest.raises(ValueError, match=r"one value or one a row \(3\); got 2"):
        regressor.counterfactual(X[:3], [0.0, 1.0])


def test_a_counterfactual_that_is_missed_says_so():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(200, 1)).astype(float)  # three values: most means lie between
    y = 2 * X[:, 0] + 0.1 * rng.normal(size=200)
    model = HybridRegressor("linear", head="gaussian", reject=0.1, **TINY).fit(X, y)
    with pytest.warns(MissedTargetWarning, match="nothing was found that is reached"):
        found = model.counterfactual(X[:2], 1.0)
    assert not found.reached.any()


@pytest.mark.parametrize("n", [2.5, 0, "three", True])
def test_a_number_of_draws_is_whole(classifier, n):
    for y in (None, 1):
        with pytest.raises(ValueError, match="n must be a whole number of at least 1"):
            classifier.sample(n, y=y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(dropout=None), "dropout must be 'auto' or a finite number >= 0 and < 1; got None"),
        (dict(n_epochs=2.5), "n_epochs must be 'auto' or a whole number"),
        (dict(reject=95), "reject must be a rate between 0 and 1"),
        (dict(reject="minimal"), "Did you mean 'minimum'"),
        (dict(score="densty"), "Did you mean 'density'"),
        (dict(head="poison"), "Did you mean 'poisson'"),
        (dict(flow="copling"), "Did you mean 'coupling'"),
        (dict(flow=3), "flow must be a name, a recipe or a bijection; got 3"),
        (dict(terms={"entropi": 1.0}), "Did you mean 'entropy'"),
        (dict(terms={"entropy": -1.0}), "weight of a term must be a finite number >= 0"),
        (dict(extra="drop"), "extra must be 'error' or 'ignore'"),
        (dict(width=[8, 8]), "width of a table's flow is one whole number"),
    ],
)
def test_a_wrong_parameter_says_what_it_may_be(options, message, rows):
    X, y = rows
    model = HybridRegressor(**TINY).set_params(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y.astype(float))


def test_a_rate_may_be_of_any_type_of_number(rows):
    X, y = rows
    model = HybridClassifier("linear", reject=np.float32(0.1), **TINY).fit(X, y)
    assert model.predictor_.refusal.threshold.rule == "conformal"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X: pl.DataFrame(X).lazy(), "collect"),
        (lambda X: {"a": X[:, 0]}, "dict"),
        (lambda X: pd.DataFrame(X, columns=["a", "a"]), "unique"),
        (lambda X: X[:, 0], "Reshape your data"),
        (lambda X: "table.csv", "0|array|file"),
    ],
)
def test_what_is_no_table_is_refused_with_advice(make, message, rows):
    X, y = rows
    for model in (HybridClassifier("linear", **TINY), HybridDensity("linear", **TINY)):
        arguments = (make(X),) if isinstance(model, HybridDensity) else (make(X), y)
        with pytest.raises((ValueError, TypeError), match=message):
            model.fit(*arguments)


def test_an_interval_of_95_is_meant_as_a_share(regressor, rows):
    X, _ = rows
    with pytest.raises(ValueError, match="between 0 and 1; got 95. Write 95 % as 0.95"):
        regressor.predict_interval(X[:2], 95)


def test_dates_are_the_same_in_a_csv_and_in_a_frame_read_from_it(tmp_path):
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 200), unit="D")
    frame = pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "a": rng.normal(size=200)})
    frame["y"] = (frame["a"] > 0).astype(int)
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    settings = dict(reject=0.1, **TINY)
    from_file = HybridClassifier("linear", **settings).fit_file(path, "y")
    as_text = pd.read_csv(path).drop(columns="y")
    assert np.isfinite(from_file.score_samples(as_text)).all()
    in_memory = HybridClassifier("linear", **settings).fit(as_text, frame["y"])
    out = pd.read_parquet(in_memory.score_file(path, tmp_path / "out.parquet"))
    assert np.allclose(out["log_px"], in_memory.score_samples(as_text))
    drawn = in_memory.sample(3, random_state=0)
    assert drawn["day"].str.fullmatch(r"\d{4}-\d\d-\d\d").all()


@pytest.mark.folds
def test_a_promise_that_few_rows_cannot_carry_is_said(rows):
    X, y = rows
    with pytest.warns(SmallTableWarning, match="cannot be promised from 80 held-out rows"):
        HybridClassifier("linear", **TINY).fit(X[:80], y[:80])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = HybridClassifier("linear", **TINY).fit(X, y)  # all 120, each by who left it out
        HybridClassifier("linear", reject=0.1, **TINY).fit(X, y)
    assert len(kept.predictor_.refusal.threshold.ranks) == len(X) == 120


def test_columns_are_read_by_name_and_others_passed_over_on_request(rows):
    X, y = rows
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = HybridClassifier("linear", reject=0.1, **TINY).fit(frame, y)
    turned = frame[["b", "a"]]
    assert np.array_equal(model.predict_proba(turned), model.predict_proba(frame))
    more = frame.assign(c=1.0)
    with pytest.raises(ValueError, match=r"has columns \['c'\] that were not there in fit"):
        model.predict(more)
    ignoring = model.set_params(extra="ignore")
    assert np.array_equal(ignoring.predict_proba(more), model.predict_proba(frame))


def test_features_come_with_names_and_in_the_container_asked_for(rows):
    X, y = rows
    model = HybridClassifier("linear", reject=0.1, **TINY).fit(X, y)
    names = model.get_feature_names_out().tolist()
    assert names == ["hybridclassifier0", "hybridclassifier1"]
    framed = model.set_output(transform="pandas").transform(X)
    assert list(framed.columns) == names


def _ask(ask, told):
    try:
        ask()
        told.put("answered")
    except RuntimeError as error:
        told.put(str(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_process_forked_after_jax_has_started_says_so_instead_of_hanging(
    classifier, rows, tmp_path
):
    classifier.save(tmp_path / "model.diglm")
    fork = multiprocessing.get_context("fork")
    for ask in (
        lambda: classifier.predict(rows[0][:2]),
        lambda: classifier.sample(2),
        lambda: load(tmp_path / "model.diglm"),
        lambda: HybridDensity("linear", **TINY).fit(rows[0]),
    ):
        told = fork.Queue()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX and Python warn of the fork itself
            child = fork.Process(target=_ask, args=(ask, told), daemon=True)
            child.start()
        assert "spawn" in told.get(timeout=60)
        child.join(10)
