"""Rows of groups, for the tests of heads with random effects."""

import numpy as np


def grouped(n_groups=12, size=10, seed=0, slope=1.0):
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_groups), size)
    x = rng.normal(3.0, 2.0, len(codes))
    effects = rng.multivariate_normal([0, 0], [[4.0, 0.5], [0.5, slope**2 / 4]], n_groups)
    y = 10 + 2 * x + effects[codes, 0] + effects[codes, 1] * x + rng.normal(size=len(codes))
    return x, codes, y
