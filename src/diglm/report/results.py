"""Result files: what was run, how, on what, and what came out, as JSON that documents can quote."""

import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from diglm.__about__ import __version__


def write_result(
    path: str | os.PathLike,
    *,
    config: dict[str, Any],
    seed: int,
    seconds: float,
    metrics: Any,
    command: str | None = None,
) -> Path:
    """Write one result atomically: configuration, seed, commit, machine, seconds and metrics.

    `command` is what makes it again.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    said = {} if command is None else {"command": command}
    record = said | {
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
    try:
        changed = _git(
            "status", "--porcelain", "--untracked-files=no", "--", ":/src", ":/benchmarks"
        )
        return _git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def code() -> str:
    """What tells this code from other code: git's name of its content, or else the version."""
    here = commit()
    if here is None:
        return __version__
    return _git("rev-parse", "--short=12", "HEAD:src") + ("+" if here.endswith("+") else "")


def of_this_code(stored: Mapping[str, Any]) -> bool:
    """Whether a result was made by the code as it is now; never, where either had changes."""
    now, then = commit(), stored["commit"]
    if now is None or then is None:
        return now is then and stored["version"] == __version__
    if now.endswith("+") or then.endswith("+"):
        return False
    try:
        return now == then or not _git("diff", "--name-only", then, "HEAD", "--", ":/src")
    except subprocess.SubprocessError:  # a commit that is not known here
        return False


def _git(*words: str) -> str:
    folder = Path(__file__).parent
    done = subprocess.run(
        ["git", *words], cwd=folder, capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()
