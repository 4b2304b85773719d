"""Tables, files, images and sweeps go the same way: what one of them honours, all do."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from diglm import HybridClassifier, HybridRegressor, recipes, sweep
from diglm.fitting import trainers
from diglm.heads import Bayesian, ConjugateHead, Mixed, MixedHead
from diglm.recipes import Glow

TINY = dict(n_epochs=2, batch_size=32, random_state=0, verbose=False)
GLOW = dict(n_blocks=1, width=4, reject=0.1, **TINY)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 2))
    groups = rng.integers(0, 5, 160)
    y = X[:, 0] + rng.normal(size=5)[groups] + 0.1 * rng.normal(size=160)
    return X, y, groups


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, (96, 4, 4, 1)).astype(np.uint8)
    y = rng.integers(0, 2, 96)
    X[y == 1, :2] //= 4
    return X, y


def leaves(model):
    import jax

    found = jax.tree.leaves(model.model_)
    return [np.asarray(leaf) for leaf in found if hasattr(leaf, "dtype")]


# ---------------------------------------------------------------- checkpoints


@pytest.mark.slow
def test_a_kept_run_of_images_is_refused_with_other_labels_or_weights(images, tmp_path):
    X, y = images
    first = HybridClassifier(**GLOW).fit(X, y, checkpoint=tmp_path / "run")
    again = HybridClassifier(**GLOW).fit(X, y, checkpoint=tmp_path / "run")
    assert all(np.array_equal(a, b) for a, b in zip(leaves(first), leaves(again), strict=True))
    with pytest.raises(ValueError, match="belongs to another run"):
        HybridClassifier(**GLOW).fit(X, 1 - y, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="belongs to another run"):
        HybridClassifier(**GLOW).fit(X, y, np.arange(1.0, 97.0), checkpoint=tmp_path / "run")
    other = Glow(augment=0)
    with pytest.raises(ValueError, match="belongs to another run"):
        HybridClassifier(other, **GLOW).fit(X, y, checkpoint=tmp_path / "run")


# ---------------------------------------------------------------- groups


def test_a_mixed_head_in_a_file_needs_groups_or_has_effects_of_rows(table, tmp_path):
    X, y, _ = table
    path = tmp_path / "rows.parquet"
    counts = np.round(np.exp(y - y.min())).astype(int)
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y, "count": counts}).to_parquet(path)
    model = HybridRegressor("linear", head="mixed", reject=0.1, **TINY).fit_file(path, "y")
    assert isinstance(model.model_.head, ConjugateHead) and model.model_.head.has_effects
    with pytest.raises(ValueError, match="needs the group of each row"):
        HybridRegressor("linear", head="mixed_poisson", **TINY).fit_file(path, "count")
    with pytest.raises(ValueError, match="needs the group of each row"):
        HybridRegressor("linear", head=Mixed(slopes=["a"]), **TINY).fit_file(path, "y")


def test_a_sweep_knows_groups(table):
    X, y, groups = table
    model = HybridRegressor("linear", head="mixed", reject=0.1, **TINY)
    found = sweep(model, X, y, [0.1, 1.0], groups=groups)
    assert all(isinstance(one.model_.head, MixedHead) for one in found.models)
    alone = model.set_params(generative_weight=1.0).fit(X, y, groups=groups)
    assert np.allclose(found.models[1].random_effects_, alone.random_effects_, atol=1e-4)


@pytest.mark.slow
def test_every_answer_takes_groups(table, tmp_path):
    X, y, groups = table
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = HybridRegressor("linear", head="mixed", reject=0.1, **TINY).fit(frame, y, groups=groups)
    known = model.predict(frame, groups=groups)
    assert np.mean((known - y) ** 2) < 0.5 * np.mean((model.predict(frame) - y) ** 2)
    assert model.score(frame, y, groups=groups) > model.score(frame, y)
    assert np.allclose(model.assess(frame, groups=groups)["prediction"], known)
    joint = model.score_samples(frame) + model.predict_dist(frame, groups=groups).log_prob(y)
    assert np.allclose(model.log_joint(frame, y, groups=groups), joint)
    answered = ~model.rejects(frame)
    assert np.allclose(model.safe_predict(frame, groups=groups)[answered], known[answered])
    frame.assign(g=groups).to_parquet(tmp_path / "rows.parquet")
    out = model.score_file(tmp_path / "rows.parquet", tmp_path / "out.parquet", groups="g")
    assert np.allclose(pd.read_parquet(out)["prediction"], known)


@pytest.mark.slow
def test_images_may_belong_to_groups(images):
    X, _ = images
    groups = np.arange(96) % 3
    y = np.array([-3.0, 0.0, 3.0])[groups] + 0.1 * np.random.default_rng(0).normal(size=96)
    model = HybridRegressor(head="mixed", **GLOW).fit(X, y, groups=groups)
    assert model.random_effects_.shape == (3, 1)
    assert np.corrcoef(model.predict(X, groups=groups), y)[0, 1] > 0.9
    with pytest.raises(ValueError, match="no columns that groups could have slopes of"):
        HybridRegressor(head=Mixed(slopes="all"), **GLOW).fit(X, y, groups=groups)


# ---------------------------------------------------------------- exact steps


@pytest.mark.slow
def test_exact_steps_are_taken_whatever_the_rows_come_from(table, images, tmp_path, monkeypatch):
    X, y, _ = table
    calls = []
    real = trainers.fit_evidence

    def noted(model, rows, **options):
        calls.append(callable(rows))
        return real(model, rows, **options)

    monkeypatch.setattr(trainers, "fit_evidence", noted)
    settings = dict(head=Bayesian(inference="exact"), reject=0.1, **TINY)
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_parquet(path)
    HybridRegressor("linear", **settings).fit_file(path, "y")
    assert calls == [True]  # rows of a file come in pieces
    found = sweep(HybridRegressor("linear", **settings), X, y, [0.5, 1.0])
    assert calls == [True, False, False] and len(found.models) == 2
    HybridRegressor(n_blocks=1, width=4, **settings).fit(images[0], np.arange(96.0))
    assert len(calls) == 4


def test_what_exact_steps_cannot_do_is_refused_and_not_dropped(table):
    X, y, _ = table
    with pytest.raises(ValueError, match="no room for"):
        HybridRegressor("linear", head=Bayesian(inference="exact"), vat_weight=1.0, **TINY).fit(
            X, y
        )


def test_without_a_flow_terms_are_trained_and_not_dropped():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    y[rng.random(200) < 0.7] = -1
    settings = dict(unlabelled=-1, validation_fraction=0.0, **TINY | dict(n_epochs=40))
    plain = HybridClassifier("identity", **settings).fit(X, y)
    sharp = HybridClassifier("identity", entropy_weight=3.0, **settings).fit(X, y)
    assert plain.stopped_ == "exact" and sharp.stopped_ != "exact"
    assert sharp.predict_proba(X).max(axis=1).mean() > plain.predict_proba(X).max(axis=1).mean()


# ---------------------------------------------------------------- sweeps, weights, priors


@pytest.mark.slow
def test_a_model_of_a_sweep_of_images_is_that_of_a_fit(images):
    X, y = images
    model = HybridClassifier(Glow(augment=1), **GLOW)
    found = sweep(model, X, y, [1.0])
    alone = model.set_params(generative_weight=1.0).fit(X, y)
    both = zip(leaves(found.models[0]), leaves(alone), strict=True)
    assert all(np.allclose(a, b, atol=1e-10) for a, b in both)
    recipe = recipes.recipe_of(Glow(augment=1), "image")
    assert recipe.augmentation(alone.predictor_.encoder) is not None


@pytest.mark.parametrize("way", ["fit", "file", "sweep"])
def test_weighted_rows_are_unlearned_with_the_weights_they_were_learned_with(way, table, tmp_path):
    X, y, _ = table
    weights = np.where(np.arange(160) % 2 == 0, 4.0, 10.0)
    model = HybridRegressor("linear", head="bayesian", reject=0.1, **TINY)
    if way == "fit":
        model.fit(X, y, weights)
    elif way == "sweep":
        model = sweep(model, X, y, [1.0], sample_weight=weights).models[0]
    else:
        path = tmp_path / "rows.parquet"
        pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y, "w": weights}).to_parquet(path)
        model.fit_file(path, "y", sample_weight="w")
    X = pd.DataFrame(X, columns=["a", "b"]) if way == "file" else X
    rows = X[:20]
    count = float(model.predictor_.memory.sums.count)
    model.downdate(rows, y[:20], weights[:20])
    gone = count - float(model.predictor_.memory.sums.count)
    assert np.isclose(gone, weights[:20].sum() / weights.mean())


def test_class_weights_leave_the_frequencies_that_answer_for_refused_rows():
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.2).astype(int)
    X = rng.normal(size=(300, 2)) + y[:, None]
    model = HybridClassifier("linear", class_weight="balanced", reject=0.1, **TINY).fit(X, y)
    assert np.allclose(model.class_prior_, np.bincount(y) / 300)
    assert np.allclose(model.safe_predict_proba(X[:1] + 1e4), np.bincount(y) / 300)
    assert model.predict(X).mean() > y.mean()  # and training was balanced


def test_the_promise_holds_over_many_tables():
    """P(refused) <= rate, over fits to small tables with rare levels and gaps."""
    rng = np.random.default_rng(0)
    refused = 0
    for seed in range(6):
        n = 400
        k = rng.zipf(1.6, n + 200).clip(max=400).astype(str)
        frame = pd.DataFrame({"a": rng.normal(size=n + 200), "k": k})
        frame.loc[rng.random(n + 200) < 0.02, "a"] = np.nan
        y = rng.integers(0, 2, n + 200)
        settings = TINY | dict(random_state=seed)
        model = HybridClassifier("linear", reject=0.1, **settings).fit(frame[:n], y[:n])
        refused += int(model.rejects(frame[n:]).sum())
    # 1200 rows judged by 6 thresholds of 80 rows each: their spread, not the rows', is what counts.
    assert refused / 1200 < stats.beta(9, 73).mean() + 3 * stats.beta(9, 73).std() / np.sqrt(6)
