"""The flight-delay study: distributions and their scores, rows and splits, every baseline."""

import dataclasses
import hashlib
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from scipy.integrate import quad
from threadpoolctl import threadpool_limits

from diglm.data import downloads
from diglm.experiments import (
    flights,
    flights_baselines,
    flights_boosting,
    flights_ensemble,
    flights_gp,
    flights_protocol,
)
from diglm.experiments.flights_metrics import (
    Gaussian,
    GaussianMixture,
    StudentT,
    fit_student_t,
    scores,
)
from diglm.experiments.frame import Folders

Y = np.array([-3.0, 0.2, 9.0])
ROWS = np.array([0.5, 0.0, 2.0]), np.array([1.0, 0.3, 4.0])
PREDICTIVES = {
    "gaussian": Gaussian(*ROWS),
    "student_t": StudentT(*ROWS, df=2.5),
    "heavy_student_t": StudentT(*ROWS, df=1.3),
    "mixture": GaussianMixture(
        np.array([[0.0, 0.1, 8.0], [1.0, -2.0, -4.0]]), np.array([[1.0, 0.5, 2.0], [3.0, 0.2, 1.0]])
    ),
}


@pytest.fixture(params=PREDICTIVES)
def predictive(request):
    return PREDICTIVES[request.param]


def rows_repeated(predictive, row: int, n: int):
    """The distribution of one row, `n` times, to evaluate it at `n` places."""
    return dataclasses.replace(
        predictive,
        **{
            field.name: np.repeat(value[..., [row]], n, axis=-1)
            for field in dataclasses.fields(predictive)
            if isinstance(value := getattr(predictive, field.name), np.ndarray)
        },
    )


