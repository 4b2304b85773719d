"""A sweep gives the models of separate fits, from one run, and a table that tells them apart."""

import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import diglm
from diglm import Flow, Hybrid, HybridClassifier, HybridDensity, HybridRegressor, flows
from diglm.heads import make_head
from diglm.objectives import JointObjective
from diglm.recipes import CouplingFlow
from diglm.training import Settings, fit, together
from diglm.training.together import Run, fit_together
from diglm.types import Batch, partition

WEIGHTS = [0, 0.1, 10]
SMALL = dict(flow="linear", n_epochs=3, reject=0.1, random_state=3, verbose=False)


def table(n=160, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.2] + [0.0, 10.0, 1.0]
    return X, X[:, 0] + 0.3 * X[:, 1] + 0.5 * rng.normal(size=n)


def classes(n=160, seed=0):
    """Columns of which one bends with another, so that a flow has something to learn."""
    X, y = table(n, seed)
    X[:, 2] += 0.5 * X[:, 0] ** 2
    return X, np.array(["low", "high"])[(y > 3).astype(int)]


@pytest.fixture(scope="module")
def classified():
    X, y = classes()
    X_test, y_test = classes(90, seed=1)
    couplings = dict(flow=CouplingFlow(tail=0), n_blocks=2, width=8, depth=1, n_epochs=10)
    estimator = HybridClassifier(**SMALL | couplings)
    return estimator, diglm.sweep(estimator, X, y, WEIGHTS, X_test=X_test, y_test=y_test)


@pytest.fixture(scope="module")
def regressed():
    X, y = table()
    y[::7] = np.nan
    weight = np.random.default_rng(2).uniform(0.5, 2.0, len(y))
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(len(X)) + 1000)
    estimator = HybridRegressor(head="gaussian", **SMALL)
    return (
        estimator,
        frame,
        y,
        weight,
        diglm.sweep(estimator, frame, y, (1, 5), sample_weight=weight),
    )


