"""Modules that are imported at their first use, so that `diglm --help` need not wait for JAX."""

import importlib.util
import sys
from types import ModuleType


def later(name: str) -> ModuleType:
    """The module `name`; it is run when an attribute of it is first asked for."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"There is no module {name}.", name=name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
