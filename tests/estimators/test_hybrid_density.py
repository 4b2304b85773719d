"""HybridDensity: a density of rows, files or images, and an outlier detector of scikit-learn's."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.base import clone, is_outlier_detector
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from diglm import HybridDensity, load
from diglm.data.toy import mixed_table, two_moons
from diglm.heads import NoHead
from diglm.recipes import Glow
from diglm.refusal import Conformal, Contamination, Minimum, SmallTableWarning, auroc
from diglm.targets import NoTarget

TINY = dict(n_epochs=4, batch_size=64, random_state=0, verbose=False)


@pytest.fixture(scope="module")
def rows():
    X, _ = two_moons(600, 0.1, 0)
    return X


@pytest.fixture(scope="module")
def moons(rows):
    """A model that knows the moons."""
    settings = TINY | dict(n_epochs=40)
    return HybridDensity(n_blocks=2, width=8, reject=0.05, **settings).fit(rows)


@pytest.fixture(scope="module")
def normal():
    """A linear flow of normal rows, whose density is known."""
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([3.0, -1.0], [[4.0, 1.0], [1.0, 0.5]], 2000)
    return HybridDensity("linear", reject=0.05, **TINY).fit(X), X


# ---------------------------------------------------------------- the density


def test_it_integrates_to_one(moons, rows):
    low, high = rows.min(axis=0) - 6, rows.max(axis=0) + 6
    sides = [np.linspace(a, b, 600) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*sides), -1).reshape(-1, 2)
    cell = np.prod([side[1] - side[0] for side in sides])
    assert abs(np.exp(moons.score_samples(grid)).sum() * cell - 1) < 2e-3


def test_of_normal_rows_it_is_the_normal_density(normal):
    model, X = normal
    truth = stats.multivariate_normal(X.mean(axis=0), np.cov(X.T))
    assert np.allclose(model.score_samples(X), truth.logpdf(X), atol=0.15)
    assert model.score(X) == pytest.approx(np.mean(model.score_samples(X)))


def test_it_is_as_good_as_maximum_likelihood_makes_it(moons, rows):
    gaussian = stats.multivariate_normal(rows.mean(axis=0), np.cov(rows.T))
    fresh, _ = two_moons(600, 0.1, 1)
    assert moons.score(fresh) > gaussian.logpdf(fresh).mean() + 0.3


def test_weighted_rows_count_as_often():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-5, 1, (300, 1)), rng.normal(5, 1, (300, 1))])
    weights = np.r_[np.full(300, 9.0), np.ones(300)]
    model = HybridDensity("linear", reject=0.05, **TINY | dict(n_epochs=40))
    plain = model.fit(X).sample(4000, random_state=0).mean()
    weighted = model.fit(X, sample_weight=weights).sample(4000, random_state=0).mean()
    assert abs(plain) < 1.0 and weighted < -2.0
    idle = np.r_[np.ones(300), np.zeros(300)]
    assert model.fit(X, sample_weight=idle).sample(500, random_state=0).max() < 3.0


def test_samples_are_like_the_rows(moons, rows):
    drawn = moons.sample(3000, random_state=0)
    assert drawn.shape == (3000, 2)
    assert np.array_equal(drawn, moons.sample(3000, random_state=0))
    assert np.allclose(drawn.mean(axis=0), rows.mean(axis=0), atol=0.1)
    assert np.allclose(np.cov(drawn.T), np.cov(rows.T), atol=0.15)
    cool = moons.sample(500, random_state=0, temperature=0.3)
    assert moons.score(cool) > moons.score(drawn) + 0.3
    assert moons.interpolate(rows[0], rows[1], 3).shape == (3, 2)
    assert np.allclose(moons.inverse_transform(moons.transform(rows)), rows, atol=1e-6)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_frames_of_all_kinds_of_columns(library):
    frame = library(mixed_table(300, 0).x)
    model = HybridDensity("linear", reject=0.05, **TINY).fit(frame)
    table = model.assess(frame)
    assert type(table) is type(frame)
    assert list(table.columns) == ["log_px", "strangeness", "p_value", "rejected"]
    assert np.all(np.isfinite(np.asarray(table["log_px"])))
    drawn = model.sample(5, random_state=0)
    assert type(drawn) is type(frame) and list(drawn.columns) == list(frame.columns)


# ---------------------------------------------------------------- the outlier detector


def test_one_is_familiar_and_minus_one_is_strange(moons, rows):
    assert is_outlier_detector(moons)
    answers = moons.predict(rows)
    assert answers.dtype.kind == "i" and set(answers) == {-1, 1}
    assert np.array_equal(answers == -1, moons.rejects(rows))
    assert np.all(moons.predict(rows + 30) == -1)
    decision = moons.decision_function(rows)
    assert np.array_equal(decision < 0, answers == -1)
    assert np.allclose(decision, -moons.strangeness(rows) - moons.offset_)
    assert np.array_equal(moons.fit_predict(rows), answers)


def test_strange_rows_are_told_apart(moons):
    rng = np.random.default_rng(0)
    fresh, _ = two_moons(600, 0.1, 1)
    noise = rng.uniform(fresh.min(axis=0), fresh.max(axis=0), (600, 2))
    assert auroc(moons.decision_function(fresh), moons.decision_function(noise)) > 0.7
    assert np.mean(moons.predict(fresh) == -1) < 0.1  # 0.05, and what 120 held-out rows leave open


def test_contamination_is_the_share_of_strange_rows(rows):
    for share in (0.1, 0.25):
        model = HybridDensity("linear", contamination=share, **TINY).fit(rows)
        assert np.sum(model.predict(rows) == -1) == share * len(rows)
        assert model.predictor_.refusal.threshold.rule == "contamination"
    replaced = HybridDensity("linear", contamination=0.1, reject="minimum", **TINY).fit(rows)
    assert np.sum(replaced.predict(rows) == -1) == 60
    for share in (0.0, 0.6, "auto"):
        with pytest.raises(ValueError, match="contamination must be None or a finite number > 0"):
            HybridDensity("linear", contamination=share, **TINY).fit(rows)


def test_rules_are_those_of_other_estimators(rows):
    def rule(**options):
        model = HybridDensity("linear", **TINY | options).fit(rows)
        return model.predictor_.refusal.threshold.rule, np.sum(model.predict(rows) == -1)

    assert rule(reject="minimum") == ("minimum", 0)
    assert rule(reject=Minimum(slack=1.0)) == ("minimum", 0)
    assert rule(reject=None) == ("never", 0)
    assert rule(reject=Contamination(0.05)) == ("contamination", 30)
    assert rule(reject=0.05)[0] == "conformal"


@pytest.mark.folds
def test_with_few_rows_a_share_of_them_is_strange(rows):
    few = rows[:150]
    with warnings.catch_warnings():
        warnings.simplefilter("error", SmallTableWarning)
        model = HybridDensity("linear", reject=0.02, **TINY).fit(few)
    assert 1 <= np.sum(model.predict(few) == -1) <= 3  # less strange to those who learned them
    usual = Conformal(0.02, folds=0).of_detector()
    with pytest.warns(SmallTableWarning, match="beyond which 3 of all rows lie"):
        model = HybridDensity("linear", reject=usual, **TINY).fit(few)
    assert np.sum(model.predict(few) == -1) == 3
    paper = Conformal(0.02, folds=0, few="minimum")
    with pytest.warns(SmallTableWarning, match="the paper's"):
        model = HybridDensity("linear", reject=paper, **TINY).fit(few)
    assert np.sum(model.predict(few) == -1) == 0


def test_who_is_alone_is_strange_whatever_its_density():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300), "k": rng.choice(["u", "v"], 300)})
    model = HybridDensity("linear", reject="minimum", **TINY).fit(frame)
    zebra = pd.DataFrame({"a": [0.0], "k": ["zebra"]})
    assert model.predict(zebra) == -1 and model.decision_function(zebra) < 0


# ---------------------------------------------------------------- what it is not


def test_nothing_is_predicted(normal):
    model, X = normal
    assert isinstance(model.model_.head, NoHead)
    assert model.predictor_.target == NoTarget()
    for name in ("predict_proba", "predict_dist", "counterfactual", "log_joint", "sample_joint"):
        assert not hasattr(model, name)
    assert model.fit(X, np.arange(len(X)) % 2) is model  # scikit-learn passes y; it is not used
    again = clone(model).fit(X)
    assert np.array_equal(again.score_samples(X), model.score_samples(X))


# ---------------------------------------------------------------- kept, and in pipelines


def test_it_is_saved_pickled_and_cloned(moons, rows, tmp_path):
    moons.save(tmp_path / "m")
    for again in (load(tmp_path / "m"), pickle.loads(pickle.dumps(moons))):
        assert isinstance(again, HybridDensity)
        assert again.get_params() == moons.get_params()
        assert np.array_equal(again.decision_function(rows), moons.decision_function(rows))
        assert np.array_equal(again.sample(3, random_state=0), moons.sample(3, random_state=0))
    assert clone(moons).get_params() == moons.get_params()


def test_it_goes_into_a_pipeline(rows):
    pipeline = make_pipeline(StandardScaler(), HybridDensity("linear", reject=0.05, **TINY))
    assert set(pipeline.fit_predict(rows)) == {-1, 1}


def test_files_are_fitted_and_scored(rows, tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(rows, columns=["a", "b"]).assign(key=np.arange(600), w=1.0)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=200)
    model = HybridDensity("linear", reject=0.05, **TINY)
    model.fit_file(tmp_path / "rows.parquet", features=["a", "b"], sample_weight="w")
    assert list(model.feature_names_in_) == ["a", "b"]
    in_memory = HybridDensity("linear", reject=0.05, **TINY).fit(frame[["a", "b"]])
    assert model.score(frame[["a", "b"]]) == pytest.approx(
        in_memory.score(frame[["a", "b"]]), abs=0.1
    )
    out = model.score_file(tmp_path / "rows.parquet", tmp_path / "out.parquet", keep="key")
    answers = pd.read_parquet(out)
    names = ["row", "key", "log_px", "strangeness", "p_value", "rejected"]
    assert list(answers.columns) == names
    assert np.array_equal(answers["log_px"], model.score_samples(frame[["a", "b"]]))


@pytest.mark.slow
def test_images_are_fitted_and_drawn(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 60, (96, 4, 4, 1)).astype(np.uint8)
    X[:, :2] += 150
    model = HybridDensity(Glow(augment=0), n_blocks=1, width=4, contamination=0.1, **TINY)
    model.fit(X, checkpoint=tmp_path / "run")
    assert np.sum(model.predict(X) == -1) == 10
    assert np.all(model.predict(np.full((1, 4, 4, 1), 255, np.uint8)) == -1)
    drawn = model.sample(3, random_state=0)
    assert drawn.shape == (3, 4, 4, 1) and drawn.dtype == np.uint8
    model.save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").score_samples(X), model.score_samples(X))
    again = clone(model).fit(X, checkpoint=tmp_path / "run")
    assert np.array_equal(again.score_samples(X), model.score_samples(X))
