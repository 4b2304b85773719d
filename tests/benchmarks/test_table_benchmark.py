"""The benchmark of tables: halves that results cannot move, scores that needles cannot buy."""

import json
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import table_scores as scores
from kept import Kept, diglm_source
from table_sets import SETS, halves

HALVES = halves(list(SETS.values()))


# ------------------------------------------------------------------ halves


def test_halves_are_balanced_in_kinds_and_sizes():
    counts = Counter((HALVES[name], table.kind, table.size) for name, table in SETS.items())
    assert abs(2 * sum(half == "judged" for half in HALVES.values()) - len(SETS)) <= 2
    for kind in ("classification", "regression"):
        for size in ("small", "middle", "large"):
            assert abs(counts["judged", kind, size] - counts["choosing", kind, size]) <= 1


def test_halves_do_not_depend_on_the_order_of_the_list():
    assert halves(list(SETS.values())[::-1]) == HALVES


def test_tables_that_were_looked_at_before_judge_nothing():
    seen = [name for name, table in SETS.items() if table.seen]
    assert len(seen) == 14
    assert {HALVES[name] for name in seen} == {"choosing"}


def test_halves_stay_what_they_were():
    judged = sorted(name for name, half in HALVES.items() if half == "judged")
    assert judged[:6] == ["Auto", "CPS1985", "Caravan", "Carseats", "College", "Credit"]
    assert len(judged) == 45


# ------------------------------------------------------------------ scores


@pytest.mark.parametrize(
    ("y", "step"),
    [
        ([0, 1, 5, 2], 1.0),
        ([0.5, 1.2, 3.0], 0.1),
        ([1.25, 3.5], 0.01),
        ([0.0, 400_000.0], 200.0),  # a thousandth of the deviation is more than the step of 1
        ([np.pi, np.e], (np.pi - np.e) / 2 / 1000),
    ],
)
def test_the_step_of_targets(y, step):
    np.testing.assert_allclose(scores.step_of(np.array(y, float)), step)


def test_smooth_densities_are_judged_by_their_density():
    y = np.array([-1.0, 0.0, 2.5])
    found = scores.normal(np.array([0.0, 0.5, 2.0]), 0.7)
    expected = stats.norm.logpdf(y, [0.0, 0.5, 2.0], 0.7)
    np.testing.assert_allclose(scores.log_density(found, y, 1e-3), expected, atol=1e-5)
    far = np.array([60.0, -60.0, 80.0])  # where differences of CDFs are zero
    expected = stats.norm.logpdf(far, [0.0, 0.5, 2.0], 0.7)
    np.testing.assert_allclose(scores.log_density(found, far, 1e-3), expected)


def test_counts_are_judged_by_their_probability():
    y, dist = np.array([0.0, 3.0]), stats.poisson([0.3, 2.0])
    found = scores.Numbers(dist.mean(), dist.cdf, dist.logpmf, dist.interval(0.9))
    np.testing.assert_allclose(scores.log_density(found, y, 1.0), dist.logpmf(y))


def test_a_needle_on_a_value_buys_no_more_than_the_step_allows():
    needle = scores.normal(np.zeros(4), 1e-9)
    assert needle.log_prob(np.zeros(4))[0] > 19
    np.testing.assert_allclose(scores.log_density(needle, np.zeros(4), 1.0), 0.0)


def test_scores_of_numbers_by_hand():
    found = scores.normal(np.array([0.0, 0.0]), 1.0)
    result = scores.score_numbers(found, np.array([1.0, 3.0]), 1e-3)
    np.testing.assert_allclose(result["rmse"], np.sqrt(5))
    np.testing.assert_allclose(result["nll"], 0.5 * np.log(2 * np.pi) + 2.5, atol=1e-5)
    assert result["coverage_90"] == 0.5


def test_scores_of_classes_by_hand():
    found = np.array([[0.8, 0.2], [1.0, 0.0]])
    result = scores.score_classes(found, np.array(["a", "b"]), np.array(["a", "b"]), 8)
    # The impossible class has 1 / (8 + 2), and the row sums to 1.1 before it is scaled.
    expected = -(np.log(0.8) + np.log(0.1 / 1.1)) / 2
    np.testing.assert_allclose(result["nll"], expected)
    assert result["error"] == 0.5


def test_scores_that_are_no_numbers_are_failures():
    with pytest.raises(ValueError, match="nan"):
        scores.score_classes(np.full((1, 2), np.nan), np.array([0, 1]), np.array([0]), 5)


def test_the_summary_by_hand():
    sizes = {"n_train": 80, "n_test": 60, "seconds": 1.0}
    one = {"nll": 1.0, "rmse": 2.0, "coverage_90": 0.9} | sizes
    two = {"nll": 0.5, "rmse": 3.0, "coverage_90": 0.7} | sizes
    results = {
        "a": {"ours": one, "linear": two},
        "b": {"ours": one | {"nll": 0.25}, "linear": two, "process": two | {"nll": 0.0}},
        "c": {"ours": {"failed": "no"}, "linear": two},
    }
    found = scores.summary(results, ["ours", "linear", "process"])
    ours = SimpleNamespace(**found["ours"])
    np.testing.assert_allclose(ours.mean_rank_nll, (2 + 1 + 2) / 3)
    np.testing.assert_allclose(ours.mean_rank_rmse, (1 + 1 + 2) / 3)
    assert ours.mean_rank_nll_where_all_ran == 2  # table b alone
    assert (ours.wins_nll, ours.wins_rmse, ours.failed_on) == (0, 2, ["c"])
    np.testing.assert_allclose(ours.mean_gap_to_linear, (0.5 - 0.25) / 2)
    assert (ours.worst_gap_to_linear_on, ours.behind_linear) == ("a", 1)
    assert (found["linear"]["worst_rmse_ratio"], ours.worst_rmse_ratio) == (1.5, 1.0)
    np.testing.assert_allclose(ours.mean_coverage_small, 0.9)
    assert found["linear"]["least_coverage"] == 0.7
    assert "mean_rank_nll" not in found["process"]


# ------------------------------------------------------------------ results that stay


def test_an_interrupted_run_goes_on(tmp_path):
    path, ran = tmp_path / "kept.jsonl", []

    def task(name):
        def run():
            ran.append(name)
            if name == "bad":
                raise ValueError("no such luck")
            return {"score": 1.0}

        return run

    tasks = {(name, 0): task(name) for name in ("one", "bad", "two")}
    assert Kept(path).run(tasks)["bad", 0] == {"failed": "ValueError: no such luck"}
    with path.open("a") as file:
        file.write('{"key": ["cut o')  # the run was killed here
    ran.clear()
    found = Kept(path)
    found.run(tasks | {("three", 0): task("three")})
    assert ran == ["bad", "three"]
    assert Kept(path).results["three", 0] == {"score": 1.0}
    assert all("commit" in json.loads(line) for line in path.read_text().split("\n")[1:2])


def test_results_of_diglm_are_kept_for_its_source():
    assert diglm_source() == diglm_source()
    assert len(diglm_source().split()[1]) == 12
