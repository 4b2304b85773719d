"""The densities that estimates are judged by are what they say they are."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from densities import outside
from known_densities import DENSITIES, KINDS, NOISE

FLAT = {
    "banana": ((-5, 5), (-3, 25)),
    "three modes": ((-3, 8), (-3, 7)),
    "ring": ((-4, 4), (-4, 4)),
    "checkers": ((-0.5, 4.5), (-0.5, 4.5)),
}


@pytest.mark.parametrize("name", FLAT)
def test_a_density_of_the_plane_integrates_to_one(name):
    # Midpoints of 500 x 500 cells; no cell straddles a square of the board.
    middles = [low + (np.arange(500) + 0.5) * (high - low) / 500 for low, high in FLAT[name]]
    cell = np.prod([middle[1] - middle[0] for middle in middles])
    x = np.stack(np.meshgrid(*middles), axis=-1).reshape(-1, 2)
    np.testing.assert_allclose(np.exp(DENSITIES[name].log_px(x)).sum() * cell, 1, rtol=2e-3)


def test_the_skewed_density_integrates_to_one():
    # Midpoints of the logarithm of a, and of the logarithm of b less 0.3 a, which follows it.
    log_a, log_u = np.linspace(-14, 4, 1801), np.linspace(-3, 3, 301)
    a = np.exp(log_a)[:, None] * np.ones(301)
    b = np.exp(0.3 * a + log_u)
    density = np.exp(DENSITIES["skewed"].log_px(np.stack([a.ravel(), b.ravel()], axis=1)))
    total = np.sum(density.reshape(a.shape) * a * b) * 0.01 * 0.02
    np.testing.assert_allclose(total, 1, rtol=1e-4)


def test_the_mixed_density_sums_to_one():
    height = np.linspace(-8, 18, 521)
    kind, count, at = np.meshgrid(KINDS, np.arange(40), height, indexing="ij")
    x = pd.DataFrame({"kind": kind.ravel(), "count": count.ravel(), "height": at.ravel()})
    total = np.exp(DENSITIES["mixed kinds"].log_px(x)).sum() * (height[1] - height[0])
    np.testing.assert_allclose(total, 1, rtol=1e-6)


def test_what_stands_before_the_last_link_of_the_chain_is_its_integral():
    last = np.linspace(-8, 8, 4001)
    before = np.array([0.3, -0.2, 0.9, 0.1, 0.5])
    x = np.column_stack([np.tile(before, (len(last), 1)), last])
    found = np.exp(DENSITIES["chain of six"].log_px(x)).sum() * (last[1] - last[0])
    mean, sd = np.sin(2 * before[:-1]), 0.2 + 0.3 * np.abs(before[:-1])
    expected = stats.norm.pdf(before[0]) * np.prod(stats.norm.pdf(before[1:], mean, sd))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("name", DENSITIES)
def test_draws_come_from_the_density(name):
    # E[log p(x)] of draws equals that of rows weighted by their density: two halves agree.
    first, second = (DENSITIES[name].rows(20_000, np.random.default_rng(s)) for s in (0, 1))
    spread = max(np.std(first.log_px), 1e-9) * np.sqrt(2 / 20_000)
    assert np.all(np.isfinite(first.log_px))
    assert abs(np.mean(first.log_px) - np.mean(second.log_px)) < 5 * spread + 1e-9
    np.testing.assert_allclose(-np.mean(first.log_py), np.log(NOISE) + 1.4189, atol=0.03)


def test_the_entropy_of_draws_is_that_of_the_density():
    x = DENSITIES["ring"].rows(50_000, np.random.default_rng(0))
    # h = h(radius) + log 2 pi + E[log radius].
    radius = np.log(0.2) + 0.5 * np.log(2 * np.pi * np.e)
    np.testing.assert_allclose(
        -np.mean(x.log_px), radius + np.log(2 * np.pi) + np.log(2) - 0.005, atol=0.02
    )


def test_outside_counts_rows_and_measures_in_ranges():
    train = np.array([[0.0, 0.0], [2.0, 10.0]])
    drawn = np.array([[1.0, 5.0], [3.0, 5.0], [-1.0, 25.0], [2.0, 10.0]])
    assert outside(drawn, train) == (0.5, 1.5)
