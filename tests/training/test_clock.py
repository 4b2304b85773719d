"""Time that a fit may take: it stops in time, and its rates have fallen by then."""

import math
import time

import jax.numpy as jnp
import numpy as np
import pytest

from diglm import HybridRegressor, sweep
from diglm.training import clock as clocks
from diglm.training.clock import NO_LIMIT, Clock, Pace
from diglm.training.settings import Schedule, Settings

TINY = dict(flow="linear", head="gaussian", random_state=0, verbose=False, reject=None)


@pytest.fixture
def rows():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 2))
    return X, X[:, 0] + 0.1 * random.normal(size=200)


def test_without_a_limit_nothing_changes():
    schedule = Schedule.of(Settings(), 100)
    pace = Pace(10, 10, 1e9)
    assert NO_LIMIT.over(pace) is None
    assert NO_LIMIT.in_time(schedule, pace) is schedule
    assert Clock.of(None, 0.0) == NO_LIMIT


def test_a_stretch_that_would_end_too_late_is_not_begun(monkeypatch):
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: 100.0)
    clock = Clock.of(50.0, since=60.0)  # 45 seconds of training: until 105
    assert clock.over(Pace(0, 10, 4.9)) is None
    assert clock.over(Pace(0, 10, 5.1)) == "time"


def test_the_rate_has_fallen_when_time_is_over(monkeypatch):
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: 100.0)
    schedule = Schedule.of(Settings(), 1_000)
    planned = Clock(104.0).in_time(schedule, Pace(20, 10, 1.0))  # time for forty steps more
    assert float(planned.total_steps) == 60
    last = float(planned.rate_at(jnp.asarray(60.0)))
    assert math.isclose(last, float(schedule.rate * schedule.final_rate), rel_tol=1e-6)
    roomy = Clock(1e9).in_time(schedule, Pace(20, 10, 1.0))
    assert float(roomy.total_steps) == 1_000


@pytest.mark.parametrize("inference", ["minibatch", "exact"])
def test_a_fit_that_would_take_an_hour_takes_seconds(rows, inference):
    from diglm.heads import Bayesian

    head = Bayesian(inference=inference)
    settings = {**TINY, "head": head, "n_epochs": 10**6, "patience": 10**6, "max_time": 2.0}
    HybridRegressor(**{**settings, "n_epochs": 1}).fit(*rows)  # compiled
    started = time.perf_counter()
    model = HybridRegressor(**settings).fit(*rows)
    assert model.stopped_ == "time"
    assert time.perf_counter() - started < 10
    assert 1 < model.n_epochs_ < 10**6
    assert model.score(*rows) > 0.9


def test_a_sweep_stops_in_time_too(rows):
    settings = {**TINY, "n_epochs": 10**6, "patience": 10**6, "max_time": 1.0}
    found = sweep(HybridRegressor(**settings), *rows, generative_weight=[0.1, 1.0])
    assert all(model.stopped_ == "time" for model in found.models)


def test_a_kept_run_of_a_file_goes_on_from_where_time_was_over(rows, tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("orbax.checkpoint")
    X, y = rows
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y}), tmp_path / "rows.parquet")
    monkeypatch.setattr(Clock, "over", lambda self, pace: "time" if self.is_set else None)
    model = HybridRegressor(**{**TINY, "n_epochs": 5, "max_time": 60.0})
    for n_epochs in (1, 2, 3):
        model.fit_file(tmp_path / "rows.parquet", "y", checkpoint=tmp_path / "run")
        assert (model.stopped_, model.n_epochs_) == ("time", n_epochs)


@pytest.mark.parametrize("wrong", [0, -1.0, "soon", math.nan])
def test_a_wrong_limit_is_said(rows, wrong):
    with pytest.raises(ValueError, match="max_time"):
        HybridRegressor(**TINY, max_time=wrong).fit(*rows)
