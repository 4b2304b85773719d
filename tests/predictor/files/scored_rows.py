"""Rows on disk, and what a model says of them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N_ROWS, GROUP_ROWS = 3000, 700
QUICK = {"n_epochs": 1, "n_blocks": 2, "width": 8, "random_state": 0, "verbose": False}
FEATURES = ["length", "count", "colour"]


def require_answers(out: Path, expected: pd.DataFrame, kept: pd.DataFrame | None = None):
    """The file holds the row numbers, what was kept, and the very answers, in order."""
    found = pq.read_table(out).to_pandas()
    rows = pd.DataFrame({"row": np.arange(len(expected))})
    parts = [rows, expected] if kept is None else [rows, kept, expected]
    pd.testing.assert_frame_equal(found, pd.concat(parts, axis=1), check_exact=True)
    assert pq.read_schema(out).field("row").type == pa.int64()
