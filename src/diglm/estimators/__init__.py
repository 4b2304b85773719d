"""scikit-learn's contract over hybrid models, and `load` for saved ones."""

import os
from pathlib import Path

from diglm.estimators import persistence
from diglm.estimators.classifier import HybridClassifier
from diglm.estimators.regressor import HybridRegressor

ESTIMATORS = {"HybridClassifier": HybridClassifier, "HybridRegressor": HybridRegressor}
SHIPPED = Path(__file__).parent.parent / "models"  # trained models that come with the package


def load(path: str | os.PathLike) -> HybridClassifier | HybridRegressor:
    """The model that `save` wrote to `path`, or one that comes with diglm, by its name.

    `load("mnist")` classifies handwritten digits: uint8 images (n, 28, 28, 1), white on black.
    A file of that name comes first. Nothing in the file is executed.
    """
    path = _found(path)
    content = persistence.read(path)
    try:
        return ESTIMATORS[content["estimator"]]._from_content(content)
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


__all__ = ["HybridClassifier", "HybridRegressor", "load"]
