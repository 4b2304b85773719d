"""Small tables, and models of them that many tests ask and none changes."""

import numpy as np
import pytest

from diglm import HybridClassifier, HybridRegressor
from diglm.data.toy import two_moons

TINY = dict(n_blocks=2, width=8, batch_size=64, reject=0.05, random_state=0, verbose=False)


@pytest.fixture(scope="session")
def moons():
    """Two columns, two classes."""
    return two_moons(600, 0.1, 0)


@pytest.fixture(scope="session")
def classifier(moons):
    """Couplings that know the moons well."""
    return HybridClassifier(n_epochs=40, **TINY).fit(*moons)


@pytest.fixture(scope="session")
def line():
    """Three columns of different sizes, and a number that is linear in them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)) * [1.0, 10.0, 0.1]
    return X, 5 + 2 * X[:, 0] - 0.3 * X[:, 1] + 0.2 * rng.normal(size=500)


@pytest.fixture(scope="session")
def regressor(line):
    """Couplings and a Gaussian head."""
    return HybridRegressor(head="gaussian", n_epochs=30, **TINY).fit(*line)
