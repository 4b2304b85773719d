"""Which rows of a table on disk make up each batch, whatever the number of processes."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from diglm.data.files.formats import pa
from diglm.data.files.opening import FileTable, RowGroup

# First numbers of seeds, so that no two draws share a stream.
ORDER, CUT, SHUFFLE = 1, 2, 3

FEWEST_BATCHES = 4  # of an epoch, to draw each from several places


class Span(NamedTuple):
    """Rows `start` to `stop` of a row group, `n_kept` of which are for training."""

    group: RowGroup
    start: int
    stop: int
    n_kept: int


@dataclass(frozen=True, eq=False)
class StreamPlan:
    """Which rows make up each batch: a pure function of the table, the seed and the position.

    The rows are cut into `n_shards` ranges of equal length, and every batch takes as many rows
    from each, so that a file in order of time is mixed from distant places. In each epoch a shard
    lines up its row groups in a random order, begins at a random row, and fills one buffer after
    the other. A buffer holds `steps_per_chunk` steps and is shuffled wholly. Rows that fill no
    whole step at the end of an epoch are left out; the next epoch leaves out others.

    Attributes:
        table: Where the rows are.
        n_shards: Divides the batch size; see `choose_shards`.
        batch_size: Rows of a step, over all shards.
        steps_per_chunk: Steps that are read and shuffled together.
        seed: Whole number, not negative.
        held_out: Rows of the table that no batch may hold, ascending.
        cuts: Where shards begin, and the end of the last; None for shards of equal length.
    """

    table: FileTable
    n_shards: int
    batch_size: int
    steps_per_chunk: int
    seed: int
    held_out: np.ndarray
    cuts: tuple[int, ...] | None = None

    def __post_init__(self):
        if self.n_shards < 1 or self.batch_size < 1 or self.batch_size % self.n_shards:
            raise ValueError(
                f"batch_size must be a multiple of n_shards; got {self.batch_size} and "
                f"{self.n_shards}. `choose_shards` finds a number of shards."
            )
        if self.steps_per_chunk < 1 or self.seed < 0:
            raise ValueError(
                "steps_per_chunk must be positive and seed not negative; got "
                f"{self.steps_per_chunk} and {self.seed}."
            )
        held_out = self.held_out
        if held_out.ndim != 1 or (held_out.size and held_out.dtype.kind not in "iu"):
            raise ValueError(f"held_out must be a list of row numbers; got {held_out!r}.")
        if held_out.size and (
            held_out[0] < 0 or held_out[-1] >= self.table.n_rows or np.any(np.diff(held_out) <= 0)
        ):
            raise ValueError(
                f"held_out must be ascending rows from 0 to {self.table.n_rows - 1}, each once."
            )
        if self.n_steps == 0:
            n_rows = self.table.n_rows - held_out.size
            raise ValueError(
                f"The table has {n_rows} rows to train on, too few for one batch of "
                f"{self.batch_size} from {self.n_shards} places. Use a smaller batch_size."
            )

    @property
    def shard_batch(self) -> int:
        """Rows that a step takes from each shard."""
        return self.batch_size // self.n_shards

    @cached_property
    def n_steps(self) -> int:
        """Steps of an epoch: the smallest shard decides."""
        return min(self._n_kept(*self.bounds(s)) for s in range(self.n_shards)) // self.shard_batch

    @property
    def n_chunks(self) -> int:
        """Chunks of an epoch; the last may have fewer steps than the others."""
        return -(-self.n_steps // self.steps_per_chunk)

    def steps_of(self, chunk: int) -> int:
        """Steps of chunk number `chunk` of any epoch."""
        return min(self.steps_per_chunk, self.n_steps - chunk * self.steps_per_chunk)

    def bounds(self, shard: int) -> tuple[int, int]:
        """First row of a shard, and the row after its last."""
        if self.cuts is not None:
            return self.cuts[shard], self.cuts[shard + 1]
        n_rows = self.table.n_rows
        return shard * n_rows // self.n_shards, (shard + 1) * n_rows // self.n_shards

    def spans(self, shard: int, epoch: int, skip: int = 0) -> list[Span]:
        """What a shard reads in an epoch, in order, without its first `skip` training rows."""
        pieces = self._pieces[shard]
        order = np.random.default_rng([ORDER, self.seed, epoch, shard]).permutation(len(pieces))
        pieces = [pieces[i] for i in order]
        ends = np.cumsum([piece.n_kept for piece in pieces])
        cut = int(np.random.default_rng([CUT, self.seed, epoch, shard]).integers(ends[-1]))
        first = int(np.searchsorted(ends, cut, side="right"))
        before, after = self._split(pieces[first], cut - int(ends[first] - pieces[first].n_kept))
        spans = [after, *pieces[first + 1 :], *pieces[:first], before]
        ends = np.cumsum([span.n_kept for span in spans])
        first = int(np.searchsorted(ends, skip, side="right"))
        if first == len(spans):
            return []
        _, rest = self._split(spans[first], skip - int(ends[first] - spans[first].n_kept))
        return [span for span in [rest, *spans[first + 1 :]] if span.n_kept]

    def shuffle(self, shard: int, epoch: int, chunk: int) -> np.ndarray:
        """The order in which a shard hands out the rows of a chunk, (steps, shard_batch)."""
        steps = self.steps_of(chunk)
        random = np.random.default_rng([SHUFFLE, self.seed, epoch, shard, chunk])
        return random.permutation(steps * self.shard_batch).reshape(steps, self.shard_batch)

    def n_training(self, shard: int) -> int:
        """Rows of a shard that are not held out."""
        return self._n_kept(*self.bounds(shard))

    def held_between(self, start: int, stop: int) -> np.ndarray:
        """The rows held out from `start` to `stop`, both numbered in the table."""
        return self.held_out[slice(*np.searchsorted(self.held_out, [start, stop]))]

    @cached_property
    def _pieces(self) -> list[list[Span]]:
        """For each shard, the parts of row groups that lie in it."""
        groups = self.table.groups
        starts = np.array([group.start for group in groups])
        shards = []
        for low, high in map(self.bounds, range(self.n_shards)):
            first = int(np.searchsorted(starts, low, side="right")) - 1
            last = int(np.searchsorted(starts, high, side="left"))
            pieces = []
            for group in groups[first:last]:
                start, stop = max(low, group.start), min(high, group.start + group.n_rows)
                kept = self._n_kept(start, stop)
                if kept:
                    pieces.append(Span(group, start - group.start, stop - group.start, kept))
            shards.append(pieces)
        return shards

    def _n_kept(self, start: int, stop: int) -> int:
        return stop - start - self.held_between(start, stop).size

    def _split(self, span: Span, n: int) -> tuple[Span, Span]:
        """A span before and after its first `n` training rows."""
        group = span.group
        held = self.held_between(group.start + span.start, group.start + span.stop)
        held = held.astype(np.int64) - (group.start + span.start)
        # Row h_i is held out; of the rows before it, h_i - i are not.
        passed = int(np.searchsorted(held - np.arange(held.size), n, side="right"))
        middle = span.start + n + passed if n < span.n_kept else span.stop
        return (
            Span(group, span.start, middle, n),
            Span(group, middle, span.stop, span.n_kept - n),
        )


class ShardReader:
    """The training rows of a shard from a position of an epoch on, a buffer at a time.

    Holds one block of rows. Parquet is decoded block by block, so its row groups may be of any
    size; of an Arrow file one record batch is in memory.
    """

    def __init__(self, plan: StreamPlan, columns: list[str], shard: int, epoch: int, skip: int):
        self._blocks = _blocks(plan, columns, plan.spans(shard, epoch, skip))
        self._left: pa.Table | None = None

    def take(self, n: int) -> list[pa.Table]:
        """The next `n` rows, in pieces."""
        pieces = []
        while n:
            block = next(self._blocks) if self._left is None else self._left
            pieces.append(block.slice(0, n))
            self._left = block.slice(n) if block.num_rows > n else None
            n -= pieces[-1].num_rows
        return pieces


def training_blocks(plan: StreamPlan, columns: list[str], shard: int) -> Iterator[pa.Table]:
    """All training rows of a shard in the order of the table."""
    return _blocks(plan, columns, plan._pieces[shard])


def choose_shards(batch_size: int, n_processes: int, n_rows: int | None = None) -> int:
    """How many places a batch is drawn from: 8 at most, unless more processes are to share them.

    One for few batches: places have rows enough for a batch only where there are many of them.
    """
    if batch_size < 1 or n_processes < 1 or batch_size % n_processes:
        raise ValueError(
            f"{n_processes} processes cannot share batches of {batch_size} rows equally. Use a "
            f"batch_size that is a multiple of {n_processes}, such as "
            f"{max(batch_size // max(n_processes, 1), 1) * n_processes}."
        )
    most = 8 if n_rows is None or n_rows >= FEWEST_BATCHES * batch_size else 1
    usual = next(n for n in (8, 4, 2, 1) if n <= most and batch_size % n == 0)
    return usual if usual % n_processes == 0 else n_processes


def _blocks(plan: StreamPlan, columns: list[str], spans: list[Span]) -> Iterator[pa.Table]:
    """The training rows of spans, in blocks of no more than a file's reader decodes at once."""
    for group, start, stop, _ in spans:
        position = group.start + start
        for block in plan.table.scan(group, columns, start, stop):
            n_read = block.num_rows
            held = plan.held_between(position, position + n_read)
            if held.size:
                block = block.take(np.delete(np.arange(n_read), held - position))
            position += n_read
            if block.num_rows:
                yield block
