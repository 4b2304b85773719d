"""Result files: what was run, how, on what, and what came out, as JSON that documents can quote."""

import json
import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import jax

from diglm.__about__ import __version__


def write_result(
    path: str | os.PathLike, *, config: dict[str, Any], seed: int, seconds: float, metrics: Any
) -> Path:
    """Write one result atomically: configuration, seed, commit, machine, seconds and metrics."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "config": config,
        "seed": seed,
        "commit": commit(),
        "version": __version__,
        "machine": {
            "cores": os.cpu_count(),
            "processor": platform.machine(),
            "python": platform.python_version(),
            "jax": jax.__version__,
            "backend": jax.default_backend(),
        },
        "seconds": round(seconds, 3),
        "metrics": metrics,
    }
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w") as file:
        json.dump(record, file, indent=2, default=float)
        file.write("\n")
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)
    return path


def commit() -> str | None:
    """The commit the code was at, with a plus sign if the tree had changes; None outside git."""
    folder = Path(__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    try:
        changed = git(
            "status", "--porcelain", "--untracked-files=no", "--", ":/src", ":/benchmarks"
        )
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
