"""The toy data sets follow the formulas they document."""

import numpy as np
import pandas as pd
import pytest

from diglm.data.table.encoder import TableEncoder
from diglm.data.toy import mixed_table, toy_regression, two_moons


def test_moons_without_noise_lie_on_their_circles():
    x, y = two_moons(500, noise=0.0, seed=1)
    assert x.shape == (500, 2) and set(y.tolist()) == {0, 1}
    centre = np.where(y[:, None] == 0, [0.0, 0.0], [1.0, 0.5])
    np.testing.assert_allclose(np.linalg.norm(x - centre, axis=1), 1.0)
    assert (x[y == 0, 1] >= 0).all() and (x[y == 1, 1] <= 0.5).all()


def test_moons_noise_has_the_asked_deviation():
    clean, _ = two_moons(20_000, noise=0.0)
    noisy, _ = two_moons(20_000, noise=0.3)
    assert np.std(noisy - clean) == pytest.approx(0.3, rel=0.02)


def test_regression_noise_depends_on_the_component():
    x, y = toy_regression(30_000, seed=0)
    noise = y - x[:, 0] ** 3
    middle = np.abs(x[:, 0]) < 2
    assert middle.mean() == pytest.approx(1 / 3, abs=0.02)
    assert noise[middle].std() == pytest.approx(20, rel=0.05)
    assert noise[~middle].std() == pytest.approx(3, rel=0.05)
    assert x[middle].std() == pytest.approx(0.6, rel=0.05)
    assert x[x > 2].std() == pytest.approx(0.4, rel=0.05)


def test_mixed_table_has_every_kind_of_column():
    table = mixed_table(800)
    encoder = TableEncoder.fit(pd.DataFrame(table.x), table.label)
    kinds = {column.name: column.kind for column in encoder.columns}
    assert kinds == {
        "income": "continuous",
        "return": "continuous",
        "visits": "lattice",
        "rating": "lattice",
        "city": "categorical",
        "member": "categorical",
    }
    assert [column.name for column in encoder.indicators] == ["income"]
    assert None in encoder.columns[4].categories


def test_mixed_targets_depend_on_values_and_on_gaps():
    table = mixed_table(5000)
    for target in (table.label, table.response):
        assert np.corrcoef(table.x["visits"], target)[0, 1] > 0.2
        assert np.corrcoef(table.x["member"], target)[0, 1] > 0.1
    # Income is missing where it is high, which alone would raise the response.
    gap = np.isnan(table.x["income"])
    assert 0.1 < gap.mean() < 0.4
    known = table.x["income"][~gap]
    high = table.response[~gap][known > np.quantile(known, 0.8)]
    assert table.response[gap].mean() < high.mean() - 1


@pytest.mark.parametrize("make", [two_moons, toy_regression, mixed_table])
def test_seeds_decide_and_empty_data_is_refused(make):
    first, again, other = make(50, seed=3), make(50, seed=3), make(50, seed=4)
    np.testing.assert_array_equal(first[-1], again[-1])
    values = [t.x["return"] if hasattr(t, "x") else t[0] for t in (first, other)]
    assert not np.array_equal(*values)
    with pytest.raises(ValueError, match="n >= 1"):
        make(0)
