"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model file, or a shipped one by name (mnist).")
]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, Parquet or Arrow file or a folder of them; images as .npz or as a folder "
        "with a folder a class; - reads CSV from standard input.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option("--target", help="The column with the truth; by default the one of training."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", help="File to write: .csv, .parquet, .arrow or .jsonl; else standard output."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Seed = Annotated[
    int, typer.Option("--seed", help="Seed of everything random.", min=0, max=2**32 - 1)
]
