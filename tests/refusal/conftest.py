"""What one pass might know of rows, without a model."""

import jax.numpy as jnp
import numpy as np
import pytest

from diglm.heads import Categorical, Gaussian
from diglm.heads.nothing import Silence
from diglm.refusal import Known


def rows_known(n=200, *, seed=0, dim=4, classes=0, numbers=False, values=None, shift=0.0):
    """Normal latents around `shift`, with their true density and a head if asked."""
    n = n if values is None else len(values)
    u = np.random.default_rng(seed).normal(size=(n, dim)) + shift
    response = Silence(jnp.zeros(n))
    if classes:
        response = Categorical(jnp.asarray(3.0 * u[:, :classes]))
    if numbers:
        response = Gaussian(
            jnp.asarray(u[:, 0]), jnp.log(1.0 + jnp.sum(jnp.asarray(u) ** 2, axis=1))
        )
    log_px = -0.5 * np.sum(u**2, axis=1) - 0.5 * dim * np.log(2 * np.pi)
    values = u if values is None else values
    layout = "image" if values.ndim == 4 else "vector"
    return Known(u, log_px, response, np.zeros((n, 1), bool), u, values, layout)


def strokes(n, *, seed=0, width=3):
    """Images of one soft bar each, at any angle: (n, 12, 12, 1)."""
    rng = np.random.default_rng(seed)
    down, across = np.mgrid[:12, :12] - 5.5
    angles, places = rng.uniform(0, np.pi, n), rng.normal(0, 1.5, n)
    away = np.cos(angles)[:, None, None] * down + np.sin(angles)[:, None, None] * across
    bars = 255 * np.exp(-0.5 * ((away - places[:, None, None]) / (width / 2)) ** 2)
    return np.round(bars + rng.uniform(0, 20, bars.shape)).clip(0, 255).astype(np.uint8)[..., None]


@pytest.fixture(scope="session")
def known():
    return rows_known


@pytest.fixture(scope="session")
def images():
    return strokes
