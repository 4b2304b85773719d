"""Chunks of training steps: what holds them, and how they are made ahead of their use."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from diglm.data.mixing import Mixing, in_turn
from diglm.types import Batch


class Chunk(NamedTuple):
    """Steps to train on.

    Attributes:
        epoch: Which pass over the table it is part of.
        index: Its number in the epoch.
        n_steps: Steps in it.
        rows: NumPy arrays (n_steps, rows of a step in this process, ...).
    """

    epoch: int
    index: int
    n_steps: int
    rows: Batch


@runtime_checkable
class AbstractPlan(Protocol):
    """How many steps there are, and in what portions they come."""

    @property
    def batch_size(self) -> int:
        """Rows of a step."""
        ...

    @property
    def n_shards(self) -> int:
        """Parts of a step that processes can share out among them."""
        ...

    @property
    def n_steps(self) -> int:
        """Steps of an epoch."""
        ...

    @property
    def steps_per_chunk(self) -> int:
        """Steps of a chunk; the last of an epoch may have fewer."""
        ...

    @property
    def n_chunks(self) -> int:
        """Chunks of an epoch."""
        ...

    @property
    def seed(self) -> int:
        """Of the order of the rows and of all noise."""
        ...


class ChunkReader:
    """An iterator whose items are made in a thread of its own, a bounded number ahead.

    An error in the thread is raised where the item would have come, with its own traceback.

    Attributes:
        waited: Seconds that the consumer has waited for chunks so far.
    """

    def __init__(self, chunks: Callable[[Callable[[], bool]], Iterator[Chunk]], ahead: int):
        self.waited = 0.0
        self._chunks, self._ahead = chunks(lambda: self._closed), ahead
        self._ready: deque[Chunk] = deque()
        self._changed = threading.Condition()
        self._closed = self._finished = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "ChunkReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> "ChunkReader":
        return self

    def __next__(self) -> Chunk:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._work, name="diglm-chunks", daemon=True)
            self._thread.start()
        since = time.perf_counter()
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._finished or self._closed)
            self.waited += time.perf_counter() - since
            if self._ready and not self._closed:
                self._changed.notify_all()
                return self._ready.popleft()
        self.close()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        raise StopIteration

    def close(self) -> None:
        """Stop reading; returns when the thread has ended, after the block it is busy with."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            for chunk in self._chunks:
                with self._changed:
                    self._changed.wait_for(lambda: len(self._ready) < self._ahead or self._closed)
                    if self._closed:
                        return
                    self._ready.append(chunk)
                    self._changed.notify_all()
                del chunk  # else it would live on here while the next one is made
        except BaseException as error:
            self._error = error
        finally:
            with self._changed:
                self._finished = True
                self._changed.notify_all()


@dataclass(frozen=True, eq=False)
class ArrayPlan:
    """Rows in memory, in a new random order every epoch; a shard is a place in the batch.

    Rows that fill no whole step at the end of an epoch are left out; the next leaves out others.
    Where few rows have a label, an epoch is one pass over the others: see `diglm.data.mixing`.

    Attributes:
        rows: NumPy arrays; rows of weight zero are never drawn.
        batch_size: Rows of a step.
        steps_per_chunk: Steps that are handed over together.
        seed: Of the order.
    """

    rows: Batch
    batch_size: int
    steps_per_chunk: int
    seed: int

    def __post_init__(self):
        if self.n_steps == 0:
            raise ValueError(
                f"There are {int(np.sum(self.rows.weight > 0))} rows to train on, too few for one "
                f"batch of {self.batch_size}. Use a smaller batch_size."
            )

    @cached_property
    def _kinds(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the rows with a label, and of those without."""
        used, known = np.asarray(self.rows.weight) > 0, np.asarray(self.rows.labelled)
        return np.flatnonzero(used & known), np.flatnonzero(used & ~known)

    @cached_property
    def mixture(self) -> Mixing:
        """How batches are made up."""
        labelled, others = self._kinds
        return Mixing.of(len(labelled), len(others), self.batch_size, multiple=8)

    @property
    def n_shards(self) -> int:
        """Every place in the batch can be another process's."""
        return self.batch_size

    @property
    def n_steps(self) -> int:
        """Steps of an epoch."""
        labelled, others = self._kinds
        n = len(others) if self.mixture.apart else len(labelled) + len(others)
        return n // self.mixture.n_others

    @property
    def n_chunks(self) -> int:
        """Chunks of an epoch; the last may have fewer steps than the others."""
        return -(-self.n_steps // self.steps_per_chunk)

    def read(
        self, *, shards: Sequence[int], start: tuple[int, int] = (0, 0), stop_epoch: int
    ) -> ChunkReader:
        """The chunks from a position on, with those places of each batch."""
        weight, labelled = (np.asarray(c) for c in (self.rows.weight, self.rows.labelled))
        rows_to_read = self.rows._replace(weight=self.mixture.counted(weight, labelled))

        def chunks(is_closed: Callable[[], bool]) -> Iterator[Chunk]:
            first = start[1]
            for epoch in range(start[0], stop_epoch):
                order = self._order(epoch)[:, list(shards)]
                for index in range(first, self.n_chunks):
                    if is_closed():
                        return
                    begin = index * self.steps_per_chunk
                    picked = order[begin : begin + self.steps_per_chunk]
                    rows = Batch(*(np.asarray(column)[picked] for column in rows_to_read))
                    yield Chunk(epoch, index, len(picked), rows)
                first = 0

        return ChunkReader(chunks, ahead=2)

    def _order(self, epoch: int) -> np.ndarray:
        """Row numbers of an epoch, (steps, batch)."""
        rng, n, mixture = np.random.default_rng([self.seed, epoch]), self.n_steps, self.mixture
        labelled, others = self._kinds
        passing = others if mixture.apart else np.sort(np.concatenate([labelled, others]))
        dealt = rng.permutation(passing)[: n * mixture.n_others].reshape(n, mixture.n_others)
        if not mixture.apart:
            return dealt
        repeated = in_turn(labelled, n * mixture.n_labelled, rng)
        return mixture.laid_out(repeated.reshape(n, mixture.n_labelled), dealt)
