"""Rows from files: one survey of the table, a start from its sample, then a stream of rows."""

import atexit
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from diglm.data.chunks import AbstractPlan
from diglm.data.encoder import AbstractEncoder, Rows
from diglm.data.files.dealing import deal
from diglm.data.files.formats import BLOCK_ROWS, pa
from diglm.data.files.mixed import MixedPlan
from diglm.data.files.opening import open_table
from diglm.data.files.streaming import StreamPlan, choose_shards, read_chunks
from diglm.data.files.survey import Survey, survey
from diglm.data.kinds import encoder_of
from diglm.data.mixing import Mixing
from diglm.fitting.sources import AbstractSource, Encode, Read, fingerprint, unit_of
from diglm.fitting.split import FEWEST_LABELS_TO_SPLIT, FEWEST_TO_SPLIT, Split
from diglm.fitting.trainers import AbstractTrainer, ChunkedTrainer, Plan
from diglm.objectives.two_passes import Chunks
from diglm.predictor.files import blocks, column_of
from diglm.recipes import AbstractRecipe
from diglm.training import Settings
from diglm.training.devices import Layout
from diglm.training.stream import own_shards
from diglm.types import Batch

CHUNK_ROWS = 100_000  # read, shuffled and trained on together
SAMPLE_ROWS = 100_000  # from which encoder, margins and head are started
MOST_HELD_OUT = 20_000  # rows settle a threshold and a stop; more would only cost memory


class Surveyed(NamedTuple):
    """What the survey of a table left.

    Attributes:
        held_out: numbers of the rows held out.
        unit: of weights.
        content: a hash of the sample.
        labelled: rows to train on with a label, where these are few; else None.
        labelled_rows: their numbers.
    """

    held_out: np.ndarray
    unit: float
    content: str
    labelled: "pa.Table | None"
    labelled_rows: np.ndarray


