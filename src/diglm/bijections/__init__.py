"""Bijections between data and features, each with both log-determinants."""

from diglm.bijections.base import AbstractBijection
from diglm.bijections.compose import Chain, Inverted, Scan
from diglm.bijections.coupling import AffineCoupling, SplineCoupling
from diglm.bijections.elementwise import Affine, Identity, Logit, Sigmoid, Standardise
from diglm.bijections.linear import LULinear
from diglm.bijections.marginal import MarginalMap
from diglm.bijections.normalisation import ActNorm, BatchNorm
from diglm.bijections.permute import Exchange, Permute, Reverse, random_permutation
from diglm.bijections.planar import Planar
from diglm.bijections.spline import Spline

__all__ = [
    "AbstractBijection",
    "ActNorm",
    "Affine",
    "AffineCoupling",
    "BatchNorm",
    "Chain",
    "Exchange",
    "Identity",
    "Inverted",
    "LULinear",
    "Logit",
    "MarginalMap",
    "Permute",
    "Planar",
    "Reverse",
    "Scan",
    "Sigmoid",
    "Spline",
    "SplineCoupling",
    "Standardise",
    "random_permutation",
]
