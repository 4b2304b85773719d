"""Fitting from files: one survey of the table, a start from its sample, then a stream of rows."""

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from rich.console import Console

from diglm import __about__
from diglm.data.table.encoder import TableEncoder
from diglm.estimators.start import begin
from diglm.estimators.targets import AbstractTarget
from diglm.training import ProgressBar
from diglm.training.devices import Layout
from diglm.types import Batch

if TYPE_CHECKING:
    import pyarrow as pa

    from diglm.data.files.opening import FileTable
    from diglm.data.files.survey import Survey
    from diglm.estimators.base import AbstractHybridEstimator

CHUNK_ROWS = 100_000  # read, shuffled and trained on together
SAMPLE_ROWS = 100_000  # from which encoder, margins and head are started
MOST_HELD_OUT = 20_000  # rows settle a threshold and a stop; more would only cost memory


class FileFit:
    """What `fit_file` does, in the order in which it does it.

    Args:
        estimator: whose parameters and target kind are used, and which is fitted.
        path: a Parquet, CSV or Arrow file, or a folder of them.
        target: the column to predict.
        features: columns to learn from; None for all others.
        sample_weight: a column of row weights, or None.
        checkpoint: folder in which the run is kept, or None.
        save_every: steps between checkpoints.
        shuffle: whether to train on a copy of the rows in random order.
        seed: of every draw.
    """

    def __init__(
        self,
        estimator: "AbstractHybridEstimator",
        path: str | os.PathLike,
        target: str,
        *,
        features: Sequence[str] | None,
        sample_weight: str | None,
        checkpoint: str | os.PathLike | None,
        save_every: int,
        shuffle: bool,
        seed: int,
    ):
        from diglm.data.files.opening import open_table

        self.estimator, self.target_name, self.weight_name = estimator, target, sample_weight
        self.save_every, self.seed, self.shuffle = save_every, seed, shuffle
        self.folder = None if checkpoint is None else Path(checkpoint)
        self.table: FileTable = open_table(
            Path(path), spool=None if self.folder is None else self.folder / "spool"
        )
        roles = [target] if sample_weight is None else [target, sample_weight]
        self.table.require(roles)
        if isinstance(features, str):
            raise TypeError(f"features must be a list of names; got the text {features!r}.")
        others = [name for name in self.table.names if name not in roles]
        self.features = others if features is None else list(features)
        if not self.features:
            raise ValueError(f"No feature is left in {path} besides {' and '.join(roles)}.")
        self.table.require(self.features)
        self.columns = [*self.features, *roles]
        if doubled := sorted({n for n in self.columns if self.columns.count(n) > 1}):
            raise ValueError(
                f"Column {doubled[0]!r} is named twice among features, target and sample_weight; "
                "the target and the weight cannot also be features."
            )

    def run(self, learn: Callable[[np.ndarray], AbstractTarget]) -> tuple[AbstractTarget, Any, Any]:
        """Fit the estimator; `learn` finds the target's meaning in the sample's targets.

        Returns the target, and the labels and weights of the sample.
        """
        from diglm.data.files.dealing import deal
        from diglm.data.files.streaming import StreamPlan, choose_shards
        from diglm.estimators.base import Prepared
        from diglm.training.stream import own_shards

        found = self._survey()
        sampled = _concatenated(found.sample, found.held_out)
        n_sample, n_held = found.sample.num_rows, found.held_out.num_rows
        y = column_of(sampled, self.target_name)
        target = learn(y)
        labels = target.read(y)
        weights, unit = self._weights_of(sampled)
        X = sampled.select(self.features)
        encoder = TableEncoder.fit(X, target.relation(labels), weights=(weights > 0).astype(float))
        encoded = encoder.encode(X, owner=type(self.estimator).__name__)
        rows = labels.batch(encoded.values, weights)
        split = np.arange(n_sample), np.arange(n_sample, n_sample + n_held)
        train, held_out = (Batch(*(column[part] for column in rows)) for part in split)
        n_rows = found.n_rows - n_held
        begun = begin(
            self.estimator.get_params(deep=False),
            encoder,
            target,
            train,
            held_out,
            n_rows=n_rows,
            seed=self.seed,
        )
        if begun.exact:
            raise ValueError(
                "flow='identity' is fitted exactly from all rows at once: load the table and use "
                "fit(), or choose a flow that trains, such as 'linear'."
            )
        batch_size = min(begun.settings.batch_size, n_rows)
        plan = StreamPlan(
            table=self.table,
            n_shards=choose_shards(batch_size, Layout().n_processes),
            batch_size=batch_size,
            steps_per_chunk=max(1, CHUNK_ROWS // batch_size),
            seed=self.seed,
            held_out=found.held_out_rows,
        )

        def encode(piece: "pa.Table") -> Batch:
            labels = target.read(column_of(piece, self.target_name))
            values = encoder.encode(piece.select(self.features)).values
            return labels.batch(values, self._weights_of(piece, unit)[0])

        # The folder is claimed first: a copy of other rows that lies there must not be taken.
        with self._checkpoints(self._description(plan, sampled)) as kept:
            if self.shuffle:
                layout = Layout()
                shards = own_shards(plan.n_shards, layout.n_processes, layout.process)
                plan = deal(plan, self.columns, shards=shards, folder=self._room() / "shuffled")
            result = self._train(begun, plan, encode, held_out, target.metric, kept)
        self.estimator._finish(
            Prepared(encoder, encoded, split, train, held_out, begun, self.seed), result
        )
        self.estimator._learn_streamed(lambda: self._pieces(encode))
        self.estimator.wait_seconds_ = result.waited
        return target, y, weights

    def _pieces(self, encode: Callable[["pa.Table"], Batch]) -> Iterator[Batch]:
        """Every row of the table, in its own order, a piece at a time."""
        from diglm.estimators.scoring import BLOCK_ROWS, _blocks

        for block in _blocks(self.table, self.columns, 0, self.table.n_rows, BLOCK_ROWS):
            yield encode(block)

    def _room(self) -> Path:
        """Where the copy in random order is kept: with the run, or until Python exits."""
        if self.folder is not None:
            return self.folder
        room = Path(tempfile.mkdtemp(prefix="diglm-"))
        atexit.register(shutil.rmtree, room, ignore_errors=True)
        return room

    def _survey(self) -> "Survey":
        """One pass over the file, with a bar for people."""
        from diglm.data.files.survey import survey

        n = self.table.n_rows
        fraction = self.estimator.validation_fraction
        fraction = 0.1 if fraction == "auto" else float(fraction)
        return survey(
            self.table,
            [name for name in self.columns if name != self.target_name],
            self.target_name,
            n_sample=SAMPLE_ROWS,
            n_held_out=min(MOST_HELD_OUT, int(fraction * n)) if n >= 20 else 0,
            seed=self.seed,
        )

    def _checkpoints(self, described: dict[str, Any]) -> AbstractContextManager:
        from diglm.training.checkpoint import Checkpoints

        return nullcontext() if self.folder is None else Checkpoints(self.folder, described)

    def _train(self, begun, plan, encode, held_out: Batch, metric: str, kept):
        from diglm.data.files.streaming import read_chunks
        from diglm.training.stream import fit_stream

        verbose = self.estimator.verbose if Layout().process == 0 else False
        with ProgressBar(begun.settings.n_epochs, metric, verbose) as bar:
            result = fit_stream(
                begun.model,
                plan,
                partial(read_chunks, plan, encode, columns=self.columns),
                objective=begun.objective,
                validation=held_out if len(held_out.weight) else None,
                settings=begun.settings,
                checkpoints=kept,
                save_every=self.save_every,
                progress=bar,
            )
        if bar.visible:
            millions = plan.n_steps * plan.batch_size * max(1, len(result.history)) / 1e6
            Console(stderr=True).print(
                f"{result.seconds:.1f} s, {result.seconds / millions:.2f} s per million rows; the "
                f"device waited {result.waited:.1f} s for the disk"
            )
        return result

    def _description(self, plan, sampled: "pa.Table") -> dict[str, Any]:
        """What makes this run this run: resuming with anything else would mix two models."""
        parameters = self.estimator.get_params(deep=False)
        ignored = ("verbose", "random_state")
        return {
            "estimator": type(self.estimator).__name__,
            "version": __about__.__version__,
            "parameters": {k: _plain(v) for k, v in parameters.items() if k not in ignored},
            "seed": self.seed,
            "rows": self.table.n_rows,
            "files": self.table.fingerprint(),
            "sampled content": _fingerprint(sampled),
            "columns": self.columns,
            "precision": str(jnp.result_type(float)),
            "batch_size": plan.batch_size,
            "shards": plan.n_shards,
            "shuffle": self.shuffle,
            "steps a chunk": plan.steps_per_chunk,
        }

    def _weights_of(self, rows: "pa.Table", unit: float | None = None) -> tuple[np.ndarray, float]:
        """Row weights in units of their mean over the sample."""
        if self.weight_name is None:
            return np.ones(rows.num_rows), 1.0
        weights = np.asarray(column_of(rows, self.weight_name), float)
        if not np.all(np.isfinite(weights) & (weights >= 0)):
            raise ValueError(
                f"Column {self.weight_name!r} holds weights, which must be finite and not negative."
            )
        if unit is None:
            if not np.any(weights > 0):
                raise ValueError(f"No sampled row has a positive weight in {self.weight_name!r}.")
            unit = float(np.mean(weights[weights > 0]))
        return weights / unit, unit


def column_of(rows: "pa.Table", name: str) -> np.ndarray:
    """A column as NumPy's: numbers with NaN for nulls, text and classes as objects."""
    column = rows[name]
    return column.combine_chunks().to_numpy(zero_copy_only=False)


def _concatenated(first: "pa.Table", second: "pa.Table") -> "pa.Table":
    import pyarrow as pa

    return pa.concat_tables([first, second]).unify_dictionaries()


def _fingerprint(rows: "pa.Table") -> str:
    """A hash of the values, which tells files of the same names and sizes apart."""
    total = hashlib.sha256()
    for name in rows.column_names:
        values = column_of(rows, name)
        total.update(repr(values.tolist()).encode() if values.dtype == object else values.tobytes())
    return total.hexdigest()


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool | None) else repr(value)
