"""Where diglm keeps what it can make again: compiled programs, downloaded data."""

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """The folder that `DIGLM_CACHE` names, else diglm's part of the user's cache folder.

    That is `$XDG_CACHE_HOME` or `~/.cache` on Linux, `~/Library/Caches` on macOS and
    `%LOCALAPPDATA%` on Windows. Nothing is made.
    """
    if given := os.environ.get("DIGLM_CACHE"):
        return Path(given)
    return _users() / "diglm"


def _users() -> Path:
    """Where programs of this user keep their caches."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given)
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
