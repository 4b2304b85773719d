"""Heads by name."""

from collections.abc import Callable

from diglm.heads.auto import Auto
from diglm.heads.base import AbstractHead
from diglm.heads.bayesian.choices import Bayesian, BayesianPoisson, Mixed, MixedPoisson
from diglm.heads.choices import GLM, AbstractHeadChoice, Softmax
from diglm.heads.families.categorical import BernoulliFamily
from diglm.heads.families.counts import NegativeBinomialFamily, PoissonFamily
from diglm.heads.families.gaussian import GaussianFamily, HeteroscedasticFamily, StudentTFamily
from diglm.heads.families.mixture import MixtureFamily
from diglm.heads.families.positive import GammaFamily
from diglm.heads.families.zeros import HurdleFamily, ZeroInflatedFamily
from diglm.heads.family import AbstractFamily
from diglm.registry import Registry


def family(kind: Callable[[], AbstractFamily]) -> Callable[[], AbstractHeadChoice]:
    """A GLM of that family, with its own defaults."""
    return lambda: GLM(kind())


HEADS: Registry[Callable[[], AbstractHeadChoice]] = Registry(
    "head",
    {
        "auto": Auto,
        "categorical": Softmax,
        "gaussian": family(GaussianFamily),
        "heteroscedastic": family(HeteroscedasticFamily),
        "student_t": family(StudentTFamily),
        "mixture": family(MixtureFamily),
        "bernoulli": family(BernoulliFamily),
        "poisson": family(PoissonFamily),
        "negative_binomial": family(NegativeBinomialFamily),
        "gamma": family(GammaFamily),
        "hurdle": family(HurdleFamily),
        "zero_inflated": family(ZeroInflatedFamily),
        "bayesian": Bayesian,
        "bayesian_poisson": BayesianPoisson,
        "mixed": Mixed,
        "mixed_poisson": MixedPoisson,
    },
)


def head_choice(asked: str | AbstractHeadChoice, usual: str = "student_t") -> AbstractHeadChoice:
    """The choice that a name stands for, or the object itself, its parameters checked.

    "auto" stands for the `usual` one.
    """
    if isinstance(asked, str):
        asked = HEADS[usual if asked == "auto" else asked]()
    choice = asked
    choice.check()
    return choice


def make_head(name: str, dim: int, *, n_classes: int | None = None) -> AbstractHead:
    """The head of that name for `dim` features; of classes where `n_classes` is given."""
    choice = head_choice(name)
    if n_classes is not None:
        return choice.for_classes(dim, n_classes=n_classes, n_groups=0)
    return choice.for_numbers(dim, n_targets=1, scale=1.0, n_groups=0)