class FileSource(AbstractSource):
    """Rows of a Parquet, CSV or Arrow file, or of a folder of them.

    Args:
        path: the file or folder.
        target: the column to predict; None for none.
        features: columns to learn from; None for all others.
        weight: a column of row weights, or None.
        shuffle: whether to train on a copy of the rows in random order.
        checkpoint: folder in which the run is kept, or None.
        save_every: steps between checkpoints.
    """

    _surveyed: Surveyed

    def __init__(
        self,
        path: Path,
        target: str | None,
        *,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        shuffle: bool = True,
        checkpoint: Path | None = None,
        save_every: int = 20_000,
    ):
        table = open_table(path, spool=None if checkpoint is None else checkpoint / "spool")
        roles = [name for name in (target, weight) if name is not None]
        table.require(roles)
        if isinstance(features, str):
            raise TypeError(f"features must be a list of names; got the text {features!r}.")
        others = [name for name in table.names if name not in roles]
        chosen = others if features is None else list(features)
        if not chosen:
            raise ValueError(f"No feature is left in {path} besides {' and '.join(roles)}.")
        table.require(chosen)
        columns = [*chosen, *roles]
        if doubled := sorted({name for name in columns if columns.count(name) > 1}):
            raise ValueError(
                f"Column {doubled[0]!r} is named twice among features, target and sample_weight; "
                "the target and the weight cannot also be features."
            )
        self.table, self.target, self.features, self.weight = table, target, tuple(chosen), weight
        self.shuffle, self.checkpoint, self.save_every = shuffle, checkpoint, save_every

    @property
    def columns(self) -> list[str]:
        """All that is read."""
        return [*self.features, *(name for name in (self.target, self.weight) if name is not None)]

    # ------------------------------------------------------------------ what a run asks

    def read(self, seed: int, validation_fraction: float | str) -> Read:
        found = self._survey(seed, validation_fraction)
        sample, held_out, held_rows = found.sample, found.held_out, found.held_out_rows
        labelled, labelled_rows = found.labelled, found.labelled_rows
        if labelled is not None:  # all of them are in the sample, and none twice
            inside = np.isin(labelled_rows, held_rows)
            if len(labelled_rows) < FEWEST_LABELS_TO_SPLIT:
                kept = ~np.isin(held_rows, labelled_rows)
                held_out, held_rows = held_out.filter(kept), held_rows[kept]
                inside[:] = False
            labelled, labelled_rows = labelled.filter(~inside), labelled_rows[~inside]
            others = ~np.isin(found.sample_rows, labelled_rows)
            sample = pa.concat_tables([sample.filter(others), labelled])
        sampled = pa.concat_tables([sample, held_out]).unify_dictionaries()
        n_sample, n_held = sample.num_rows, held_out.num_rows
        weights = self._weights(sampled)
        unit = 1.0 if self.weight is None else unit_of(weights)
        self._surveyed = Surveyed(held_rows, unit, _content(sampled), labelled, labelled_rows)
        return Read(
            X=sampled.select(list(self.features)),
            y=self._targets(sampled),
            weights=weights / unit,
            weight_unit=unit,
            split=Split(np.arange(n_sample), np.arange(n_sample, n_sample + n_held)),
            n_rows=found.n_rows - n_held,
            n_labelled=None if labelled is None else len(labelled_rows),
            nulls=True,
        )

    def encoder_kind(self, X: Rows) -> type[AbstractEncoder]:
        return encoder_of(X)

    def trainer(
        self, recipe: AbstractRecipe, train: Batch, settings: Settings, encode: Encode, seed: int
    ) -> AbstractTrainer:
        make, mixture = partial(self._batch, encode), self._mixture(settings)
        plan = self._plan(mixture, settings, seed)
        if self.shuffle:
            layout = Layout()
            shards = own_shards(plan.n_shards, layout.n_processes, layout.process)
            plan = deal(plan, self.columns, shards=shards, folder=self._room / "shuffled")
        read = partial(read_chunks, plan, make, columns=self.columns)
        prepared = Plan(cast(AbstractPlan, plan), read)
        if mixture.apart:
            mixed = MixedPlan(plan, read, make(self._surveyed.labelled), mixture)
            prepared = Plan(cast(AbstractPlan, mixed), mixed.read)
        return ChunkedTrainer(prepared, train, save_every=self.save_every)

    def described(self, train: Batch, held_out: Batch, settings: Settings) -> dict[str, object]:
        batch_size = self._batch_size(settings)
        return {
            "rows": self.table.n_rows,
            "files": self.table.fingerprint(),
            "sampled content": self._surveyed.content,
            "columns": self.columns,
            "shards": self._n_shards(batch_size),
            "shuffle": self.shuffle,
            "steps a chunk": max(1, CHUNK_ROWS // batch_size),
        }

    def training_rows(self, train: Batch, encode: Encode) -> Chunks:
        held = self._surveyed.held_out

        def pieces() -> Iterator[Batch]:
            start = 0
            for block in blocks(self.table, self.columns, 0, self.table.n_rows, BLOCK_ROWS):
                numbers = np.arange(start, start + block.num_rows)
                start += block.num_rows
                kept = np.flatnonzero(~np.isin(numbers, held))
                if len(kept):
                    yield self._batch(encode, block.take(kept))

        return pieces

    def every_row(self, encode: Encode) -> Iterator[Batch]:
        for block in blocks(self.table, self.columns, 0, self.table.n_rows, BLOCK_ROWS):
            yield self._batch(encode, block)

    # ------------------------------------------------------------------ parts

    def _survey(self, seed: int, validation_fraction: float | str) -> Survey:
        """One pass over the file."""
        n = self.table.n_rows
        share = 0.1 if isinstance(validation_fraction, str) else float(validation_fraction)
        return survey(
            self.table,
            [name for name in self.columns if name != self.target],
            self.target,
            n_sample=SAMPLE_ROWS,
            n_held_out=min(MOST_HELD_OUT, int(share * n)) if n >= FEWEST_TO_SPLIT else 0,
            seed=seed,
        )

    def _mixture(self, settings: Settings) -> Mixing:
        """How batches are made up."""
        n_labelled, batch_size = len(self._surveyed.labelled_rows), self._batch_size(settings)
        n_others = self.table.n_rows - len(self._surveyed.held_out) - n_labelled
        n_shards = self._n_shards(batch_size)
        if batch_size % n_shards:
            return Mixing(0, batch_size)
        return Mixing.of(n_labelled, n_others, batch_size, multiple=n_shards)

    def _plan(self, mixture: Mixing, settings: Settings, seed: int) -> StreamPlan:
        batch_size = self._batch_size(settings)
        apart = [self._surveyed.labelled_rows] if mixture.apart else []
        return StreamPlan(
            table=self.table,
            n_shards=self._n_shards(batch_size),
            batch_size=mixture.n_others,
            steps_per_chunk=max(1, CHUNK_ROWS // batch_size),
            seed=seed,
            held_out=np.sort(np.concatenate([self._surveyed.held_out, *apart])),
        )

    def _n_shards(self, batch_size: int) -> int:
        n_rows = self.table.n_rows - len(self._surveyed.held_out)
        return choose_shards(batch_size, Layout().n_processes, n_rows)

    def _batch_size(self, settings: Settings) -> int:
        return min(settings.batch_size, self.table.n_rows - len(self._surveyed.held_out))

    def _batch(self, encode: Encode, rows: "pa.Table") -> Batch:
        weights = self._weights(rows) / self._surveyed.unit
        return encode(rows.select(list(self.features)), self._targets(rows), weights)

    def _targets(self, rows: "pa.Table") -> np.ndarray:
        return np.zeros(rows.num_rows) if self.target is None else column_of(rows, self.target)

    def _weights(self, rows: "pa.Table") -> np.ndarray:
        if self.weight is None:
            return np.ones(rows.num_rows)
        weights = np.asarray(column_of(rows, self.weight), float)
        if not np.all(np.isfinite(weights) & (weights >= 0)):
            raise ValueError(
                f"Column {self.weight!r} holds weights, which must be finite and not negative."
            )
        return weights

    @cached_property
    def _room(self) -> Path:
        """Where the copy in random order is kept: with the run, or until Python exits."""
        if self.checkpoint is not None:
            return self.checkpoint
        room = Path(tempfile.mkdtemp(prefix="diglm-"))
        atexit.register(shutil.rmtree, room, ignore_errors=True)
        return room


def _content(rows: "pa.Table") -> str:
    """A hash of the values, which tells files of the same names and sizes apart."""
    return fingerprint(column_of(rows, name) for name in rows.column_names)
