"""The study of other flows: what it measures is what it says, and the page shows it."""

import numpy as np

from diglm.experiments import future_flows
from diglm.experiments.frame import Folders
from diglm.experiments.frame.page import Results
from diglm.experiments.frame.tables import future_table
from diglm.experiments.future_flows import METHODS, Config, digits, log_density_of_moons, moons
from diglm.recipes import LinearFlow

TINY = Config(100, 120, "yacht", 1, 1, 1, embedded=("uci",))


def test_the_density_of_the_moons_is_one_in_all_and_that_of_its_draws():
    step = 0.02
    across, up = np.meshgrid(np.arange(-2, 3, step), np.arange(-1.5, 2, step))
    grid = np.stack([across.ravel(), up.ravel()], axis=1)
    density = np.exp(log_density_of_moons(grid))
    assert np.isclose(density.sum() * step**2, 1.0, atol=1e-5)
    drawn = moons(Config(n_rows=2_000), 0).x_train
    means = density @ grid * step**2, density @ grid**2 * step**2
    np.testing.assert_allclose(drawn.mean(axis=0), means[0], atol=0.02)
    np.testing.assert_allclose((drawn**2).mean(axis=0), means[1], atol=0.04)


def test_digits_are_spread_within_their_values_and_never_shared():
    rows = digits(Config(), 0)
    assert rows.x_train.min() >= 0 and rows.x_train.max() < 17
    assert len(rows.x_train) == 1_400 and len(rows.x_train) + len(rows.x_test) == 1_797
    assert len(np.unique(np.concatenate([rows.x_train, rows.x_test]), axis=0)) == 1_797


def test_the_study_writes_what_the_page_shows(tmp_path, monkeypatch):
    names = ["linear", "couplings"]
    quick = {name: lambda: {"flow": LinearFlow(), "reject": 0.1} for name in names}
    assert {"couplings", "continuous", "residual"} <= set(METHODS)
    monkeypatch.setattr(future_flows, "METHODS", quick)
    folders = Folders(tmp_path, tmp_path, tmp_path / "kept", tmp_path / "page.md")
    paths = future_flows.REPRODUCE.run(TINY, folders, command="diglm reproduce future_flows")
    assert [path.stem for path in paths] == ["moons", "digits", "table"]
    results = Results("small", folders)
    for data, title in (("moons", "KL"), ("digits", "bits"), ("table", "RMSE")):
        told = results.of("future_flows")[f"future_flows/{data}"].metrics
        assert list(told) == names and all(len(v) == 1 for v in told["linear"].values())
        assert told["linear"]["log_px_error"] == [0.0] and told["linear"]["seconds"][0] > 0
        shown = future_table(results, data)
        assert title in shown and shown.count("\n") == 1 + len(names)
    moons_found = results.of("future_flows")["future_flows/moons"].metrics["linear"]
    assert moons_found["kl"][0] > 3 * moons_found["kl_error"][0] > 0  # a normal is not the moons
