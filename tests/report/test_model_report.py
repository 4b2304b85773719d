"""The report of a model: whole, self-contained, and right in its numbers."""

import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pd = pytest.importorskip("pandas")

from test_report import check_self_contained  # noqa: E402

from diglm import HybridClassifier, HybridDensity, HybridRegressor, load  # noqa: E402
from diglm.drawing import new_figure  # noqa: E402
from diglm.report import measure, worded  # noqa: E402
from diglm.report.columns import cell, distance, missing  # noqa: E402
from diglm.report.judging import refusing_section  # noqa: E402
from diglm.report.measures import calibration_error, membership  # noqa: E402
from diglm.report.odd_rows import strangest_section  # noqa: E402
from diglm.report.page import table  # noqa: E402
from diglm.report.reasons import _words  # noqa: E402
from diglm.report.strange import strangeness_histogram, strangeness_section  # noqa: E402
from diglm.report.subject import Subject  # noqa: E402
from diglm.report.views import ImageView  # noqa: E402

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
    named = {"title": "A <title>", "command": "diglm x", "note": "Of <May>."}
    classifier.report(path, X[150:], truth, against=X[:50], **named)
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


def test_a_page_says_what_its_threshold_rests_on(classifier, rows):
    X, _ = rows
    threshold = classifier.predictor_.refusal.threshold
    refusal = replace(classifier.predictor_.refusal, threshold=replace(threshold, rule="tail"))
    subject = Subject(replace(classifier.predictor_, refusal=refusal), X[:20], None)
    assert "Too few rows were held out" in strangeness_section(subject).reading


def test_rows_come_with_reasons_and_commands_with_the_card(page):
    assert "because of" in page and " nats)" in page and "<pre>diglm x</pre>" in page


def test_rows_are_called_what_their_owner_calls_them(page, classifier, rows):
    X, _ = rows  # a part of a frame keeps its index
    named = set(re.findall(r"<td>(\d+)</td><td>(?:few|many)", page))
    assert named and named <= {str(i) for i in range(150, 200)}
    subject = Subject(classifier.predictor_, X[:20], None, rows=[f"r{i}" for i in range(20)])
    assert re.findall(r"<td>r\d+</td>", strangest_section(subject).content)
    assert "Of &lt;May&gt;." in page


def test_only_what_somebody_chose_is_listed_as_chosen(page):
    chosen = page.partition("Parameters that are not the defaults")[2].partition("</table>")[0]
    assert re.findall(r"<tr><td>(\w+)</td>", chosen) == [
        "flow",
        "n_epochs",
        "random_state",
        "reject",
    ]


def test_columns_that_training_left_out_are_told(classifier, rows, tmp_path):
    classifier.card_ |= {"left out": {"key": "it looks like an identifier"}}
    text = classifier.report(tmp_path / "r.html", rows[0][150:]).read_text()
    classifier.card_.pop("left out")
    assert "<li>&#x27;key&#x27; was left out: it looks like an identifier.</li>" in text


def test_numbers_stand_right_and_words_left():
    text = table(("a", "b", "c"), [("1", "2.5%", "x"), ("2", "", "3")])
    assert '<td>1</td><td class="n">2.5%</td><td>x</td>' in text
    assert "<thead>" not in table(("", ""), [("a", "b")])
    assert 'class="wide"' in table("abcdefgh", ["abcdefgh"])


def test_what_columns_add_is_written_as_people_read_it():
    found = {"column": ["a", "b", "c"], "value": ["1", "", "3"], "expected": ["1", "2", "4"]}
    told = _words(found | {"prediction": [-160.4, 99.6, 12.25]}, strange=False)
    assert told == "a 1 (-160); b missing, not 2 (+100); c 3, not 4 (+12)"


def test_the_word_for_what_lies_beyond_stands_above_the_last_bar():
    _, (axes,) = new_figure(4, 3)
    rows = np.array([*np.linspace(0, 3, 96), 50, 60, 70, 80])
    strangeness_histogram(axes, {"familiar": np.linspace(0, 3, 100), "rows": rows}, 2.9)
    (word,) = (text for text in axes.texts if text.get_text() == "and beyond")
    assert word.xy[1] == max(stairs.get_data().values[-1] for stairs in axes.patches) >= 4


def test_no_error_at_all_is_said_rather_than_magnified(classifier, rows):
    X = rows[0][150:]
    section = refusing_section(Subject(classifier.predictor_, X, classifier.predict(X)))
    assert "No row was answered wrongly" in section.reading and section.content == ""


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


@pytest.mark.parametrize(("channels", "word"), [(1, "grey"), (3, "in colour")])
def test_images_are_shown_as_images(classifier, channels, word):
    images = np.random.default_rng(0).integers(0, 256, (20, 8, 6, channels), np.uint8)
    view = ImageView(Subject(classifier.predictor_, images, None))
    assert f"6 by 8 pixels, {word}" in view.data_section().reading
    facts = {"row": ["3", "4"], "truth": ["a", "b"], "refused": ["refused", ""]}
    for html in (
        view.shown(np.array([3, 4]), facts, None),
        view.changed(np.array([3, 4]), images[:2], ["row 3: a → b, would be answered"] * 2),
    ):
        check_self_contained(html)
        assert html.startswith('<img src="data:image/png')


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
    assert len(cell("long " * 40)) == 40 and cell(pd.Timestamp("2024-01-31")) == "2024-01-31"
    assert cell(None) == "" and cell(0.1 + 0.2) == "0.3"