def test_densities_agree_with_distribution_functions(predictive):
    step = 1e-5
    slope = (predictive.cdf(Y + step) - predictive.cdf(Y - step)) / (2 * step)
    np.testing.assert_allclose(slope, np.exp(predictive.log_prob(Y)), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("q", [0.05, 0.5, 0.975])
def test_quantiles_invert_distribution_functions(predictive, q):
    np.testing.assert_allclose(predictive.cdf(predictive.quantile(q)), q, rtol=1e-9)


def test_crps_is_the_integral_that_defines_it(predictive):
    for row, y in enumerate(Y):
        one = rows_repeated(predictive, row, 1)

        def below(t, one=one):
            return float(one.cdf(np.array([t]))[0]) ** 2

        def above(t, one=one):
            return (1.0 - float(one.cdf(np.array([t]))[0])) ** 2

        expected = quad(below, -np.inf, y, limit=400)[0] + quad(above, y, np.inf, limit=400)[0]
        np.testing.assert_allclose(predictive.crps(Y)[row], expected, rtol=1e-4)


def test_student_t_agrees_with_scipy_and_has_no_crps_without_a_mean():
    location, scale = ROWS
    reference = {"df": 2.5, "loc": location, "scale": scale}
    ours = StudentT(location, scale, 2.5)
    np.testing.assert_allclose(ours.log_prob(Y), scipy.stats.t.logpdf(Y, **reference), rtol=1e-12)
    np.testing.assert_allclose(ours.quantile(0.9), scipy.stats.t.ppf(0.9, **reference), rtol=1e-9)
    assert np.all(np.isinf(StudentT(location, scale, 1.0).crps(Y)))


def test_a_mixture_of_equal_parts_is_its_part():
    mean, sd = ROWS
    mixture, part = GaussianMixture(np.stack([mean] * 3), np.stack([sd] * 3)), Gaussian(mean, sd)
    for method in ("log_prob", "cdf", "crps"):
        np.testing.assert_allclose(getattr(mixture, method)(Y), getattr(part, method)(Y))
    np.testing.assert_allclose(mixture.quantile(0.3), part.quantile(0.3))


def test_scores_of_a_true_gaussian_are_its_theory():
    rng = np.random.default_rng(0)
    mean, sd = rng.normal(size=40_000), np.exp(0.3 * rng.normal(size=40_000))
    y = mean + sd * rng.normal(size=40_000)
    found = scores(Gaussian(mean, sd), y, y)
    assert found["coverage_50"] == pytest.approx(0.5, abs=0.01)
    assert found["coverage_90"] == pytest.approx(0.9, abs=0.006)
    assert found["coverage_95"] == pytest.approx(0.95, abs=0.005)
    assert found["width_90"] == pytest.approx(2 * 1.644854 * sd.mean())
    assert found["nll"] == pytest.approx(
        0.5 * np.log(2 * np.pi * np.e) + np.log(sd).mean(), abs=0.02
    )
    assert found["crps"] == pytest.approx(sd.mean() / np.sqrt(np.pi), rel=0.02)
    assert found["rmse"] == pytest.approx(np.sqrt((sd**2).mean()), rel=0.02)


def test_wild_rows_are_those_a_range_beyond_the_training_range():
    y_train = np.array([-10.0, 30.0])  # a range of 40: means from -50 to 70 are not wild
    mean = np.array([-50.5, -49.5, 0.0, 69.5, 70.5])
    found = scores(Gaussian(mean, np.ones(5)), np.zeros(5), y_train)
    assert found["wild"] == 2
    assert found["largest_mean"] == 70.5


@pytest.mark.parametrize("shifted", [False, True])
def test_student_t_fit_is_the_most_likely(shifted):
    rng = np.random.default_rng(1)
    scales = np.exp(rng.normal(size=4000))
    shift = 0.7 if shifted else 0.0
    ratios = shift + 3.0 * rng.standard_t(2.5, size=4000)
    location, factor, df = fit_student_t(scales * ratios, scales, shifted=shifted)
    reference = scipy.stats.t.fit(ratios, **({} if shifted else {"floc": 0.0}))
    np.testing.assert_allclose((df, location, factor), reference, rtol=5e-3, atol=1e-3)


# Rows and splits


@pytest.fixture
def small_file(tmp_path, monkeypatch):
    """A file of 40 flights, two of them incomplete, known to the library by its checksum."""
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    rng = np.random.default_rng(0)
    columns = {name: rng.integers(1, 30, size=40).tolist() for name in flights_protocol.ATTRIBUTES}
    columns["DepTime"] = [100 * (i // 3) + i for i in range(40)]
    columns["PlaneAge"][3] = columns["PlaneAge"][20] = None
    columns["ArrDelay"] = list(range(40))
    path = tmp_path / "small.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(downloads, "FLIGHTS_2008", downloads.Source(path.name, digest, "flights"))
    monkeypatch.setattr(flights_protocol, "N_TEST", 8)
    monkeypatch.setattr(flights_protocol, "N_FIRST", 20)
    return path


def test_splits_are_complete_rows_in_order_of_time(small_file):
    complete = [i for i in range(40) if i not in (3, 20)]
    first = flights_protocol.load_split("700k", small_file.parent)
    assert first.y_train.tolist() == complete[:20]
    assert first.y_test.tolist() == complete[20:28]
    last = flights_protocol.load_split("all", small_file.parent)
    assert last.y_train.tolist() == complete[:30]
    assert last.y_test.tolist() == complete[30:]
    assert first.x_test.shape == (8, 8)
    departures = flights_protocol.ATTRIBUTES.index("DepTime")
    assert first.x_train[:, departures].tolist() == [60 * (i // 3) + i for i in complete[:20]]


def test_an_altered_file_is_refused(small_file):
    small_file.write_bytes(small_file.read_bytes() + b" ")
    with pytest.raises(ValueError, match="sha256"):
        downloads.flights(small_file.parent)


def test_unknown_split_and_baseline_say_what_is_known():
    with pytest.raises(ValueError, match="700k"):
        flights_protocol.load_split("half")
    with pytest.raises(ValueError, match="boosting"):
        flights_baselines.check_names(["forest"])


def test_clock_times_become_minutes():
    found = flights_protocol.clock_minutes(np.array([1.0, 59.0, 100.0, 1305.0, 2400.0]))
    assert found.tolist() == [1.0, 59.0, 60.0, 785.0, 1440.0]


def test_held_out_rows_are_a_tenth_and_no_others():
    learn, held = flights_protocol.hold_out(500, seed=1)
    assert len(held) == 50
    assert sorted([*learn, *held]) == list(range(500))


# Baselines


@pytest.fixture(scope="module")
def simulated():
    """500 rows to train on, in minutes: a strong signal, noise that grows, heavy tails."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(900, 8)) * 20.0 + 100.0
    u = (x - 100.0) / 20.0
    noise = 4.0 * np.exp(0.7 * u[:, 2]) * rng.standard_t(4.0, size=900)
    y = 10.0 + 30.0 * u[:, 0] - 20.0 * u[:, 1] + noise
    return downloads.Split(x[:500], y[:500], x[500:], y[500:])


SETTINGS = {
    "boosting": flights_boosting.Boosting(max_iter=40, max_leaf_nodes=8),
    "ngboost": flights_boosting.NaturalBoosting(n_trees=60, learning_rate=0.1, depth=3),
    "svgp": flights_gp.GaussianProcess(
        n_inducing=20, batch_size=64, n_steps=120, learning_rate=0.1
    ),
    "ensemble": flights_ensemble.Ensemble(
        n_members=3, width=16, batch_size=50, n_steps=600, learning_rate=1e-2
    ),
}
RESULTS = {
    "linear": ["linear", "linear-student-t"],
    "boosting": [
        "boosting",
        "boosting-variance",
        "boosting-student-t",
        "boosting-median-t",
    ],
    "ngboost": ["ngboost", "ngboost-student-t"],
    "svgp": ["svgp"],
    "ensemble": ["ensemble"],
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Boosters of a few hundred rows spend their time waiting for threads on a busy machine."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def boosted(simulated):
    return fit("boosting", simulated, SETTINGS["boosting"])


def fit(name, rows, settings=None):
    """The scores of a baseline's results, by name."""
    baseline = flights_baselines.BASELINES[name]
    if baseline.package is not None:
        pytest.importorskip(baseline.package)
    extra = () if settings is None else (settings,)
    fits = baseline.run(rows.x_train, rows.y_train, rows.x_test, 0, lambda line: None, *extra)
    return {each.name: scores(each.predictive, rows.y_test, rows.y_train) for each in fits}


@pytest.mark.parametrize(
    "name",
    [
        "linear",
        "boosting",
        "ensemble",
        # Slow to import and to start, whatever the number of rows.
        pytest.param("ngboost", marks=pytest.mark.slow),
        pytest.param("svgp", marks=pytest.mark.slow),
    ],
)
def test_baselines_beat_a_constant(name, simulated, boosted):
    worst = fit("constant", simulated)["constant"]
    found = boosted if name == "boosting" else fit(name, simulated, SETTINGS.get(name))
    assert list(found) == RESULTS[name]
    for metrics in found.values():
        assert all(np.isfinite(value) for value in metrics.values())
        assert metrics["nll"] < worst["nll"] - 0.4
        assert metrics["rmse"] < 0.7 * worst["rmse"]
        assert metrics["crps"] < 0.7 * worst["crps"]
        assert 0.75 < metrics["coverage_90"] <= 0.99
        assert metrics["wild"] == 0


def test_a_constant_student_t_is_the_better_constant_where_tails_are_heavy():
    y = 20.0 * np.random.default_rng(3).standard_t(1.5, size=3000)
    rows = downloads.Split(np.zeros((2000, 1)), y[:2000], np.zeros((1000, 1)), y[2000:])
    found = fit("constant", rows)
    assert found["constant-student-t"]["nll"] < found["constant"]["nll"] - 0.3


def test_a_variance_for_each_row_helps_where_the_noise_varies(boosted):
    for name in ("boosting-variance", "boosting-student-t"):
        assert boosted[name]["nll"] < boosted["boosting"]["nll"]


def test_natural_gradients_of_the_student_t_use_its_information():
    pytest.importorskip("ngboost")
    from ngboost.manifold import manifold
    from ngboost.scores import LogScore

    family = flights_boosting.student_t_family(5.0)
    n, scale = 200_000, 3.0
    y = 1.0 + scale * np.random.default_rng(4).standard_t(5.0, size=n)
    at = manifold(LogScore, family)(np.stack([np.full(n, 1.0), np.full(n, np.log(scale))]))
    slopes = at.d_score(y)
    np.testing.assert_allclose(slopes.T @ slopes / n, at.metric()[0], rtol=0.02, atol=2e-3)


def test_results_are_written_as_they_come(small_file, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DIGLM_DATA", str(small_file.parent))
    config = flights_baselines.Config(splits=("all",), names=("constant", "linear"), n_test=8)
    folders = Folders(tmp_path, tmp_path / "figures", tmp_path / "kept")
    paths = flights_baselines.REPRODUCE.run(config, folders, command="")
    assert len(list((tmp_path / "flights").iterdir())) == len(paths) == 4
    stored = json.loads((tmp_path / "flights" / "baseline-all-linear.json").read_text())
    assert stored["config"] == {"split": "all", "name": "linear", "n_test": 8}
    assert set(stored["metrics"]) >= {"rmse", "nll", "crps", "coverage_90", "width_90", "wild"}
    assert "linear-student-t" in capsys.readouterr().err


def test_a_missing_package_is_named_before_anything_is_trained(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ngboost", None)
    config = flights_baselines.Config(names=("constant", "ngboost"))
    folders = Folders(tmp_path, tmp_path, tmp_path)
    with pytest.raises(ImportError, match=r'ngboost.*pip install "diglm\[study\]"'):
        flights_baselines.REPRODUCE.run(config, folders, command="")
    assert not list(tmp_path.iterdir())


def test_the_last_training_and_the_first_test_rows_are_taken(monkeypatch):
    x = np.arange(20.0)[:, None]
    rows = downloads.Split(x[:12], x[:12, 0], x[12:], x[12:, 0])
    monkeypatch.setattr(flights_baselines, "load_split", lambda *_, **__: rows)
    config = flights_baselines.Config(n_train=3, n_test=2)
    few = flights_baselines.split_of(config, "all")
    assert few.y_train.tolist() == [9, 10, 11] and few.y_test.tolist() == [12, 13]
    every = flights_baselines.split_of(flights_baselines.Config(), "all")
    assert len(every.y_train) == 12 and len(every.y_test) == 8


def test_the_hybrid_runs_on_made_up_rows_and_is_drawn(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(1, 100, (600, 8)).astype(float)
    rows = downloads.Split(x[:500], x[:500, 0], x[500:], x[500:, 0])
    monkeypatch.setattr(flights, "load_split", lambda *_, **__: rows)
    tiny = replace(flights.RECIPES["paper"], n_blocks=1, width=4, batch_size=64)
    monkeypatch.setitem(flights.RECIPES, "ours", tiny)
    config = flights.Config(("ours",), ("all",), (), epochs=1, embedded=("flights",))
    folders = Folders(tmp_path, tmp_path / "figures", tmp_path / "kept")
    flights.REPRODUCE.run(config, folders, command="")
    stored = json.loads((tmp_path / "flights" / "hybrid-all-ours.json").read_text())
    assert stored["metrics"]["train_rows"] == 500 and np.isfinite(stored["metrics"]["nll"])
    assert stored["config"]["embedded"] == ["flights"] and stored["config"]["n_epochs"] == 1
    assert (tmp_path / "figures" / "figure_3.png").stat().st_size > 5_000
