"""The study of the paper's Figure 2, in small."""

import json

import numpy as np
import pytest

from diglm.data.toy import toy_regression
from diglm.experiments.toy_regression import Config, covered, run, train

SMALL = Config(n_steps=60, n_starts=1, n_tables=2, n_test=500)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_study_writes_its_numbers_and_its_figure(tmp_path):
    pytest.importorskip("matplotlib")
    metrics = run(SMALL, tmp_path / "toy.json", tmp_path / "toy.png")
    stored = json.loads((tmp_path / "toy.json").read_text())
    assert stored["metrics"]["hybrid"]["log_py"] == metrics["hybrid"]["log_py"]
    assert len(metrics["hybrid"]["coverage_90_of_tables"]) == 2
    low, high = metrics["range_of_x"]
    assert -6 < low < -4 and 4 < high < 6
    assert (tmp_path / "toy.png").stat().st_size > 10_000


def test_exact_steps_raise_the_joint_likelihood():
    x, y = toy_regression()
    short, longer = (
        train(Config(n_steps=n, n_starts=1, learning_rate=5e-2), x, y) for n in (1, 150)
    )
    gain = [m.log_evidence(x, y) + m.score_samples(x).sum() for m in (short, longer)]
    assert gain[1] > gain[0] + 20
    assert longer.posterior_.prior_precision == pytest.approx(1 / np.std(y) ** 2)
    assert 0.7 < covered(SMALL, longer) < 1.0
