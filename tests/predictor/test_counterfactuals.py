"""What would have to change: nearest in feature space, judged as what it became."""

import warnings

import numpy as np
import pandas as pd
import pytest

from diglm import HybridClassifier, HybridRegressor
from diglm.data.toy import mixed_table
from diglm.predictor import MissedTargetWarning

TINY = dict(n_epochs=3, batch_size=64, reject=0.05, random_state=0, verbose=False)


def test_counterfactual_of_a_class_is_the_nearest_point_that_leads(classifier, moons):
    X, _ = moons
    rows, wanted = X[:20], 1 - classifier.predict(X[:20])
    found = classifier.counterfactual(rows, wanted, margin=0.5, allow_strange=True)
    assert np.array_equal(found.prediction, wanted) and found.reached.all()
    odds = classifier.predict_log_proba(found.x)
    lead = odds[np.arange(20), wanted] - odds[np.arange(20), 1 - wanted]
    assert np.allclose(lead, 0.5, atol=1e-3)  # two classes: the bound is met exactly
    assert np.allclose(found.log_px, classifier.score_samples(found.x))
    assert np.array_equal(found.rejected, classifier.rejects(found.x))
    head = classifier.model_.head
    gap = np.asarray(head.weight[1] - head.weight[0], float)
    step = found.z - classifier.transform(rows)  # along the normal of the boundary
    assert np.allclose(found.distance, np.linalg.norm(step, axis=1))
    cosine = np.abs(step @ gap) / found.distance / np.linalg.norm(gap)
    assert np.allclose(cosine, 1, atol=1e-3)  # hence the shortest


def test_what_is_answered_so_already_stays(classifier, moons):
    X, _ = moons
    confident = X[classifier.predict_proba(X)[:, 1] > 0.95][:5]
    found = classifier.counterfactual(confident, 1, margin=0.0)
    assert np.allclose(found.x, confident, atol=1e-5) and np.allclose(found.distance, 0, atol=1e-5)


def test_counterfactual_of_a_number_predicts_it(regressor, line):
    X, _ = line
    found = regressor.counterfactual(X[:10], 7.0)
    assert np.allclose(found.prediction, 7.0, atol=1e-3) and found.reached.all()
    wanted = np.linspace(2.0, 8.0, 10)
    each = regressor.counterfactual(X[:10], wanted)
    assert np.allclose(each.prediction, wanted, atol=1e-3)
    with pytest.raises(ValueError, match="beyond what this model can predict"):
        regressor.counterfactual(X[:1], 1e9)


def test_mistakes_are_named(classifier, moons):
    X, _ = moons
    with pytest.raises(ValueError, match="margin must be a finite number >= 0; got -1"):
        classifier.counterfactual(X[:2], 1, margin=-1.0)
    with pytest.raises(ValueError, match=r"target must be one value or one a row \(3\); got 2"):
        classifier.counterfactual(X[:3], [0, 1])
    with pytest.raises(ValueError, match="Unknown class 5"):
        classifier.counterfactual(X[:3], 5)


def test_rounding_is_pushed_against_until_the_class_is_reached():
    table = mixed_table(400, 0)
    frame = pd.DataFrame(table.x)[["visits", "rating", "return"]]
    model = HybridClassifier("linear", **TINY).fit(frame, table.label)
    rows = frame[:10]
    wanted = 1 - model.predict(rows)
    found = model.counterfactual(rows, wanted, margin=0.1)
    assert np.array_equal(found.prediction, model.predict(found.x))
    assert np.array_equal(found.reached, found.prediction == wanted) and found.reached.all()
    assert list(found.x.columns) == list(frame.columns)
    assert np.all(found.x["visits"] == np.round(found.x["visits"]))


@pytest.mark.parametrize("head", ["poisson", "student_t"])
def test_other_links_are_inverted(head, line):
    X, _ = line
    y = np.random.default_rng(0).poisson(np.exp(1 + 0.4 * X[:, 0]))
    model = HybridRegressor("linear", head=head, **TINY).fit(X, y)
    found = model.counterfactual(X[:5], 3.0)
    assert np.allclose(found.prediction, 3.0, atol=0.02)


def test_a_counterfactual_is_hidden_where_no_one_predictor_decides(line):
    X, y = line
    several = HybridRegressor("identity", head="bayesian").fit(X, np.stack([y, -y], axis=1))
    assert not hasattr(several, "counterfactual")
    with pytest.raises(AttributeError, match="counterfactual"):
        several.counterfactual(X[:1], 1.0)


