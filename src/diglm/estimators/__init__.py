"""scikit-learn's contract over hybrid models, and `load` for saved ones."""

import os

from diglm.estimators import persistence
from diglm.estimators.classifier import HybridClassifier
from diglm.estimators.regressor import HybridRegressor

ESTIMATORS = {"HybridClassifier": HybridClassifier, "HybridRegressor": HybridRegressor}


def load(path: str | os.PathLike) -> HybridClassifier | HybridRegressor:
    """The model that `save` wrote to `path`. Nothing in the file is executed."""
    content = persistence.read(path)
    try:
        return ESTIMATORS[content["estimator"]]._from_content(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} does not describe a diglm model: {error}.") from error


__all__ = ["HybridClassifier", "HybridRegressor", "load"]
