"""A file of rows to a file of answers: what `assess` says of every row, in bounded memory."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from diglm.data.files.formats import BLOCK_ROWS
from diglm.data.files.opening import open_table
from diglm.predictor.answers import replacing, require_place, row_counter
from diglm.predictor.files import choose_columns, score_rows
from diglm.predictor.predictor import Predictor
from diglm.predictor.ray import score_with_ray
from diglm.registry import Registry


def score_file(
    predictor: Predictor,
    path: str | os.PathLike,
    out: str | os.PathLike,
    *,
    keep: str | Sequence[str] = (),
    groups: str | None = None,
    engine: str = "local",
    n_workers: int | None = None,
    verbose: bool | str = "auto",
) -> Path:
    """Write what `assess` says of every row of a table on disk to the Parquet file `out`.

    The answers are in the order of the rows: `row`, the number of the row from 0; the columns of
    `keep`; and the columns of `assess`. They appear under the name `out` only once complete, so an
    earlier file of that name survives any failure.

    A model that was fitted on named columns finds them by name and ignores all others. One that
    was fitted on an array takes the columns in order, without those of `keep` if that is what
    makes their number right.

    Args:
        predictor: A fitted model.
        path: Parquet, Arrow or CSV file, or a folder of files of one kind.
        out: Name of the file of answers; it ends in .parquet.
        keep: Columns to copy through, such as an identifier. Decimals become floats.
        groups: Column of the rows' groups, for a model that knows of groups.
        engine: "local" scores in this process, on all cores. "ray" scores on the workers of Ray;
            see `diglm.predictor.ray`.
        n_workers: Processes of engine "ray"; None is one for each core.
        verbose: True, False, or "auto" for a progress bar where a person watches.
    """
    score = ENGINES[engine]
    if not predictor.encoder.in_files:
        raise ValueError(
            f"score_file() reads tables, but {predictor.owner} was fitted to other rows, of layout "
            f"{predictor.encoder.layout!r}; give those to assess()."
        )
    if n_workers is not None and (engine == "local" or n_workers < 1):
        raise ValueError(
            f"n_workers is the number of processes of engine='ray', at least 1; got {n_workers} "
            f"with engine={engine!r}. Local scoring uses all cores without it."
        )
    path, out = Path(path).absolute(), Path(out).absolute()
    require_place(path, out)
    kept = (keep,) if isinstance(keep, str) else tuple(keep)
    score(predictor, path, out, kept, groups, n_workers, verbose)
    return out


def _score_here(
    predictor: Predictor,
    path: Path,
    out: Path,
    kept: tuple[str, ...],
    groups: str | None,
    n_workers: int | None,
    verbose: bool | str,
) -> None:
    """In this process, on all cores."""
    table = open_table(path)
    columns = choose_columns(predictor, table, kept, groups)
    with row_counter(table.n_rows, verbose) as count, replacing(out) as write:
        for answers in score_rows(predictor, table, columns, 0, table.n_rows, BLOCK_ROWS):
            write(answers)
            count(answers.num_rows)


ENGINES: Registry[Callable[..., None]] = Registry(
    "engine", {"local": _score_here, "ray": score_with_ray}
)
