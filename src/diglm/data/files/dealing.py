"""A table in random order: its rows dealt into buckets on disk, each bucket shuffled in memory.

Files are often in order of time. A buffer that walks along such a file shows a model one week after
the other, and what it learns last is the last week. Dealing costs one more pass and a copy on disk,
in memory that does not grow with the table, and every chunk is then a fair sample.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from diglm.data.files.formats import BLOCK_ROWS, pa
from diglm.data.files.opening import FileTable, RowGroup
from diglm.data.files.sharding import StreamPlan, training_blocks

BUCKET_ROWS = 65_536
MOST_BUCKETS = 256  # a shard; each is an open file while rows are dealt
DEAL, MIX = 5, 6  # first numbers of the seeds, which no other draw of the data layer uses


def deal(
    plan: StreamPlan, columns: Sequence[str], *, shards: Sequence[int], folder: Path
) -> StreamPlan:
    """The plan over a copy of its training rows in which each shard is in random order.

    Which row goes where is a function of the table and the seed. A shard's file appears once it is
    complete, and one that is there already is used as it is.

    Args:
        plan: which rows there are; its shards stay what they are.
        columns: what to copy.
        shards: those to copy; of the others only the number of rows is worked out.
        folder: where the copy is kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([_plain(plan.table.schema.field(name)) for name in columns])
    groups, cuts, start = [], [0], 0
    for shard in range(plan.n_shards):
        path = folder / f"shard-{shard:03d}.arrow"
        if shard in shards and not path.exists():
            _deal_shard(plan, shard, schema, path)
        for index, n_rows in enumerate(_bucket_sizes(plan, shard)):
            groups.append(RowGroup(path, index, start, n_rows))
            start += n_rows
        cuts.append(start)
    filled = tuple(group for group in groups if group.n_rows)
    table = FileTable("arrow", schema, filled, plan.table.sources)
    return replace(plan, table=table, held_out=np.zeros(0, np.int64), cuts=tuple(cuts))


def _deal_shard(plan: StreamPlan, shard: int, schema: pa.Schema, path: Path) -> None:
    work = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.stem}."))
    try:
        n_buckets = _n_buckets(plan.n_training(shard))
        buckets = [work / f"{i}.arrows" for i in range(n_buckets)]
        choose = _choices(plan, shard)
        with ExitStack() as open_files:
            writers = [
                open_files.enter_context(pa.ipc.new_stream(str(bucket), schema))
                for bucket in buckets
            ]
            for block in training_blocks(plan, schema.names, shard):
                block = block.cast(schema)
                order, ends = _by_bucket(choose(block.num_rows), n_buckets)
                sorted_rows = block.take(order).combine_chunks()
                for i, writer in enumerate(writers):
                    part = sorted_rows.slice(ends[i], ends[i + 1] - ends[i])
                    if part.num_rows:
                        writer.write_table(part)
        with pa.ipc.new_file(str(work / "mixed"), schema) as out:
            for i, bucket in enumerate(buckets):
                rows = pa.ipc.open_stream(str(bucket)).read_all()
                random = np.random.default_rng([MIX, plan.seed, shard, i])
                mixed = rows.take(random.permutation(rows.num_rows)).combine_chunks()
                none = pa.RecordBatch.from_pylist([], schema)  # an empty bucket keeps its number
                out.write_batch(mixed.to_batches()[0] if mixed.num_rows else none)
                bucket.unlink()
        os.replace(work / "mixed", path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _n_buckets(n_rows: int) -> int:
    return int(np.clip(-(-n_rows // BUCKET_ROWS), 1, MOST_BUCKETS))


def _choices(plan: StreamPlan, shard: int):
    """A function that gives the buckets of the next so many rows of a shard."""
    random = np.random.default_rng([DEAL, plan.seed, shard])
    n_buckets = _n_buckets(plan.n_training(shard))
    return lambda n: (random.random(n) * n_buckets).astype(np.int64)


def _bucket_sizes(plan: StreamPlan, shard: int) -> list[int]:
    """Rows of each bucket of a shard, from the draws alone."""
    n_rows = plan.n_training(shard)
    sizes, choose = np.zeros(_n_buckets(n_rows), np.int64), _choices(plan, shard)
    for n in _strides(n_rows):
        sizes += np.bincount(choose(n), minlength=len(sizes))
    return sizes.tolist()


def _strides(n_rows: int) -> Iterator[int]:
    for start in range(0, n_rows, BLOCK_ROWS):
        yield min(BLOCK_ROWS, n_rows - start)


def _by_bucket(chosen: np.ndarray, n_buckets: int) -> tuple[np.ndarray, list[int]]:
    """Rows sorted by bucket, and where each bucket begins and ends among them."""
    order = np.argsort(chosen, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(chosen, minlength=n_buckets))])
    return order, ends.tolist()


def _plain(field: pa.Field) -> pa.Field:
    """Categories as their values: the dictionaries of different blocks may differ."""
    kind = field.type
    return pa.field(field.name, kind.value_type) if pa.types.is_dictionary(kind) else field
