"""scikit-learn's contract over predictors, and `load` for saved ones."""

import os
from pathlib import Path

from diglm.estimators.classifier import HybridClassifier
from diglm.estimators.density import HybridDensity
from diglm.estimators.regressor import HybridRegressor
from diglm.estimators.sweep import Sweep, sweep
from diglm.predictor import read_stored
from diglm.registry import Registry

Estimator = HybridClassifier | HybridRegressor | HybridDensity
ESTIMATORS: Registry[type[Estimator]] = Registry(
    "estimator",
    {kind.__name__: kind for kind in (HybridClassifier, HybridRegressor, HybridDensity)},
)
SHIPPED = Path(__file__).parent.parent / "models"  # trained models that come with the package


def load(path: str | os.PathLike) -> Estimator:
    """The model that `save` wrote to `path`, or one that comes with diglm, by its name.

    `load("mnist")` classifies handwritten digits: uint8 images (n, 28, 28, 1), white on black.
    A file of that name comes first. Nothing in the file is executed.
    """
    path = _found(path)
    predictor, about = read_stored(path)
    try:
        estimator = ESTIMATORS[about["estimator"]](**about["parameters"])
        estimator._restore(predictor, about)
        return estimator
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} does not describe a diglm model: {error}.") from error


def _found(path: str | os.PathLike) -> Path:
    given, shipped = Path(path), {file.stem: file for file in SHIPPED.glob("*.safetensors")}
    if given.exists() or len(given.parts) != 1 or given.suffix:
        return given
    if given.name in shipped:
        return shipped[given.name]
    raise FileNotFoundError(
        f"There is no model file {given}, nor does a model of that name come with diglm "
        f"({', '.join(sorted(shipped))})."
    )


__all__ = ["HybridClassifier", "HybridDensity", "HybridRegressor", "Sweep", "load", "sweep"]
