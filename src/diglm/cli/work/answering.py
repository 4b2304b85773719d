"""`diglm predict`, `sample` and `explain`: rows in, rows out."""

from collections.abc import Callable, Sequence
from pathlib import Path

import narwhals as nw
import numpy as np

from diglm.atomic import replacing
from diglm.cli.errors import CommandError
from diglm.cli.terminal import Talk
from diglm.cli.work.data import (
    ImageData,
    TableData,
    close_to,
    features_of,
    open_data,
    require_table,
)
from diglm.cli.work.models import open_model
from diglm.cli.work.writing import WRITERS, require_place, written
from diglm.data.files.formats import BLOCK_ROWS, pa
from diglm.estimators import Estimator
from diglm.predictor.answers import row_counter
from diglm.predictor.files import choose_columns, score_rows

Rows = Callable[["pa.Table"], None]


def predict(
    model: str, data: str, out: Path | None, keep: Sequence[str], *, as_json: bool, talk: Talk
) -> None:
    """What `assess` says of every row, in the order of the rows."""
    fitted, rows = open_model(model), open_data(data)
    ways = {TableData: _predict_table, ImageData: _predict_images}
    with written(out, as_json=as_json, read=(model, data)) as write:
        n, refused = ways[type(rows)](fitted, rows, keep, write, talk)
    place = "" if out is None else f" Wrote {out}."
    talk.say(f"{n:,} rows, {refused:,} refused ({refused / n:.1%}).{place}")


def _predict_table(
    model: Estimator, data: TableData, keep: Sequence[str], write: Rows, talk: Talk
) -> tuple[int, int]:
    predictor = model.predictor_
    require_table(predictor, data.name)
    features_of(predictor, data.table, data.name)
    for name in keep:
        data.require(name)
    columns = choose_columns(predictor, data.table, tuple(keep), None)
    refused = 0
    with row_counter(data.n_rows, talk.verbose) as count:
        for answers in score_rows(predictor, data.table, columns, 0, data.n_rows, BLOCK_ROWS):
            write(answers)
            refused += int(np.sum(answers["rejected"].to_numpy()))
            count(answers.num_rows)
    return data.n_rows, refused


def _predict_images(
    model: Estimator, data: ImageData, keep: Sequence[str], write: Rows, talk: Talk
) -> tuple[int, int]:
    if keep:
        raise CommandError("--keep names columns, which images do not have.", "leave it out.")
    with talk.waiting("looking at images"):
        encoded = model.predictor_.encode(data.rows(model.predictor_))
        columns = model.predictor_.columns(encoded)
    table = pa.table({"row": np.arange(data.n_rows), **columns})
    write(table)
    return data.n_rows, int(np.sum(columns["rejected"]))


def sample(
    model: str,
    n: int,
    out: Path | None,
    given: str | None,
    temperature: float,
    seed: int,
    *,
    as_json: bool,
    talk: Talk,
) -> None:
    """`n` rows like those of training; images go to a .npz file."""
    if n < 1:
        raise CommandError(f"-n must be at least 1; got {n}.", "ask for some rows.")
    fitted = open_model(model)
    wanted = None if given is None else _target_value(fitted, given)
    conditional = {} if given is None else {"y": wanted}
    in_files = fitted.predictor_.encoder.in_files
    if not in_files and (out is None or out.suffix != ".npz"):
        raise CommandError("this model draws images.", "write them to a file: --out drawn.npz")
    if out is not None:
        kinds = (".csv", ".parquet", ".arrow", ".jsonl") if in_files else (".npz",)
        require_place(out, kinds, read=(model,))
    with talk.waiting("drawing"):
        drawn = fitted.sample(n, random_state=seed, temperature=temperature, **conditional)
    if in_files:
        with written(out, as_json=as_json) as write:
            write(as_arrow(drawn))
    elif out is not None:
        with replacing(out) as file:
            np.savez_compressed(file, x=np.asarray(drawn))
    talk.say(f"{n:,} draws" + ("." if out is None else f" in {out}."))


def explain(
    model: str, data: str, out: Path | None, most: int, *, as_json: bool, talk: Talk
) -> None:
    """What made each row strange, and what made its prediction: a line for each of its columns."""
    if out is not None:
        require_place(out, tuple(WRITERS), read=(model, data))
    fitted, rows = open_model(model), open_data(data)
    if not fitted.predictor_.encoder.in_files:
        raise CommandError(
            "explanations of images are maps, not rows of a table.",
            "in Python: load(...).explain(images).figure()",
        )
    if most < 1:
        raise CommandError(f"--rows must be at least 1; got {most}.", "leave it out for 1000.")
    if rows.n_rows > most:
        talk.warn(f"the first {most:,} of {rows.n_rows:,} rows are explained; see --rows.")
        rows = rows.take(np.arange(most))
    with talk.waiting("explaining"):
        found = fitted.explain(rows.rows(fitted.predictor_))
    with written(out, as_json=as_json, read=(model, data)) as write:
        for row in range(rows.n_rows):
            table = as_arrow(found.table(row))
            write(table.add_column(0, "row", pa.array(np.full(len(table), row))))


def as_arrow(rows: object) -> "pa.Table":
    """Rows of any library as an Arrow table; columns of an array are numbered."""
    if isinstance(rows, np.recarray):
        return pa.table({name: rows[name] for name in rows.dtype.names or ()})
    if isinstance(rows, np.ndarray):
        return pa.table({f"x{place}": column for place, column in enumerate(rows.T)})
    return nw.from_native(rows, eager_only=True).to_arrow()  # type: ignore[call-overload]


def _target_value(model: Estimator, given: str) -> str | float:
    """A class or a number from the words of a command."""
    classes = getattr(model, "classes_", None)
    if classes is not None:
        by_name = {str(one): one for one in classes}
        if given not in by_name:
            raise CommandError(
                f"there is no class {given!r}; classes are {', '.join(by_name)}.",
                close_to(given, list(by_name)) or "name one of them.",
            )
        return by_name[given]
    if model.predictor_.target.density_only:
        raise CommandError("this model has no target to give.", "leave --given out.")
    try:
        return float(given)
    except ValueError as error:
        raise CommandError(
            f"--given must be a number; got {given!r}.", "for example 3.5"
        ) from error
