"""diglm: a predictor that knows when not to predict.

Names are imported when they are first asked for: `import diglm` takes no time, so that a command
that needs no model answers at once.
"""

import importlib
from typing import TYPE_CHECKING

from diglm.__about__ import __version__

if TYPE_CHECKING:
    from diglm import adapt, bijections, heads, objectives, recipes, refusal, training
    from diglm.compiling import use_cache
    from diglm.estimators import HybridClassifier, HybridDensity, HybridRegressor, load, sweep
    from diglm.flows import Flow
    from diglm.hybrid import Hybrid
    from diglm.predictor import Predictor

# Where each public name is found; rooms are found as themselves.
HOMES = {
    "Flow": "diglm.flows",
    "Hybrid": "diglm.hybrid",
    "HybridClassifier": "diglm.estimators",
    "HybridDensity": "diglm.estimators",
    "HybridRegressor": "diglm.estimators",
    "Predictor": "diglm.predictor",
    "load": "diglm.estimators",
    "sweep": "diglm.estimators",
    "use_cache": "diglm.compiling",
}
ROOMS = ("adapt", "bijections", "data", "distributed", "estimators", "flows", "heads", "objectives")
ROOMS += ("predictor", "recipes", "refusal", "training")

__all__ = [
    "Flow",
    "Hybrid",
    "HybridClassifier",
    "HybridDensity",
    "HybridRegressor",
    "Predictor",
    "__version__",
    "adapt",
    "bijections",
    "heads",
    "load",
    "objectives",
    "recipes",
    "refusal",
    "sweep",
    "training",
    "use_cache",
]


def __getattr__(name: str) -> object:
    """A public name, imported now."""
    if name in ROOMS:
        return importlib.import_module(f"diglm.{name}")
    if name in HOMES:
        found = getattr(importlib.import_module(HOMES[name]), name)
        globals()[name] = found  # the next time it is simply there
        return found
    raise AttributeError(f"module 'diglm' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})
