"""The report of a model: whole, self-contained, and right in its numbers."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pd = pytest.importorskip("pandas")

from test_report import check_self_contained  # noqa: E402

from diglm import HybridClassifier, HybridDensity, HybridRegressor, load  # noqa: E402
from diglm.report import measure, worded  # noqa: E402
from diglm.report.columns import cell, distance, missing  # noqa: E402
from diglm.report.measures import calibration_error, membership  # noqa: E402

TINY = {"flow": "linear", "n_epochs": 2, "reject": 0.05, "random_state": 0, "verbose": False}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    n = 200
    frame = pd.DataFrame(
        {
            "size": rng.normal(3, 1, n).round(2),
            "count <b>": rng.integers(0, 9, n),
            "place": rng.choice(["here", "there"], n),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 90, n), "D"),
        }
    )
    frame.loc[:9, "size"] = np.nan
    kind = np.where(frame["count <b>"] + rng.normal(0, 1, n) > 4, "many", "few")
    return frame, kind


@pytest.fixture(scope="module")
def classifier(rows):
    X, y = rows
    return HybridClassifier(**TINY).fit(X[:150], y[:150])


@pytest.fixture(scope="module")
def page(classifier, rows, tmp_path_factory):
    X, y = rows
    path = tmp_path_factory.mktemp("report") / "report.html"
    truth = y[150:].astype(object)
    truth[:2] = None
    truth[2] = "unheard of"
    classifier.report(path, X[150:], truth, against=X[:50], title="A <title>", command="diglm x")
    return path.read_text()


def test_the_page_needs_nothing_else(page):
    check_self_contained(page)
    assert "A &lt;title&gt;" in page and "count &lt;b&gt;" in page and "<b>" not in page


@pytest.mark.parametrize(
    "heading",
    [
        "In short",
        "The data",
        "Is it right, and does it know?",
        "How strange are the rows?",
        "What refusing buys",
        "The worst answers",
        "The strangest rows",
        "What it imagines",
        "What would have to change?",
        "Have the inputs moved?",
        "How training went",
        "Model card",
    ],
)
def test_every_section_is_there(page, heading):
    assert f"<h2>{heading}</h2>" in page


def test_rows_come_with_reasons_and_commands_with_the_card(page):
    assert "because of" in page and " nats)" in page and "<pre>diglm x</pre>" in page


def test_numbers_are_those_of_the_model(classifier, rows, page):
    X, y = rows
    found = measure(classifier.predictor_, X[150:], y[150:])
    assert found["accuracy"] == pytest.approx(classifier.score(X[150:], y[150:]))
    log_py = classifier.log_joint(X[150:], y[150:]) - classifier.score_samples(X[150:])
    assert found["nll"] == pytest.approx(-log_py.mean())
    assert found["refused"] == pytest.approx(classifier.rejects(X[150:]).mean())
    assert worded({"accuracy": 0.5})["accuracy"] == "50.0%"


def test_numbers_of_a_regressor_cover_what_they_say(rows, tmp_path):
    X, _ = rows
    y = X["count <b>"].to_numpy() * 2.0 + np.random.default_rng(1).normal(size=len(X))
    model = HybridRegressor(head="gaussian", **TINY).fit(X[["size", "place"]][:150], y[:150])
    found = measure(model.predictor_, X[["size", "place"]], y)
    low, high = model.predict_interval(X[["size", "place"]], 0.8).T
    assert found["coverage_80"] == pytest.approx(np.mean((y >= low) & (y <= high)))
    assert found["r2"] == pytest.approx(model.score(X[["size", "place"]], y))
    text = model.report(tmp_path / "r.html", X[["size", "place"]][150:], y[150:]).read_text()
    check_self_contained(text)
    assert "truth inside" in text and "Have the inputs moved?" not in text


def test_a_density_has_a_report_without_a_target(rows, tmp_path):
    X = rows[0][["size", "count <b>"]].to_numpy(float)
    model = HybridDensity(**TINY).fit(X[:150])
    text = model.report(tmp_path / "r.html", X[150:]).read_text()
    check_self_contained(text)
    assert "Is it right" not in text and "What it imagines" in text
    assert model.describe()["kind"] == "HybridDensity"


@pytest.mark.slow
def test_images_are_shown_as_images(tmp_path):
    digits = np.load("tests/data/mnist_digits.npz")
    model = load("mnist")
    X, y = (digits[name][:24] for name in ("x", "y"))
    text = model.report(tmp_path / "r.html", X.reshape(-1, 28, 28, 1), y).read_text()
    check_self_contained(text)
    assert "28 by 28 pixels, grey" in text


def test_what_a_model_is_survives_its_file(classifier, tmp_path):
    classifier.card_ |= {"target": "kind", "rows": 150}
    classifier.save(tmp_path / "m.diglm")
    again = load(tmp_path / "m.diglm")
    assert again.card_ == {"target": "kind", "rows": 150}
    assert again.describe() == classifier.describe()


def test_calibration_error_is_nothing_where_confidence_is_the_rate():
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.5, 1, 20_000)
    assert calibration_error(sure, rng.random(20_000) < sure) < 0.02
    assert calibration_error(np.full(100, 0.9), np.zeros(100)) == pytest.approx(0.9)


def test_classes_are_compared_as_what_they_are():
    assert membership(np.array([0, 1]), np.array([1.0, 0.0, 2.0])).tolist() == [
        [False, True],
        [True, False],
        [False, False],
    ]
    assert membership(np.array(["a", "b"]), np.array(["b"], object)).tolist() == [[False, True]]


def test_how_far_columns_moved():
    values = np.arange(100.0)
    assert distance(values, values) == 0 and distance(values, values + 1000) == 1
    words = np.array(["a", "b"] * 10, object)
    assert distance(words, np.array(["a", "c"] * 10, object)) == pytest.approx(0.5)
    assert distance(words, np.array(["a", None] * 10, object)) == pytest.approx(0.5)
    assert missing(np.array([1.0, np.nan])).tolist() == [False, True]
    assert cell(None) == "" and cell(0.1 + 0.2) == "0.3"
