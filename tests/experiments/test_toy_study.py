"""The study of the paper's Figure 2, in small."""

import json

import numpy as np
import pytest

from diglm.data.toy import toy_regression
from diglm.experiments.frame import Folders
from diglm.experiments.toy_regression import REPRODUCE, Config, covered, train

SMALL = Config(n_steps=60, n_starts=1, n_tables=2, n_test=500)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_study_writes_its_numbers_and_its_figure(tmp_path):
    pytest.importorskip("matplotlib")
    REPRODUCE.run(SMALL, Folders(tmp_path, tmp_path, tmp_path / "kept"), command="")
    metrics = json.loads((tmp_path / "toy_regression.json").read_text())["metrics"]
    assert {"hybrid", "shared_flow", "gaussian_process", "kernel_density"} <= set(metrics)
    assert len(metrics["hybrid"]["coverage_90_of_tables"]) == 2
    low, high = metrics["range_of_x"]
    assert -6 < low < -4 and 4 < high < 6
    assert (tmp_path / "figure_2.png").stat().st_size > 10_000


def test_exact_steps_raise_the_joint_likelihood():
    x, y = toy_regression()
    short, longer = (
        train(Config(n_steps=n, n_starts=1, learning_rate=5e-2), x, y, 0) for n in (1, 150)
    )
    gain = [m.log_evidence(x, y) + m.score_samples(x).sum() for m in (short, longer)]
    assert gain[1] > gain[0] + 20
    assert longer.posterior_.prior_precision == pytest.approx(1 / np.std(y) ** 2)
    assert 0.7 < covered(SMALL, longer) < 1.0


def test_a_density_of_its_own_lets_the_head_find_the_truth():
    """On a table that nothing was chosen by."""
    x, y = toy_regression(250, 300)
    config = Config(n_steps=150, n_starts=1, learning_rate=5e-2)
    new, _ = toy_regression(2_000, 301)
    own, shared = (train(config, x, y, n).predict(new) - new[:, 0] ** 3 for n in (3, 0))
    assert np.sqrt(np.mean(own**2)) < np.sqrt(np.mean(shared**2))
