"""`diglm info` and `doctor`: what a model is, and what this installation has."""

import importlib.metadata
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

import jax

from diglm.__about__ import __version__
from diglm.cli.terminal import print_json, print_pairs
from diglm.cli.work.models import open_model
from diglm.compiling import use_cache
from diglm.places import cache_folder
from diglm.report import worded

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "scipy", "scikit-learn", "typer")
EXTRAS = {
    "files": ("pyarrow", "orbax-checkpoint"),
    "images": ("pillow",),
    "plot": ("matplotlib",),
    "frames": ("pandas", "polars"),
    "serve": ("fastapi", "uvicorn", "httptools", "prometheus-client"),
    "ray": ("ray",),
}


def info(model: str, *, as_json: bool) -> None:
    """What a model is."""
    fitted = open_model(model)
    found = fitted.describe()
    if as_json:
        print_json(found)
        return
    test = found.pop("test", None)
    print_pairs(found)
    if isinstance(test, Mapping) and test:
        print("\non rows held out in training")
        print_pairs(worded(dict(test)))


def doctor(*, as_json: bool) -> None:
    """Versions, extras, devices and caches, and what is missing."""
    folder = use_cache()
    size, n_files = _size(folder) if folder is not None else (0, 0)
    content: dict[str, object] = {
        "diglm": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "devices": [str(device) for device in jax.devices()],
        **{name: _version(name) or "MISSING" for name in PACKAGES},
        **{f"diglm[{extra}]": _extra(packages) for extra, packages in EXTRAS.items()},
        "cache": str(cache_folder()),
        "compiled programs": (
            f"{folder}: {n_files:,} files, {size / 2**20:,.0f} MB"
            if folder is not None
            else "not kept: the cache cannot be written"
        ),
        "data": os.environ.get("DIGLM_DATA", "DIGLM_DATA is not set"),
    }
    print_json(content) if as_json else print_pairs(content)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _extra(packages: tuple[str, ...]) -> str:
    found = {package: _version(package) for package in packages}
    absent = [package for package, version in found.items() if version is None]
    have = ", ".join(f"{package} {version}" for package, version in found.items() if version)
    return have if not absent else f"missing {', '.join(absent)}" + (f"; {have}" if have else "")


def _size(folder: Path) -> tuple[int, int]:
    """Bytes and number of files; programs may come and go meanwhile."""
    sizes = []
    for file in folder.rglob("*"):
        try:
            sizes.append(file.stat().st_size)
        except OSError:
            continue
    return sum(sizes), len(sizes)
