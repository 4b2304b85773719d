"""Heads: from features z to a distribution of the target y."""

from diglm.heads.auto import Auto
from diglm.heads.base import (
    AbstractBayesianHead,
    AbstractHead,
    AbstractResponse,
    Features,
    Settled,
)
from diglm.heads.bayesian.averages import (
    AverageBernoulli,
    AverageCategorical,
    AverageGaussian,
    AveragePoisson,
    Gaussians,
)
from diglm.heads.bayesian.choices import Bayesian, BayesianPoisson, Mixed, MixedPoisson
from diglm.heads.bayesian.conjugate import ConjugateHead
from diglm.heads.bayesian.mixed import MixedHead
from diglm.heads.bayesian.variational import VariationalHead
from diglm.heads.choices import GLM, AbstractHeadChoice, Softmax
from diglm.heads.discrete import Bernoulli, Categorical, NegativeBinomial, Poisson
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
from diglm.heads.families.zeros import (
    HurdleFamily,
    HurdleHead,
    ZeroInflatedFamily,
    ZeroInflatedHead,
)
from diglm.heads.family import AbstractFamily
from diglm.heads.glm import GLMHead
from diglm.heads.inflated import ZeroInflated
from diglm.heads.links import LINKS, Link, get_link
from diglm.heads.newton import fit_head
from diglm.heads.nothing import NoHead
from diglm.heads.pooled import Pooled, pool
from diglm.heads.registry import HEADS, head_choice, make_head
from diglm.heads.responses import Gamma, Gaussian, StudentT

__all__ = [
    "GLM",
    "HEADS",
    "LINKS",
    "AbstractBayesianHead",
    "AbstractFamily",
    "AbstractHead",
    "AbstractHeadChoice",
    "AbstractResponse",
    "Auto",
    "AverageBernoulli",
    "AverageCategorical",
    "AverageGaussian",
    "AveragePoisson",
    "Bayesian",
    "BayesianPoisson",
    "Bernoulli",
    "BernoulliFamily",
    "BernoulliHead",
    "Categorical",
    "CategoricalFamily",
    "CategoricalHead",
    "ConjugateHead",
    "Features",
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
    "HurdleFamily",
    "HurdleHead",
    "Link",
    "Mixed",
    "MixedHead",
    "MixedPoisson",
    "MixtureFamily",
    "MixtureHead",
    "NegativeBinomial",
    "NegativeBinomialFamily",
    "NegativeBinomialHead",
    "NoHead",
    "Poisson",
    "PoissonFamily",
    "PoissonHead",
    "Pooled",
    "Settled",
    "Softmax",
    "StudentT",
    "StudentTFamily",
    "StudentTHead",
    "VariationalHead",
    "ZeroInflated",
    "ZeroInflatedFamily",
    "ZeroInflatedHead",
    "fit_head",
    "get_link",
    "head_choice",
    "make_head",
    "pool",
]
