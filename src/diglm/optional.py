"""Packages that need not be installed: extras, and what to say where one is missing."""

import importlib
from types import ModuleType
from typing import Any, NoReturn


class _Absent(type):
    """Stands for what a missing package holds: good enough for annotations, not for use."""

    package: str
    extra: str

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(f"{cls.__name__}.{name}", cls.package, cls.extra)

    def __call__(cls, *_: object, **__: object) -> NoReturn:
        raise ImportError(missing(cls.package, cls.extra))


def optional(package: str, extra: str) -> Any:
    """The module, or a stand-in whose use says which extra of diglm to install."""
    try:
        return importlib.import_module(package)
    except ImportError:
        return _stand_in(package, package, extra)


def require(module: Any) -> None:
    """Raise unless an optional module is there."""
    if not isinstance(module, ModuleType):
        raise ImportError(missing(module.package, module.extra))


def missing(package: str, extra: str) -> str:
    """What to say where a package is missing."""
    return f"This needs {package.partition('.')[0]}: pip install 'diglm[{extra}]'"


def _stand_in(name: str, package: str, extra: str) -> Any:
    return _Absent(name, (BaseException,), {"package": package, "extra": extra})
