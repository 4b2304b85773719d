"""Rows on disk and a model of them, for tests of files and of Ray."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scored_rows import FEATURES, GROUP_ROWS, N_ROWS, QUICK

from diglm import HybridRegressor


@pytest.fixture(scope="module")
def scoring():
    from diglm.predictor import scoring

    return scoring


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random = np.random.default_rng(0)
    length = random.normal(size=N_ROWS)
    return pd.DataFrame(
        {
            "id": [f"r{i}" for i in range(N_ROWS)],
            "colour": random.choice(["red", "green", "blue"], N_ROWS),
            "length": np.where(random.random(N_ROWS) < 0.05, np.nan, length),
            "count": random.poisson(3, N_ROWS),
            "target": length + random.normal(size=N_ROWS),
        }
    )


@pytest.fixture(scope="module")
def fitted(frame) -> HybridRegressor:
    return HybridRegressor("linear", **QUICK).fit(frame[FEATURES][:600], frame["target"][:600])


@pytest.fixture(scope="module")
def model(fitted):
    return fitted.predictor_


@pytest.fixture(scope="module")
def expected(fitted, frame) -> pd.DataFrame:
    return fitted.assess(frame[FEATURES])


@pytest.fixture
def table(frame, tmp_path) -> Path:
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path, row_group_size=GROUP_ROWS, index=False)
    return path
