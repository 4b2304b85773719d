"""Chunks of a table in files, read and encoded in the background while others are in use."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from diglm.data.chunks import Chunk, ChunkReader
from diglm.data.files.formats import pa
from diglm.data.files.sharding import ShardReader, StreamPlan, choose_shards
from diglm.types import Batch

__all__ = ["Chunk", "ChunkReader", "StreamPlan", "choose_shards", "read_chunks"]


def read_chunks(
    plan: StreamPlan,
    encode: Callable[[pa.Table], Batch],
    *,
    columns: Sequence[str],
    shards: Sequence[int],
    start: tuple[int, int] = (0, 0),
    stop_epoch: int,
    ahead: int = 2,
) -> "ChunkReader":
    """The chunks of a plan from a position on, for the process that owns some of the shards.

    Use as `with read_chunks(...) as chunks: for chunk in chunks: ...`. Rows of a step are in the
    order of `shards`; a reader of several shards hands out what readers of one each would, side by
    side. At most `ahead + 2` chunks are in memory, and a block of rows per shard.

    Args:
        plan: Which rows, and when.
        encode: Rows of `columns` to NumPy arrays, each row without regard to the others. It is
            called in the background thread.
        columns: What to read.
        shards: Numbers of the shards to read.
        start: Epoch and chunk to begin with. Nothing before it is read, but for the blocks of a
            row group that come before its first row.
        stop_epoch: The epoch before which to end.
        ahead: Chunks that may wait for the consumer.
    """
    plan.table.require(columns)
    if not shards or not all(0 <= shard < plan.n_shards for shard in shards):
        raise ValueError(f"shards must be numbers from 0 to {plan.n_shards - 1}; got {shards}.")
    if ahead < 1 or start[0] < 0 or not 0 <= start[1] <= plan.n_chunks:
        raise ValueError(
            f"start must be an epoch and a chunk from 0 to {plan.n_chunks}, and ahead positive; "
            f"got start={start} and ahead={ahead}."
        )

    def chunks(is_closed: Callable[[], bool]) -> Iterator[Chunk]:
        return _chunks(plan, encode, list(columns), list(shards), start, stop_epoch, is_closed)

    return ChunkReader(chunks, ahead)


def _chunks(
    plan: StreamPlan,
    encode: Callable[[pa.Table], Batch],
    columns: list[str],
    shards: list[int],
    start: tuple[int, int],
    stop_epoch: int,
    is_closed: Callable[[], bool],
) -> Iterator[Chunk]:
    first = start[1]
    for epoch in range(start[0], stop_epoch):
        skip = first * plan.steps_per_chunk * plan.shard_batch
        readers = [ShardReader(plan, columns, shard, epoch, skip) for shard in shards]
        for index in range(first, plan.n_chunks):
            n_steps = plan.steps_of(index)
            n = n_steps * plan.shard_batch
            pieces = []
            for reader in readers:
                pieces += reader.take(n)
                if is_closed():
                    return
            encoded = encode(pa.concat_tables(pieces))
            del pieces
            order = [i * n + plan.shuffle(shard, epoch, index) for i, shard in enumerate(shards)]
            picked = np.concatenate(order, axis=1)
            rows = Batch(*(np.asarray(column)[picked] for column in encoded))
            del encoded
            yield Chunk(epoch, index, n_steps, rows)
            del rows
        first = 0
