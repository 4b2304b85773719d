"""Heads: from features z to a distribution of the target y."""

from collections.abc import Callable
from typing import Any

from diglm.heads.base import (
    AbstractBayesianHead,
    AbstractDiscreteFamily,
    AbstractFamily,
    AbstractHead,
    AbstractResponse,
)
from diglm.heads.bayesian.averages import (
    AverageBernoulli,
    AverageCategorical,
    AverageGaussian,
    AveragePoisson,
    Gaussians,
)
from diglm.heads.bayesian.conjugate import ConjugateHead
from diglm.heads.bayesian.variational import VariationalHead
from diglm.heads.families.categorical import (
    BernoulliFamily,
    BernoulliHead,
    CategoricalFamily,
    CategoricalHead,
)
from diglm.heads.families.counts import (
    NegativeBinomialFamily,
    NegativeBinomialHead,
    PoissonFamily,
    PoissonHead,
)
from diglm.heads.families.gaussian import (
    GaussianFamily,
    GaussianHead,
    HeteroscedasticFamily,
    HeteroscedasticHead,
    StudentTFamily,
    StudentTHead,
)
from diglm.heads.families.mixture import GaussianMixture, MixtureFamily, MixtureHead
from diglm.heads.families.positive import GammaFamily, GammaHead
from diglm.heads.glm import GLMHead
from diglm.heads.links import LINKS, Link, get_link
from diglm.heads.newton import fit_head
from diglm.heads.responses import (
    Bernoulli,
    Categorical,
    Gamma,
    Gaussian,
    NegativeBinomial,
    Poisson,
    StudentT,
)

HEADS: dict[str, Callable[..., GLMHead]] = {
    "gaussian": GaussianHead,
    "heteroscedastic": HeteroscedasticHead,
    "student_t": StudentTHead,
    "mixture": MixtureHead,
    "bernoulli": BernoulliHead,
    "categorical": CategoricalHead,
    "poisson": PoissonHead,
    "negative_binomial": NegativeBinomialHead,
    "gamma": GammaHead,
}


def make_head(name: str, dim: int, **options: Any) -> GLMHead:
    """The GLM head of that name for `dim` features; options go to its constructor."""
    if name not in HEADS:
        raise ValueError(f"Expected a head among {sorted(HEADS)}; got {name!r}.")
    return HEADS[name](dim, **options)


__all__ = [
    "HEADS",
    "LINKS",
    "AbstractBayesianHead",
    "AbstractDiscreteFamily",
    "AbstractFamily",
    "AbstractHead",
    "AbstractResponse",
    "AverageBernoulli",
    "AverageCategorical",
    "AverageGaussian",
    "AveragePoisson",
    "Bernoulli",
    "BernoulliFamily",
    "BernoulliHead",
    "Categorical",
    "CategoricalFamily",
    "CategoricalHead",
    "ConjugateHead",
    "GLMHead",
    "Gamma",
    "GammaFamily",
    "GammaHead",
    "Gaussian",
    "GaussianFamily",
    "GaussianHead",
    "GaussianMixture",
    "Gaussians",
    "HeteroscedasticFamily",
    "HeteroscedasticHead",
    "Link",
    "MixtureFamily",
    "MixtureHead",
    "NegativeBinomial",
    "NegativeBinomialFamily",
    "NegativeBinomialHead",
    "Poisson",
    "PoissonFamily",
    "PoissonHead",
    "StudentT",
    "StudentTFamily",
    "StudentTHead",
    "VariationalHead",
    "fit_head",
    "get_link",
    "make_head",
]
