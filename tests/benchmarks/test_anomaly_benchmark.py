"""The benchmark of anomalies: nobody trains on an anomaly, and ranks are over the same tables."""

import numpy as np
import pytest

import anomalies
from diglm.data.downloads import ADBENCH_TABLES, adbench


def test_no_anomaly_trains_and_every_row_is_used_once(monkeypatch):
    x, strange = np.arange(100.0)[:, None], np.arange(100) >= 90
    monkeypatch.setattr(anomalies, "adbench", lambda *_: (x, strange))
    train, test, odd = anomalies.rows_of("wine", 0, None)
    assert (len(train), len(test), odd.sum()) == (45, 55, 10)
    np.testing.assert_array_equal(np.sort(np.r_[train[:, 0], test[:, 0]]), x[:, 0])
    assert train.max() < 90
    again = anomalies.rows_of("wine", 1, None)[0]
    assert not np.array_equal(train, again)


def test_means_and_ranks_by_hand():
    found = {
        ("a", 0, "ours"): {"auroc": 0.9},
        ("a", 1, "ours"): {"auroc": 0.7},
        ("a", 0, "other"): {"auroc": 0.6},
        ("b", 0, "ours"): {"failed": "no"},
        ("b", 0, "other"): {"auroc": 0.8},
        ("c", 0, "other"): {"auroc": 1.0},  # ours has not met it: it counts for neither
    }
    metrics = anomalies.summary(found)
    np.testing.assert_allclose(metrics["mean_auroc"]["ours"], (0.8 + 0.5) / 2)
    np.testing.assert_allclose(metrics["mean_auroc"]["other"], 0.7)
    assert metrics["mean_rank"] == {"ours": 1.5, "other": 1.5}
    assert metrics["failed"] == ["b 0 ours: no"]


def test_a_missing_file_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert len(ADBENCH_TABLES) == 21
    with pytest.raises(FileNotFoundError, match=r"adbench_odd.npz .* DIGLM_DATA or --data-dir"):
        adbench("wine", tmp_path)
    with pytest.raises(ValueError, match="Unknown ADBench table 'nothing'"):
        adbench("nothing", tmp_path)
