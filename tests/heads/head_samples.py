"""What the tests of heads share: a constructor of each GLM head, targets for it, responses."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from diglm import heads

DIM = 3

# Every GLM head, by its family. A new one joins here and meets all the tests.
GLM_HEADS = {
    "gaussian": heads.GaussianHead,
    "heteroscedastic": heads.HeteroscedasticHead,
    "student_t": heads.StudentTHead,
    "mixture": heads.MixtureHead,
    "bernoulli": heads.BernoulliHead,
    "categorical": lambda dim, **options: heads.CategoricalHead(dim, 3, **options),
    "poisson": heads.PoissonHead,
    "negative_binomial": heads.NegativeBinomialHead,
    "gamma": heads.GammaHead,
    "hurdle": heads.HurdleHead,
    "zero_inflated": heads.ZeroInflatedHead,
}
NAMES = sorted(GLM_HEADS)
DISCRETE = ["bernoulli", "poisson", "negative_binomial"]
REAL = ["gaussian", "student_t"]


def build(name, dim=DIM, **options):
    return GLM_HEADS[name](dim, **options)


def data(name, rows=300, dim=DIM, seed=0):
    """Features and targets drawn from the family itself."""
    rng = np.random.default_rng(seed)
    zs = rng.normal(size=(rows, dim))
    eta = 0.4 + zs @ np.array([0.6, -0.4, 0.2] + [0.0] * (dim - 3))
    targets = {
        "gaussian": lambda: 5 + 3 * eta + rng.normal(size=rows),
        "heteroscedastic": lambda: eta + rng.normal(size=rows) * np.exp(0.4 * zs[:, 1]),
        "student_t": lambda: eta + rng.standard_t(5, size=rows),
        "mixture": lambda: eta + rng.gamma(1.0, np.exp(0.3 * zs[:, 1])),
        "bernoulli": lambda: (rng.logistic(size=rows) < eta).astype(int),
        "categorical": lambda: np.argmax(
            rng.gumbel(size=(rows, 3)) + zs @ rng.normal(size=(dim, 3)), axis=1
        ),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "negative_binomial": lambda: rng.poisson(np.exp(eta) * rng.gamma(2, 0.5, rows)) * 1.0,
        "gamma": lambda: rng.gamma(3, np.exp(eta) / 3),
        "hurdle": lambda: rng.gamma(3, np.exp(eta) / 3) * (rng.logistic(size=rows) > zs[:, 1]),
        "zero_inflated": lambda: (
            rng.poisson(2 * np.exp(eta) * rng.gamma(2, 0.5, rows))
            * (rng.logistic(size=rows) > zs[:, 1])
            * 1.0
        ),
    }
    return zs, targets[name]()


@eqx.filter_jit
def respond(head, zs):
    """Responses of a batch, compiled: op by op, most of the time would go into compiling."""
    return jax.vmap(head)(jnp.asarray(zs))


@eqx.filter_jit
def started(head, ys):
    """The head at its start, compiled for the same reason."""
    return head.start(ys)


def scalar(value):
    return jnp.asarray(value, dtype=float)


RESPONSES = {
    "gaussian": heads.Gaussian(scalar(1.0), scalar(2.0)),
    "student_t": heads.StudentT(scalar(6.0), scalar(1.0), scalar(2.0)),
    "bernoulli": heads.Bernoulli(scalar(0.7)),
    "categorical": heads.Categorical(jnp.array([0.0, 1.0, -1.0], dtype=float)),
    "poisson": heads.Poisson(scalar(1.3)),
    "poisson, large": heads.Poisson(scalar(20.0)),
    "negative_binomial": heads.NegativeBinomial(scalar(1.3), scalar(-0.5)),
    "gamma": heads.Gamma(scalar(0.4), scalar(0.8)),
    "hurdle": heads.ZeroInflated(scalar(-0.4), heads.Gamma(scalar(0.4), scalar(0.8))),
    "zero_inflated": heads.ZeroInflated(
        scalar(-0.4), heads.NegativeBinomial(scalar(1.3), scalar(-0.5))
    ),
}
