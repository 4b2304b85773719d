"""Models of small tables that are quick to fit, for tests of what can be asked of any."""

import numpy as np
import pytest

from diglm import HybridClassifier, HybridRegressor
from diglm.data.toy import two_moons
from diglm.recipes import CouplingFlow

TINY = dict(batch_size=64, reject=0.05, random_state=0, verbose=False)


@pytest.fixture(scope="session")
def moons():
    """Two columns, two classes."""
    return two_moons(600, 0.1, 0)


@pytest.fixture(scope="session")
def classifier(moons):
    """Couplings of one network, trained a little."""
    flow = CouplingFlow(members=1)
    return HybridClassifier(flow, n_blocks=2, width=8, n_epochs=40, **TINY).fit(*moons)


@pytest.fixture(scope="session")
def line():
    """Three columns of different sizes, and a number that is linear in them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)) * [1.0, 10.0, 0.1]
    return X, 5 + 2 * X[:, 0] - 0.3 * X[:, 1] + 0.2 * rng.normal(size=500)


@pytest.fixture(scope="session")
def regressor(line):
    """A linear flow and a Gaussian head."""
    return HybridRegressor("linear", head="gaussian", n_epochs=5, **TINY).fit(*line)
