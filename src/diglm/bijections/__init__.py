"""Bijections between data and features, each with both log-determinants."""

from diglm.bijections.base import AbstractBijection, AbstractImageBijection
from diglm.bijections.compose import Chain, Inverted, Scan
from diglm.bijections.continuous import NeuralODE
from diglm.bijections.convolution import Convolution1x1
from diglm.bijections.coupling import AffineCoupling, SplineCoupling
from diglm.bijections.elementwise import Affine, Identity, Logit, Sigmoid, Standardise
from diglm.bijections.estimates import Probes, parts, standard_error
from diglm.bijections.linear import LULinear
from diglm.bijections.marginal import MarginalMap
from diglm.bijections.multiscale import MultiScale
from diglm.bijections.normalisation import ActNorm, BatchNorm
from diglm.bijections.permute import Exchange, Permute, Reverse, random_permutation
from diglm.bijections.planar import Planar
from diglm.bijections.reshape import EvenPart, Images, Squeeze
from diglm.bijections.residual import InvertibleResidual
from diglm.bijections.spline import Spline

__all__ = [
    "AbstractBijection",
    "AbstractImageBijection",
    "ActNorm",
    "Affine",
    "AffineCoupling",
    "BatchNorm",
    "Chain",
    "Convolution1x1",
    "EvenPart",
    "Exchange",
    "Identity",
    "Images",
    "InvertibleResidual",
    "Inverted",
    "LULinear",
    "Logit",
    "MarginalMap",
    "MultiScale",
    "NeuralODE",
    "Permute",
    "Planar",
    "Probes",
    "Reverse",
    "Scan",
    "Sigmoid",
    "Spline",
    "SplineCoupling",
    "Squeeze",
    "Standardise",
    "parts",
    "random_permutation",
    "standard_error",
]
