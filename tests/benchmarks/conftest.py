"""Benchmarks are scripts beside one another, not a package: their folder joins the path."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(FOLDER))
collect_ignore_glob = [] if FOLDER.is_dir() else ["test_*.py"]  # source archives hold tests alone