# ---------------------------------------------------------------------- constraints


@pytest.fixture(scope="module")
def shop():
    """Customers with numbers, counts and levels; who buys hangs on all but one of them."""
    rng = np.random.default_rng(0)
    n = 500
    frame = pd.DataFrame(
        {
            "age": rng.normal(45, 10, n),
            "visits": rng.poisson(4, n),
            "city": rng.choice(["Bonn", "Graz", "Lyon"], n, p=[0.5, 0.3, 0.2]),
            "income": np.round(rng.lognormal(3, 0.4, n), 1),
        }
    )
    score = 0.1 * (frame["age"] - 45) + 0.5 * (frame["visits"] - 4) + 2 * (frame["city"] == "Graz")
    bought = np.where(score + 0.3 * rng.normal(size=n) > 0.5, "yes", "no")
    return frame, HybridClassifier("linear", **TINY).fit(frame, bought)


def still_true(model, rows, found, wanted):
    """Every answer that is said to be valid, looked at afresh."""
    x, valid = found.x, found.valid
    assert np.array_equal(model.predict(x)[valid], np.resize(wanted, len(x))[valid])
    assert not np.any(model.rejects(x)[valid])
    assert np.all(np.isinf(found.cost[~valid])) and np.all(np.isfinite(found.cost[valid]))


def test_constraints_hold(shop):
    frame, model = shop
    rows = frame[(model.predict(frame) == "no") & ~model.rejects(frame)][:25]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissedTargetWarning)  # the very old cannot
        found = model.counterfactual(
            rows,
            "yes",
            fixed=["age"],
            bounds={"income": (10, 40), "city": ["Bonn", "Lyon"]},
            direction={"visits": "up"},
        )
    assert found.valid.mean() > 0.9
    still_true(model, rows, found, "yes")
    x = found.x.reset_index(drop=True)
    before = rows.reset_index(drop=True)
    assert np.array_equal(x["age"], before["age"])
    assert x["income"].between(10, 40).all() and set(x["city"]) <= {"Bonn", "Lyon"}
    assert (x["visits"] >= before["visits"]).all() and x["visits"].dtype == before["visits"].dtype
    assert np.allclose(x["income"], x["income"].round(1))  # the grid of the data


def test_nothing_is_changed_in_vain(shop):
    frame, model = shop
    rows = frame[(model.predict(frame) == "no") & ~model.rejects(frame)][:10]
    found = model.counterfactual(rows, "yes", direction={"age": "up"})
    assert found.valid.all()
    before = rows.reset_index(drop=True)
    # Income hardly matters to the answer, so changing it would only cost.
    assert np.mean(found.x["income"].reset_index(drop=True) == before["income"]) > 0.7
    stay = frame[(model.predict(frame) == "yes") & ~model.rejects(frame)][:3]
    same = model.counterfactual(stay, "yes", margin=0.0, fixed=["age"])
    assert np.all(same.cost == 0) and same.x.reset_index(drop=True).equals(
        stay.reset_index(drop=True)
    )


def test_what_is_impossible_is_said(shop):
    frame, model = shop
    rows = frame[model.predict(frame) == "no"][:4]
    with pytest.warns(UserWarning, match="nothing was found that is reached"):
        found = model.counterfactual(rows, "yes", fixed=list(frame.columns))
    assert not found.valid.any() and np.all(np.isinf(found.cost))
    assert found.x.reset_index(drop=True).equals(rows.reset_index(drop=True))
    low = {"visits": (0, 1), "age": (20, 30), "city": ["Bonn"]}
    with pytest.warns(UserWarning, match="fewer constraints"):
        assert not model.counterfactual(rows, "yes", bounds=low, fixed=["income"]).valid.any()
    with pytest.warns(UserWarning):  # upwards, but below where the row is
        up = model.counterfactual(
            rows, "yes", direction={"visits": "up"}, bounds={"visits": (-5, -1)}
        )
    assert not up.valid.any()


def test_several_answers_differ(shop):
    frame, model = shop
    rows = frame[(model.predict(frame) == "no") & ~model.rejects(frame)][:6]
    found = model.counterfactual(rows, "yes", n=2, allow_strange=False)
    assert len(found.x) == 12 and found.row.tolist() == np.repeat(range(6), 2).tolist()
    still_true(model, rows, found, "yes")
    assert found.valid.mean() > 0.9
    for i in range(0, 12, 2):
        if found.valid[i : i + 2].all():
            first, second = (found.x.iloc[i + k] for k in range(2))
            assert not first.equals(second)


