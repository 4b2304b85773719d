"""Tiny models, and a service of them that runs in a thread and is asked over the loopback."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra diglm[serve] is not installed")
pd = pytest.importorskip("pandas")

from service_in_thread import Running  # noqa: E402

from diglm import HybridClassifier, HybridDensity, HybridRegressor  # noqa: E402

FOLDER = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(FOLDER))  # malformed bodies are kept beside the load test
collect_ignore = [] if FOLDER.is_dir() else ["test_bad_requests.py"]  # archives hold tests alone

TINY = dict(flow="linear", n_epochs=3, reject=0.05, random_state=0, verbose=False)


def flats(n: int, seed: int) -> "pd.DataFrame":
    """Numbers with gaps, whole numbers, dates, durations and text."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "area": rng.gamma(6, 15, n),
            "rooms": rng.integers(1, 7, n),
            "built": pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 9999, n), "D"),
            "quarter": rng.choice(["north", "south", "harbour"], n),
            "notice": pd.to_timedelta(rng.integers(1, 90, n), "D"),
        }
    )
    frame.loc[rng.random(n) < 0.2, "area"] = np.nan
    return frame


@pytest.fixture(scope="session", autouse=True)
def short_searches():
    """Tests of their own say how well is searched; here it only has to be served."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("diglm.predictor.search.GENERATIONS", 3)
        patch.setattr("diglm.predictor.search.POLISH", 2)
        yield


@pytest.fixture(scope="session")
def table():
    """Rows that no model was fitted to."""
    return flats(40, 1)


@pytest.fixture(scope="session")
def classifier():
    X = flats(300, 0)
    y = np.where(X.rooms + X.area.fillna(90) / 40 > 6, "large", "small")
    return HybridClassifier(**TINY).fit(X, y)


@pytest.fixture(scope="session")
def regressor():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    return HybridRegressor(head="gaussian", **TINY).fit(X, X[:, 0] + 0.1 * rng.normal(size=300))


@pytest.fixture(scope="session")
def density():
    return HybridDensity(**TINY).fit(np.random.default_rng(0).normal(size=(300, 2)))


@pytest.fixture(scope="session")
def files(tmp_path_factory, classifier, regressor, density):
    """The models as files, by name."""
    folder = tmp_path_factory.mktemp("models")
    models = {"flats": classifier, "line": regressor, "cloud": density}
    for name, model in models.items():
        model.save(folder / f"{name}.diglm")
    return {name: folder / f"{name}.diglm" for name in models}


@pytest.fixture(scope="session")
def service(files):
    """All models behind one service."""
    with Running(files) as running:
        yield running
