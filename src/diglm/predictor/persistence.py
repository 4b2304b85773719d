"""Model files: one safetensors file whose header carries a JSON description. No code is stored.

A model is described by the names of diglm's own classes (modules, dataclasses and named tuples)
and their fields; arrays lie in the safetensors part. Loading looks class names up among diglm's
own and fills in fields, so a hostile file can at worst be refused. Writing goes to a temporary
file that replaces the old one only when complete.
"""

import dataclasses
import functools
import importlib
import json
import math
import os
import pkgutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from diglm.compiling import require_own_jax

FORMAT = 2
# Where classes are looked up that a file may mention.
PACKAGES = (
    "types",
    "networks",
    "bijections",
    "bases",
    "flows",
    "heads",
    "completion",
    "hybrid",
    "objectives",
    "refusal",
    "targets",
    "predictor",
    "recipes",
)
DEEPEST = 64
SMALL = 1_000  # numbers; arrays of fewer are not looked for among those kept already


def write(path: str | os.PathLike, description: dict[str, Any]) -> None:
    """Write a description (numbers, strings, arrays, diglm modules, nested) atomically."""
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps({"format": FORMAT, "content": _encode(description, arrays)}, allow_nan=False)
    payload = to_bytes(arrays, metadata={"diglm": text})
    path = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise OSError(f"Cannot write a model to {path}: {error.strerror or error}.") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: str | os.PathLike) -> dict[str, Any]:
    """The description stored at `path`; a clear ValueError for anything that is not one."""
    require_own_jax()
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"No model file at {path}.")
    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get("diglm")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(
            f"{path} is not a whole diglm model file ({error}). Was it cut short, or written by "
            "something else? Save the model again."
        ) from error
    if text is None:
        raise ValueError(f"{path} is a safetensors file, but not one written by diglm.")
    try:
        stored = json.loads(text)
        version = stored["format"]
        if version != FORMAT:
            raise ValueError(
                f"it has format {version!r}, this diglm reads format {FORMAT}; "
                "load it with the version that wrote it"
            )
        content = _decode(stored["content"], arrays)
        if not isinstance(content, dict):
            raise ValueError("its content is not a description of a model")
        return content
    except RecursionError as error:
        raise ValueError(f"{path} cannot be read: its description is nested too deeply.") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} cannot be read: {error}.") from error


def _encode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"float": repr(value)}
        case np.generic():
            return _encode(value.item(), arrays)
        case jax.Array() | np.ndarray():
            array = np.array(value, order="C")  # ascontiguousarray would add an axis to a scalar
            if array.dtype.kind in "OUS":
                return {"strings": _encode(array.tolist(), arrays)}
            # What several parts of a model share, such as rows to be compared with, is kept once.
            kept = (name for name, other in arrays.items() if _same(other, array))
            name = next(kept, f"{len(arrays):04d}")
            arrays[name] = array
            return {"array": name, "on_device": isinstance(value, jax.Array)}
        case tuple() if hasattr(value, "_fields"):
            return _described(value, value._fields, arrays)  # type: ignore[attr-defined]
        case tuple() | list():
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {kind: [_encode(item, arrays) for item in value]}
        case dict():
            return {"dict": [[_encode(k, arrays), _encode(v, arrays)] for k, v in value.items()]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _described(value, [field.name for field in dataclasses.fields(value)], arrays)
    raise TypeError(f"save() cannot store a {type(value).__name__}.")


def _same(first: np.ndarray, second: np.ndarray) -> bool:
    alike = first.dtype == second.dtype and first.shape == second.shape
    return alike and first.size > SMALL and first.tobytes() == second.tobytes()


def _described(value: Any, names: Iterable[str], arrays: dict[str, np.ndarray]) -> Any:
    """An object by the name of its class and its fields."""
    kind = type(value).__name__
    if _classes().get(kind) is not type(value):
        raise TypeError(
            f"save() stores diglm's own classes only; {type(value).__qualname__} is yours. "
            "Use diglm's own parts, or keep this model with pickle."
        )
    return {
        "class": kind,
        "fields": {name: _encode(getattr(value, name), arrays) for name in names},
    }


def _decode(node: Any, arrays: dict[str, np.ndarray], depth: int = 0) -> Any:
    if depth > DEEPEST:
        raise ValueError("its description is nested too deeply")
    if node is None or isinstance(node, bool | int | float | str):
        return node
    if not isinstance(node, dict):
        raise ValueError(f"its description holds an unexpected {type(node).__name__}")

    def inner(child):
        return _decode(child, arrays, depth + 1)

    match node:
        case {"float": str(text)}:
            return float(text)
        case {"strings": items}:
            return np.array(inner(items), dtype=object)
        case {"array": str(name), "on_device": bool(on_device)}:
            if name not in arrays:
                raise ValueError(f"array {name!r} is missing")
            return _on_device(arrays[name]) if on_device else arrays[name]
        case {"tuple": list(items)}:
            return tuple(inner(item) for item in items)
        case {"list": list(items)}:
            return [inner(item) for item in items]
        case {"dict": list(pairs)}:
            return {inner(k): inner(v) for k, v in pairs}
        case {"class": str(name), "fields": dict(fields)}:
            return _build(name, {key: inner(child) for key, child in fields.items()})
    raise ValueError(f"its description holds an unknown entry {sorted(node)[:3]}")


def _later(cls: Any) -> dict[str, Any]:
    """Fields that have a default: files of earlier versions may not know them."""
    if hasattr(cls, "_fields"):
        return dict(cls._field_defaults)
    missing = dataclasses.MISSING
    fields = dataclasses.fields(cls)
    return {field.name: field.default for field in fields if field.default is not missing}


def _on_device(array: np.ndarray) -> jax.Array:
    """Numbers take the precision that JAX works in now, whatever they were saved in."""
    working = {"f": float, "i": int}.get(array.dtype.kind)
    return jnp.asarray(array, None if working is None else jnp.result_type(working))


def _build(name: str, values: dict[str, Any]) -> Any:
    """An object with given fields; its constructor, which may draw random numbers, is not run."""
    if name not in _classes():
        raise ValueError(f"it uses {name!r}, which is not a class of this diglm")
    cls: Any = _classes()[name]
    named = hasattr(cls, "_fields")
    expected = set(cls._fields if named else (field.name for field in dataclasses.fields(cls)))
    values = _later(cls) | values
    if set(values) != expected:
        raise ValueError(f"{name} should have fields {sorted(expected)}; found {sorted(values)}")
    if named:
        return cls(**values)
    built = object.__new__(cls)
    for key, value in values.items():
        object.__setattr__(built, key, value)
    return built


@functools.cache
def _classes() -> dict[str, type]:
    """diglm's classes by name: the only ones that a file may mention."""
    found: dict[str, type] = {}
    for package in PACKAGES:
        module = importlib.import_module(f"diglm.{package}")
        inside = [
            importlib.import_module(info.name)
            for info in pkgutil.walk_packages(
                getattr(module, "__path__", []), f"{module.__name__}."
            )
        ]
        for source in [module, *inside]:
            for value in vars(source).values():
                if isinstance(value, type) and value.__module__.startswith("diglm."):
                    if dataclasses.is_dataclass(value) or hasattr(value, "_fields"):
                        if found.setdefault(value.__name__, value) is not value:
                            raise TypeError(f"Two classes are called {value.__name__}.")
    return found
