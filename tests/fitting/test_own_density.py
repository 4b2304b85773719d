"""A density of its own beside the head's flow: both at once, and every method works with it."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import diglm
from diglm import HybridClassifier, HybridRegressor
from diglm.bases import Clumps
from diglm.recipes import CouplingFlow

SMALL = dict(n_blocks=2, width=16, depth=1, n_epochs=60, batch_size=64, reject=0.05)
SMALL |= dict(random_state=0, verbose=False)
CENTRES, SCALES = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]]), np.array([0.5, 0.8, 0.3])


def three_modes(n, seed):
    rng = np.random.default_rng(seed)
    which = rng.integers(3, size=n)
    X = CENTRES[which] + SCALES[which, None] * rng.normal(size=(n, 2))
    parts = [stats.norm.logpdf(X, c, s).sum(1) for c, s in zip(CENTRES, SCALES, strict=True)]
    log_px = np.logaddexp.reduce(parts, axis=0) - np.log(3)
    return X, np.cos(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=n), log_px


@pytest.fixture(scope="module")
def modes():
    X, y, _ = three_modes(800, 0)
    return HybridRegressor(CouplingFlow(tail=2), **SMALL).fit(X, y)


@pytest.fixture(scope="module")
def papers():
    X, y, _ = three_modes(800, 0)
    return HybridRegressor(CouplingFlow(tail=0), **SMALL).fit(X, y)


def test_predictions_are_no_worse_than_the_papers_and_the_density_is_much_nearer(modes, papers):
    X, y, log_px = three_modes(2000, 1)
    own, shared = (model.predict_dist(X).log_prob(y).mean() for model in (modes, papers))
    assert own > shared - 0.1
    own, shared = (np.mean(log_px - model.score_samples(X)) for model in (modes, papers))
    assert own < 0.25 and own < 0.5 * shared
    assert isinstance(modes.model_.density.flow.base, Clumps)
    assert papers.model_.density is None


def test_it_integrates_to_one(modes):
    grid = np.linspace(-6, 12, 400)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    assert np.exp(modes.score_samples(points)).sum() * (grid[1] - grid[0]) ** 2 == pytest.approx(
        1, abs=0.01
    )


def test_one_pass_gives_what_the_methods_give(modes):
    X, _, _ = three_modes(50, 2)
    encoded = modes.predictor_.encode(X)
    outputs = jax.vmap(modes.model_)(jnp.asarray(encoded.values))
    assert np.allclose(outputs.log_px + encoded.log_scale, modes.score_samples(X))
    assert np.allclose(modes.assess(X)["log_px"], modes.score_samples(X))


def test_draws_lie_where_rows_lie(modes):
    X, _, _ = three_modes(800, 0)
    fresh, _, _ = three_modes(4000, 3)
    drawn = modes.sample(4000, random_state=0)
    beyond = [np.mean(np.any((D < X.min(0)) | (D > X.max(0)), axis=1)) for D in (fresh, drawn)]
    assert beyond[1] <= 2 * beyond[0] + 0.01
    nearest = np.min(np.linalg.norm(drawn[:, None] - CENTRES, axis=2) / SCALES, axis=1)
    assert np.mean(nearest > 4) < 0.05
    joint, targets = modes.sample_joint(500, random_state=0)
    assert np.corrcoef(modes.predict(joint), targets)[0, 1] > 0.9


def test_rows_given_a_target_are_those_of_the_joint(modes):
    given = modes.sample(400, y=1.0, random_state=0)
    X, y = modes.sample_joint(20_000, random_state=1)
    near = X[np.abs(y - 1.0) < 0.05]
    assert abs(np.mean(modes.predict(given)) - np.mean(modes.predict(near))) < 0.05
    for column in range(2):
        assert stats.ks_2samp(given[:, column], near[:, column]).statistic < 0.12


def test_classes_are_drawn_in_their_share_of_the_joint():
    X, _, _ = three_modes(600, 0)
    y = np.where(X[:, 1] > 3, "high", "low")
    model = HybridClassifier(CouplingFlow(tail=2), **SMALL).fit(X, y)
    high = model.sample(300, y="high", random_state=0)
    assert np.mean(model.predict(high) == "high") > 0.95
    assert np.allclose(model.counterfactual(X[:5], "high").reached, True)


def test_the_way_between_rows_ends_at_them(modes):
    X, _, _ = three_modes(2, 5)
    way = modes.interpolate(X[0], X[1], 5)
    assert np.allclose(way[[0, -1]], X, atol=1e-4)


def test_models_of_a_sweep_share_it():
    X, y, _ = three_modes(200, 0)
    options = SMALL | dict(n_epochs=3)
    swept = diglm.sweep(HybridRegressor(CouplingFlow(tail=2), **options), X, y, [0.0, 1.0])
    first, second = (model.score_samples(X) for model in swept.models)
    assert np.array_equal(first, second)
    alone = HybridRegressor(CouplingFlow(tail=2), generative_weight=1.0, **options).fit(X, y)
    assert np.allclose(alone.score_samples(X), second)


def test_a_kept_run_of_a_file_keeps_it_too(tmp_path):
    X, y, _ = three_modes(400, 0)
    X = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    X.assign(y=y).to_parquet(tmp_path / "rows.parquet")
    model = HybridRegressor(CouplingFlow(tail=2), **SMALL | dict(n_epochs=2))
    for _ in range(2):  # the second resumes what is complete
        model.fit_file(tmp_path / "rows.parquet", "y", checkpoint=tmp_path / "run")
    assert (tmp_path / "run" / "density" / "states").is_dir()
    assert len(model.density_history_) == len(model.history_) == 2
    plain = HybridRegressor(CouplingFlow(tail=2), **SMALL | dict(n_epochs=2))
    plain.fit_file(tmp_path / "rows.parquet", "y")
    assert np.array_equal(plain.score_samples(X), model.score_samples(X))


def test_a_saved_model_has_it(modes, tmp_path):
    X, _, _ = three_modes(50, 4)
    modes.save(tmp_path / "modes.diglm")
    loaded = diglm.load(tmp_path / "modes.diglm")
    assert np.allclose(loaded.score_samples(X), modes.score_samples(X))
    assert np.array_equal(loaded.sample(5, random_state=0), modes.sample(5, random_state=0))


def test_a_fit_that_fails_does_not_wait_for_it(monkeypatch):
    X, y, _ = three_modes(100, 0)
    model = HybridRegressor(CouplingFlow(tail=2), **SMALL | dict(n_epochs=100_000, patience=9999))

    def broken(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["diglm.fitting.run"], "_bar", broken)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
