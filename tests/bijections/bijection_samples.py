"""The dictionary of constructors that every bijection of vectors is tested from."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from diglm import bijections as bij
from diglm.networks import MLP
from diglm.types import generator, partition, split_key

DIM = 5
PRECISE = dict(tolerance=1e-11)
ESTIMATING = dict(exact_up_to=0, n_probes=24)


def affine(dim, *, key, **settings):
    n_out = bij.AffineCoupling.n_parameters(dim)
    return bij.AffineCoupling(dim, MLP(dim // 2, n_out, 16, 2, key=key, **settings))


def spline(dim, *, key, **settings):
    n_out = bij.SplineCoupling.n_parameters(dim, 6)
    return bij.SplineCoupling(dim, MLP(dim // 2, n_out, 16, 2, key=key, **settings), n_bins=6)


def mixed_block(key):
    key_linear, key_coupling = split_key(key, 2)
    return bij.Chain([bij.LULinear(DIM, key=key_linear), spline(DIM, key=key_coupling)])


def affine_block(key):
    return bij.Chain([bij.ActNorm(6), affine(6, key=key), bij.Exchange(6)])


def spline_block(key):
    return bij.Chain([spline(6, key=key), bij.Exchange(6)])


def marginal():
    rng = np.random.default_rng(0)
    columns = [
        rng.normal(size=400),
        rng.lognormal(size=400) - 1.0,
        rng.uniform(-1.5, 1.5, size=400),
        rng.standard_t(2, size=400),
        np.round(rng.normal(size=400), 1),
    ]
    return bij.MarginalMap.fit(np.stack(columns, axis=1))


def started_batch_norm(key):
    xs = 3.0 * jax.random.normal(key, (50, DIM)) + 1.0
    return bij.BatchNorm(DIM).forward_batch(xs, start=True)[2]


CONSTRUCTORS = {
    "identity": lambda key: bij.Identity(DIM),
    "affine": lambda key: bij.Affine(jnp.zeros(DIM), jnp.zeros(DIM)),
    "standardise": lambda key: bij.Standardise(np.arange(DIM), 1.0 + np.arange(DIM)),
    "logit": lambda key: bij.Logit(DIM),
    "sigmoid": lambda key: bij.Sigmoid(DIM),
    "permute": lambda key: bij.Permute([3, 0, 4, 1, 2]),
    "random_permutation": lambda key: bij.random_permutation(DIM, key=key),
    "reverse": lambda key: bij.Reverse(DIM),
    "exchange": lambda key: bij.Exchange(DIM),
    "lu": lambda key: bij.LULinear(DIM, key=key),
    "lu_identity": lambda key: bij.LULinear.identity(DIM),
    "lu_permutation": lambda key: bij.LULinear.permutation(DIM, key=key),
    "actnorm": lambda key: bij.ActNorm(DIM),
    "batch_norm": started_batch_norm,
    "affine_coupling": lambda key: affine(DIM, key=key),
    "affine_coupling_batch_norm": lambda key: affine(DIM, batch_norm=True, key=key),
    "spline_coupling": lambda key: spline(DIM, key=key),
    "spline": lambda key: bij.Spline(DIM, 7, 3.0),
    "planar": lambda key: bij.Planar(DIM, key=key),
    "planar_1d": lambda key: bij.Planar(1, key=key),
    "marginal": lambda key: marginal(),
    "neural_ode": lambda key: bij.NeuralODE(DIM, 8, 1, **PRECISE, solver="Dopri8", key=key),
    "residual": lambda key: bij.InvertibleResidual(DIM, 8, 2, **PRECISE, key=key),
    "residual_estimated": lambda key: bij.Scan(
        lambda k: bij.InvertibleResidual(DIM, 8, 1, **PRECISE, **ESTIMATING, key=k), 2, key=key
    ),
    "inverted": lambda key: bij.Inverted(bij.Planar(DIM, key=key)),
    "scan": lambda key: bij.Scan(mixed_block, 3, key=key),
    "scan_permute": lambda key: bij.Scan(lambda k: bij.random_permutation(DIM, key=k), 3, key=key),
    "chain": lambda key: bij.Chain([marginal(), mixed_block(key), bij.Exchange(DIM)]),
}
UNIT_INTERVAL = {"logit"}
ESTIMATED = {"residual_estimated"}
FOLLOWS_BATCH = {"batch_norm", "affine_coupling_batch_norm"}


def perturb(bijection, key, size=0.4):
    """The bijection with noise on everything that trains: far from wherever it started."""
    trainable, fixed = partition(bijection)
    rng = generator(key)

    def noisy(leaf):
        noise = rng.normal(size=leaf.shape) / np.sqrt(max((*leaf.shape[-1:], 1)))
        return jnp.asarray(np.asarray(leaf) + size * noise)

    return eqx.combine(jax.tree.map(noisy, trainable), fixed)


def rows(name, n=8):
    shape = (n, 1 if name == "planar_1d" else DIM)
    rng = np.random.default_rng(3)
    inside = rng.uniform(size=shape) if name in UNIT_INTERVAL else 2 * rng.normal(size=shape)
    return jnp.asarray(inside)


forward = eqx.filter_jit(lambda bijection, xs: jax.vmap(bijection.forward_and_log_det)(xs))
inverse = eqx.filter_jit(lambda bijection, zs: jax.vmap(bijection.inverse)(zs))
forward_batch = eqx.filter_jit(
    lambda bijection, xs, **settings: bijection.forward_batch(xs, **settings)
)