def rows_of(n=200):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    y = (x[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(np.int32)
    return Batch(x, y, np.ones(n, bool), np.ones(n))


def small_model():
    bijection = flows.coupling(2, n_blocks=2, width=8, depth=1, key=jax.random.key(0))
    return Hybrid(Flow(bijection), make_head("categorical", 2, n_classes=2), dropout=0.2)


def leaves(model):
    return np.concatenate([np.ravel(a) for a in jax.tree.leaves(partition(model)[0])])


def test_the_models_are_those_of_separate_fits(classified):
    estimator, result = classified
    X, y = classes()
    X_test, _ = classes(90, seed=1)
    for weight, model in zip(WEIGHTS, result.models, strict=True):
        alone = clone(estimator).set_params(generative_weight=weight).fit(X, y)
        assert model.get_params() == alone.get_params()
        assert np.allclose(model.predict_proba(X_test), alone.predict_proba(X_test), rtol=1e-3)
        assert np.allclose(model.score_samples(X_test), alone.score_samples(X_test), rtol=1e-3)
        assert np.isclose(model.threshold_, alone.threshold_, rtol=1e-3)
        assert [r["val_loss"] for r in model.history_] == pytest.approx(
            [r["val_loss"] for r in alone.history_], rel=1e-3
        )
    first, *_, last = (leaves(model.model_) for model in result.models)
    assert not np.allclose(first, last, rtol=1e-3)


def test_frames_sample_weights_and_rows_without_a_label(regressed):
    estimator, frame, y, weight, result = regressed
    alone = clone(estimator).set_params(generative_weight=5.0).fit(frame, y, sample_weight=weight)
    assert list(result.models[1].feature_names_in_) == ["a", "b", "c"]
    assert np.allclose(result.models[1].predict(frame), alone.predict(frame), rtol=1e-3)
    assert result.models[1].y_mean_ == alone.y_mean_
    assert list(result.table["generative_weight"]) == [1.0, 5.0]
    assert np.all(result.table["rmse"] > 0) and "accuracy" not in result.table


@pytest.mark.parametrize("cores", [1, 2])
def test_patience_stops_each_model_where_its_own_fit_stops(monkeypatch, cores):
    # On one core all are one group; on two the second group is filled up with a copy.
    monkeypatch.setattr(together.os, "cpu_count", lambda: cores)
    rows, settings = rows_of(), Settings(n_epochs=14, batch_size=64, patience=2, learning_rate=0.2)
    held = Batch(*(column[:60] for column in rows))
    weights, told = [0.0, 0.3, 3.0], []
    arguments = dict(validation=held, settings=settings)
    results = fit_together(
        [Run(small_model(), weight, seed=4) for weight in weights],
        rows,
        objective=JointObjective(99.0),
        progress=told.append,
        **arguments,
    )
    alone = [
        fit(small_model(), rows, objective=JointObjective(weight), seed=4, **arguments)
        for weight in weights
    ]
    for ours, single in zip(results, alone, strict=True):
        assert ours.stopped == single.stopped
        assert [r["epoch"] for r in ours.history] == [r["epoch"] for r in single.history]
        assert np.allclose(leaves(ours.model), leaves(single.model), rtol=1e-3, atol=1e-6)
    lengths = [len(result.history) for result in results]
    assert len(set(lengths)) > 1  # else freezing was not put to the test
    assert [record["epoch"] for record in told] == list(range(max(lengths)))


def test_the_table_says_what_the_models_say(classified):
    _, result = classified
    X_test, y_test = classes(90, seed=1)
    row, model = result.table.iloc[1], result.models[1]
    log_px = model.score_samples(X_test)
    log_py = model.log_joint(X_test, y_test) - log_px
    assert row["generative_weight"] == 0.1 and row["epochs"] == len(model.history_)
    assert row["test_accuracy"] == model.score(X_test, y_test)
    assert np.isclose(row["test_nll"], -np.mean(log_py))
    assert np.isclose(row["test_log_px"], np.mean(log_px))
    assert np.isclose(row["test_bits_per_dim"], -np.mean(log_px) / (3 * np.log(2)))
    assert row["test_refused"] == np.mean(model.rejects(X_test))
    assert np.isfinite(result.table.to_numpy()).all()


def test_the_best_model_leads_its_column(classified):
    _, result = classified
    assert result.best() is result.models[int(np.argmin(result.table["nll"]))]
    by_density = result.best(by="test_log_px")
    assert by_density is result.models[int(np.argmax(result.table["test_log_px"]))]
    with pytest.raises(ValueError, match="by must be one of"):
        result.best(by="epochs")


def test_the_plot_labels_every_weight(classified):
    pytest.importorskip("matplotlib")
    _, result = classified
    ax = result.plot()
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.texts] == ["0", "0.1", "10"]
    assert np.allclose(ax.lines[0].get_xdata(), result.table["test_log_px"])
    assert "test rows" in ax.get_xlabel()
    assert result.plot(ax=ax) is ax


def test_few_rows_hold_none_out_and_test_rows_decide():
    X, y = classes(18)
    estimator = HybridClassifier(generative_weight=2.0, **SMALL)
    result = diglm.sweep(estimator, X, y, [2.0], X_test=X, y_test=y)
    alone = clone(estimator).fit(X, y)
    assert np.allclose(result.models[0].score_samples(X), alone.score_samples(X), rtol=1e-3)
    assert np.isnan(result.table["nll"][0]) and np.isfinite(result.table["test_nll"][0])
    with pytest.raises(ValueError, match="No row was held out"):
        result.best()
    assert result.best(by="test_nll") is result.models[0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([], "empty"),
        ([1, 1.0], "given twice"),
        ([-1], "finite and >= 0; got -1"),
        ([np.nan], "finite and >= 0; got nan"),
        ([True], "got True"),
        (["a"], "got 'a'"),
        (1.0, "several numbers"),
        ("auto", "several numbers"),
    ],
)
def test_weights_that_cannot_be_swept(weights, message):
    with pytest.raises(ValueError, match=message):
        diglm.sweep(HybridClassifier(**SMALL), *classes(), weights)


def test_sweeps_that_make_no_sense():
    X, y = classes(60)
    with pytest.raises(ValueError, match="volume_weight=0.5 replaces generative_weight"):
        diglm.sweep(HybridClassifier(volume_weight=0.5, **SMALL), X, y)
    with pytest.raises(ValueError, match="generative_weight makes no difference"):
        diglm.sweep(HybridClassifier(**SMALL | dict(flow="identity")), X, y)
    with pytest.raises(ValueError, match="y_test was given without X_test"):
        diglm.sweep(HybridClassifier(**SMALL), X, y, y_test=y)
    with pytest.raises(ValueError, match="X has 60 rows, but y_test has 59"):
        diglm.sweep(HybridClassifier(**SMALL), X, y, X_test=X, y_test=y[1:])
    with pytest.raises(ValueError, match="target y is None"):
        diglm.sweep(HybridClassifier(**SMALL), X, None)
    for other in (LogisticRegression(), HybridDensity()):
        with pytest.raises(TypeError, match=f"got {type(other).__name__}"):
            diglm.sweep(other, X, y)
