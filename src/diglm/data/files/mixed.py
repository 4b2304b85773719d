"""Chunks of a table in files whose few labelled rows are in memory, some of them in every batch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from diglm.data.chunks import Chunk, ChunkReader
from diglm.data.files.sharding import StreamPlan
from diglm.data.mixing import Mixing, in_turn
from diglm.types import Batch

LABELLED = 7  # first number of the seeds, which no other draw of the data layer uses


@dataclass(frozen=True, eq=False)
class MixedPlan:
    """A plan over rows without a label, with rows that have one added to each of its steps.

    Attributes:
        others: Which rows without a label make up which step.
        read_others: Gives their chunks.
        labelled: The rows with a label.
        mixture: How many of each there are in a batch.
    """

    others: StreamPlan
    read_others: Callable[..., ChunkReader]
    labelled: Batch
    mixture: Mixing

    @property
    def batch_size(self) -> int:
        """Rows of a step."""
        return self.mixture.batch_size

    @property
    def n_shards(self) -> int:
        """Parts of a step that processes share out among them."""
        return self.others.n_shards

    @property
    def n_steps(self) -> int:
        """Steps of an epoch."""
        return self.others.n_steps

    @property
    def steps_per_chunk(self) -> int:
        """Steps of a chunk; the last may have fewer."""
        return self.others.steps_per_chunk

    @property
    def n_chunks(self) -> int:
        """Chunks of an epoch."""
        return self.others.n_chunks

    @property
    def seed(self) -> int:
        """Of the order of the rows."""
        return self.others.seed

    def read(
        self, *, shards: Sequence[int], start: tuple[int, int] = (0, 0), stop_epoch: int
    ) -> ChunkReader:
        """The chunks from a position on; shards have equal parts of the labelled places."""
        everyone = np.asarray(self.labelled.labelled)
        counted = self.mixture.counted(np.asarray(self.labelled.weight), everyone)
        labelled = self.labelled._replace(weight=counted)
        a_shard = self.mixture.n_labelled // self.n_shards
        places = np.concatenate([np.arange(s * a_shard, (s + 1) * a_shard) for s in shards])

        def chunks(is_closed: Callable[[], bool]) -> Iterator[Chunk]:
            with self.read_others(shards=shards, start=start, stop_epoch=stop_epoch) as others:
                for chunk in others:
                    if is_closed():
                        return
                    picked = self._picked(chunk)[:, places]
                    pairs = zip(labelled, chunk.rows, strict=True)
                    rows = [np.concatenate([np.asarray(a)[picked], b], axis=1) for a, b in pairs]
                    yield chunk._replace(rows=Batch(*rows))

        return ChunkReader(chunks, ahead=2)

    def _picked(self, chunk: Chunk) -> np.ndarray:
        """Numbers of labelled rows, (steps, places): a function of the position alone."""
        rng = np.random.default_rng([LABELLED, self.seed, chunk.epoch, chunk.index])
        n = chunk.n_steps * self.mixture.n_labelled
        everyone = np.arange(len(self.labelled.weight))
        return in_turn(everyone, n, rng).reshape(chunk.n_steps, -1)
