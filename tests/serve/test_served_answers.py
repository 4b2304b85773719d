"""What the service says is what the model says, whatever form rows come in and with whom."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

ASSESSED = ["prediction", "probability", "log_px", "strangeness", "p_value", "rejected"]


def plain(value):
    """A cell of a frame as JSON has it."""
    if pd.isna(value):
        return None
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    if isinstance(value, pd.Timedelta):
        return value.total_seconds()
    return value.item() if isinstance(value, np.generic) else value


def records(frame):
    return [
        {name: plain(value) for name, value in row.items()}
        for row in frame.to_dict(orient="records")
    ]


def assert_equal(answers, expected):
    for name in expected:
        found, wanted = np.array(answers[name]), expected[name].to_numpy()
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=name)
        else:
            assert found.tolist() == wanted.tolist(), name


def test_every_form_of_rows_has_the_answers_of_the_model(service, classifier, table):
    expected = classifier.assess(table)
    rows = records(table)
    names = list(table)
    forms = [
        {"records": rows},
        {"columns": {name: [row[name] for row in rows] for name in names}},
        {"rows": [[row[name] for name in names] for row in rows]},
    ]
    for form in forms:
        status, found = service.post("/assess", {"model": "flats", **form})
        assert (status, found["model"], found["rows"]) == (200, "flats", len(table))
        assert list(found["answers"]) == ASSESSED
        assert_equal(found["answers"], expected)


def test_predictions_tell_every_class_and_intervals(service, classifier, regressor, table):
    _, found = service.post("/predict", {"model": "flats", "records": records(table)})
    probabilities = np.array(found["answers"]["probabilities"])
    np.testing.assert_allclose(probabilities, classifier.predict_proba(table), rtol=1e-12)
    assert found["answers"]["rejected"] == classifier.rejects(table).tolist()
    X = np.random.default_rng(3).normal(size=(5, 3))
    _, found = service.post("/predict", {"model": "line", "rows": X.tolist()})
    ends = np.array([found["answers"][name] for name in ("low", "high")]).T
    np.testing.assert_allclose(ends, regressor.predict_interval(X), rtol=1e-12)


def test_a_density_alone_is_asked_too(service, density):
    X = np.array([[0.0, 0.0], [50.0, 0.0]])
    _, found = service.post("/density", {"model": "cloud", "rows": X.tolist()})
    np.testing.assert_allclose(found["answers"]["log_px"], density.score_samples(X), rtol=1e-12)
    assert found["answers"]["rejected"] == [False, True]
    status, found = service.post(
        "/counterfactual", {"model": "cloud", "rows": [[0, 0]], "target": 1}
    )
    assert status == 422 and "rows alone" in found["error"]


def test_company_does_not_change_answers_and_bad_company_does_no_harm(service, classifier, table):
    rows, expected = records(table), classifier.assess(table)
    bad = {"model": "flats", "records": [{**rows[0], "area": "wide"}]}

    def ask(i):
        if i % 5 == 4:
            return service.post("/assess", bad)
        view = ("/assess", "/predict")[i % 2]
        return service.post(view, {"model": "flats", "records": rows[i % 40 : i % 40 + 2]})

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(80)))
    for i, (status, content) in enumerate(found):
        if i % 5 == 4:
            assert status == 422
            assert "'area' held numbers in fit, but now holds 'wide'" in content["error"]
        else:
            chosen = expected.iloc[i % 40 : i % 40 + 2]
            names = ASSESSED if i % 2 == 0 else ["prediction", "probability", "rejected"]
            assert status == 200
            assert_equal(content["answers"], chosen[names])
    together = service.service.metrics.registry.get_sample_value
    assert together("diglm_batch_requests_sum") > together("diglm_batch_requests_count")


def test_other_columns_are_ignored_if_asked(service, table):
    rows = [{**row, "id": i} for i, row in enumerate(records(table[:2]))]
    asked = {"model": "flats", "records": rows}
    status, found = service.post("/assess", asked)
    assert status == 422 and "['id']" in found["error"] and "ignore" in found["hint"]
    assert service.post("/assess", {**asked, "extra": "ignore"})[0] == 200


def test_samples_are_those_of_the_model(service, classifier):
    status, found = service.post("/sample", {"model": "flats", "n": 3, "seed": 5})
    expected = classifier.sample(4, random_state=np.random.RandomState(0))
    assert status == 200 and list(found["columns"]) == list(expected)
    again = service.post("/sample", {"model": "flats", "n": 3, "seed": 5})[1]
    assert again == found
    drawn = classifier.predictor_.sample(4, None, seed=5)[:3]
    assert found["columns"]["quarter"] == drawn["quarter"].tolist()
    assert found["columns"]["built"] == [plain(value) for value in drawn["built"]]
    status, found = service.post("/sample", {"model": "flats", "n": 2, "y": "medium"})
    assert status == 422 and "medium" in found["error"]


def test_draws_can_be_asked_about_again(service):
    _, drawn = service.post("/sample", {"model": "flats", "n": 8})
    status, found = service.post("/assess", {"model": "flats", "columns": drawn["columns"]})
    assert status == 200 and found["rows"] == 8


def test_counterfactuals_are_those_of_the_model(service, regressor):
    X = np.array([[0.1, 0.2, 0.3], [1.0, 0.0, 0.0]])
    body = {"model": "line", "rows": X.tolist(), "target": 1.5}
    status, found = service.post("/counterfactual", body)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = regressor.counterfactual(X, 1.5)
    assert status == 200
    np.testing.assert_allclose(np.transpose(list(found["columns"].values())), expected.x, rtol=1e-9)
    assert found["valid"] == expected.valid.tolist()
    kept = service.post("/counterfactual", {**body, "fixed": ["1"], "direction": {"0": "up"}})[1]
    assert kept["columns"]["1"] == [0.2, 0.0] and kept["columns"]["0"][0] >= 0.1
    assert service.post("/counterfactual", {**body, "fixed": ["7"]})[0] == 422
    assert service.post("/counterfactual", {**body, "target": 1e9})[0] == 422


def test_explanations_are_those_of_the_model(service, classifier, table):
    status, found = service.post("/explain", {"model": "flats", "records": records(table[:2])})
    expected = classifier.explain(table[:2])
    assert status == 200 and found["columns"] == list(table)
    for name in ("surprise", "strangeness", "prediction"):
        np.testing.assert_allclose(found[name], expected.parts[name], rtol=1e-9, atol=1e-12)


def test_drift_is_seen_where_there_is_some(service):
    rng = np.random.default_rng(0)
    usual, same = (rng.normal(size=(200, 2)).tolist() for _ in range(2))
    moved = (rng.normal(size=(200, 2)) + [2.0, 0.0]).tolist()
    asked = {"model": "cloud", "reference": {"rows": usual}}
    assert service.post("/drift", {**asked, "rows": same})[1]["verdict"] == "no evidence"
    status, found = service.post("/drift", {**asked, "rows": moved})
    assert status == 200 and found["verdict"] == "inputs moved"
    assert found["columns"][0]["name"] in (0, "0") and found["relation"] is None
    status, found = service.post("/drift", {"model": "cloud", "rows": moved})
    assert status == 422 and "reference" in found["error"]


def test_a_way_between_rows_has_its_ends(service):
    ends = [[0.0, 0.0], [1.0, -1.0]]
    status, found = service.post("/interpolate", {"model": "cloud", "rows": ends, "steps": 5})
    way = np.array(list(found["columns"].values())).T
    assert status == 200 and way.shape == (5, 2)
    np.testing.assert_allclose(way[[0, -1]], ends, atol=1e-6)
    assert service.post("/interpolate", {"model": "cloud", "rows": ends[:1]})[0] == 422


def test_models_say_what_they_take(service):
    assert [m["name"] for m in service.get("/models")[1]["models"]] == ["cloud", "flats", "line"]
    status, found = service.get("/models/flats")
    kinds = {column["name"]: column["type"] for column in found["columns"]}
    assert kinds == {
        "area": "number",
        "rooms": "number",
        "built": "date",
        "quarter": "category",
        "notice": "duration",
    }
    assert [column["missing"] for column in found["columns"]] == [True, False, False, False, False]
    assert found["target"]["classes"] == ["large", "small"]
    assert sum(found["strangeness"]["counts"]) == found["strangeness"]["rows"]
    assert found["counterfactual"] and found["explains"]


def test_the_first_model_answers_who_names_none(service, table):
    assert service.post("/assess", {"records": records(table[:1])})[1]["model"] == "flats"


@pytest.mark.parametrize("path", ["/assess", "/explain", "/counterfactual", "/sample"])
def test_unknown_models_are_not_found(service, path):
    for name in ("other", "../flats", "flats/../line", "", "x" * 1000):
        status, found = service.post(path, {"model": name, "rows": [[1]]})
        assert status == 404, name
        assert set(found) == {"error", "hint"} and len(found["error"]) < 1200
    assert service.post(path, {"model": ["flats"], "rows": [[1]]})[0] == 404