def test_missing_values_stay_and_rows_do_not_hang_on_each_other():
    table = mixed_table(300, 0)
    frame = pd.DataFrame(table.x)[["income", "visits", "city"]]
    model = HybridClassifier("linear", **TINY).fit(frame, table.label)
    rows = frame[frame["income"].isna() & frame["city"].notna()][:3]
    wanted = 1 - model.predict(rows)
    found = model.counterfactual(rows, wanted, fixed=["city"])
    assert found.x["income"].isna().all()
    still_true(model, rows, found, wanted)
    alone = model.counterfactual(rows[1:2], wanted[1:2], fixed=["city"])
    assert alone.x.iloc[0].equals(found.x.iloc[1])


def test_nobody_is_advised_to_know_less():
    """Gaps tell the class, so that the nearest features with another answer have them."""
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    frame["c"] = rng.choice(["u", "v", None], n, p=[0.4, 0.3, 0.3])
    frame.loc[rng.random(n) < 0.4, "a"] = np.nan
    unknown = frame["a"].isna() | frame["c"].isna()
    label = np.where(unknown | (frame["b"] > 1), "more", "less")
    model = HybridClassifier("linear", **TINY).fit(frame, label)
    rows = frame[(model.predict(frame) == "less") & ~unknown][:30]
    for asked in ({}, {"fixed": ["b"]}, {"n": 2}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MissedTargetWarning)
            found = model.counterfactual(rows, "more", allow_strange=True, **asked)
        assert not found.x.isna().any().any(), asked
    found = model.counterfactual(rows, "more", allow_strange=True, bounds={"c": [None]})
    assert found.x["c"].isna().all()  # who asks for it is given it


def test_a_mean_is_reached_with_columns_fixed(regressor, line):
    X, _ = line
    rows = X[~regressor.rejects(X)][:10]
    wanted = regressor.predict(rows) + 1.5
    found = regressor.counterfactual(rows, wanted, fixed=[0], direction={2: "up"})
    assert found.valid.all() and np.array_equal(found.x[:, 0], rows[:, 0])
    assert np.all(found.x[:, 2] >= rows[:, 2])
    assert np.allclose(regressor.predict(found.x), wanted, atol=0.011 * regressor.y_std_)


def test_a_path_and_a_figure_lead_there(shop):
    pytest.importorskip("matplotlib")
    frame, model = shop
    rows = frame[(model.predict(frame) == "no") & ~model.rejects(frame)][:1]
    found = model.counterfactual(rows, "yes", fixed=["income"])
    path = found.path(0)
    assert path["step"][0] == "as it is" and path["prediction"].iloc[0] == "no"
    assert path["prediction"].iloc[-1] == "yes" and not path["rejected"].iloc[-1]
    assert np.isclose(path["log_px"].iloc[-1], found.log_px[0])
    labels = [text.get_text() for text in found.figure(0).axes[0].get_yticklabels()]
    assert len(labels) == len(path) - 1 and all("→" in label for label in labels)


@pytest.mark.parametrize(
    "asked, message",
    [
        ({"fixed": "age"}, r"fixed is a list of columns"),
        ({"fixed": ["agee"]}, r"fixed names the column 'agee'"),
        ({"bounds": {"age": 40}}, r"bounds of 'age' are a pair"),
        ({"bounds": {"age": (50, 40)}}, r"bounds of 'age' are empty"),
        ({"bounds": {"age": ("a", 40)}}, r"bounds of 'age' must be numbers"),
        ({"bounds": {"city": ["Rome"]}}, r"some of its levels"),
        ({"bounds": {"city": "Bonn"}}, r"a list of its levels"),
        ({"bounds": {"age": (1, 2)}, "fixed": ["age"]}, r"is fixed, so it can have no bounds"),
        ({"direction": {"age": "sideways"}}, r"direction says 'up' or 'down'"),
        ({"direction": {"city": "up"}}, r"which has levels"),
        ({"n": 0}, r"n must be a whole number"),
    ],
)
def test_constraints_that_make_no_sense_are_named(shop, asked, message):
    frame, model = shop
    with pytest.raises(ValueError, match=message):
        model.counterfactual(frame[:2], "yes", **asked)
