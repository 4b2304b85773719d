"""How tests run commands, and the table that they run them on."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TINY = ["--flow", "linear", "--epochs", "2", "--reject", "0.05", "--set", "n_blocks=1"]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def in_process_of_its_own(*words: object, **given) -> subprocess.CompletedProcess:
    """Run a command as a person does."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    command = [sys.executable, "-m", "diglm", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, **given)


def rows(n: int, seed: int = 0) -> list[str]:
    """Lines of a CSV: a kind told by two sizes, an island with gaps, an identifier, a date."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        kind = ("short", "tall")[rng.integers(2)]
        height = (
            f"{rng.normal(10 if kind == 'short' else 20, 2):.1f}" if rng.random() > 0.05 else ""
        )
        island = ("north", "south", "")[rng.choice(3, p=[0.5, 0.45, 0.05])]
        day = f"2024-0{1 + i % 9}-1{i % 10}"
        lines.append(
            f"id{i:04d},{kind},{height},{rng.integers(5, 9)},{island},{day},{rng.normal():.3f}"
        )
    return lines


HEADER = "key,kind,height,rings,island,day,growth"
