"""A file of rows to a file of answers on the workers of Ray Data.

The table is divided into ranges of rows. A worker is a process that loads the model once, scores
one range after the other, and writes the answers of each to a file of its own under a temporary
name that it then replaces. A range that is scored twice, because its worker died on the way,
therefore replaces itself: no row is lost or doubled. At the end the files are joined in order.

Use `ray.init(address=...)` first to work on a cluster; without it Ray is started on this machine
and shut down again. The table and the folder of the answers, in which model and parts are kept
meanwhile, must be on storage that all machines reach by the same path. Workers compute on one core
each, never on accelerators, in the precision of the process that started them.
"""

import logging
import os
import shutil
import threading
import warnings
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from diglm.blocks import LEAST_CHUNKS
from diglm.data.files.formats import BLOCK_ROWS, pa, pq
from diglm.data.files.opening import FileTable, open_table
from diglm.predictor.answers import replacing, row_counter
from diglm.predictor.evaluate import CHUNK
from diglm.predictor.files import ROW, Columns, choose_columns, score_rows
from diglm.predictor.predictor import Predictor
from diglm.predictor.stored import load_predictor, save_predictor

UNIT_ROWS = 50_000  # of a range at least, and at most a block more
MOST_TRIES = 4  # of a range: what ends its worker each time, such as want of memory, is no accident
MOST_TASKS = 4096
OBJECT_STORE = 128 << 20  # bytes; only numbers of ranges travel through it
MODEL = "model.safetensors"
STOPPED = "stopped"  # a file that tells workers to pass over what they have not begun
RAYS_OWN = ("StreamingExecutor", "Prefetcher", "iter_threaded")  # names of Ray Data's threads
MOST_SECONDS_TO_END = 30.0
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"


def score_with_ray(
    predictor: Predictor,
    path: Path,
    out: Path,
    kept: tuple[str, ...],
    groups: str | None,
    n_workers: int | None,
    verbose: bool | str,
) -> None:
    """Score the table at `path` to `out`, as `diglm.predictor.scoring.score_file` describes.

    Parts are kept in a folder named `out` and ".parts", which is gone afterwards. What an
    interrupted run left there is removed: every call starts from the first row.
    """
    ray = _import_ray()
    parts = _empty_folder(out.with_name(f"{out.name}.parts"))
    try:
        table = open_table(path, spool=parts / "_csv")  # where every worker can read it
        columns = choose_columns(predictor, table, kept, groups)
        units = divide(table)
        save_predictor(predictor, parts / MODEL)
        worker = {
            "table": table,
            "columns": columns,
            "parts": parts,
            "x64": bool(jnp.result_type(float) == jnp.float64),
            "xla_flags": f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD}".strip(),
        }
        with row_counter(table.n_rows, verbose) as count, _running(ray, n_workers) as n:
            # Ray ends the process if its threads outlive it: all is taken in before an error is
            # raised, and units that have not begun are passed over.
            failed = None
            with closing(_map(ray, units, worker, min(n, len(units)))) as answers:
                for done in answers:
                    if done["error"] and failed is None:
                        failed = done
                        (parts / STOPPED).touch()
                    count(done["stop"] - done["start"])
        if failed is not None:
            rows = f"Rows {failed['start']} to {failed['stop']}"
            raise RuntimeError(f"{rows} cannot be scored: {failed['error']}")
        _join(parts, units, out)
    finally:
        shutil.rmtree(parts, ignore_errors=True)


def divide(table: FileTable) -> list[dict[str, int]]:
    """Ranges of rows that begin where a row group does, or a block in the midst of a large one."""
    starts = [0]
    for group in table.groups:
        for start in range(group.start, group.start + group.n_rows, BLOCK_ROWS):
            if start - starts[-1] >= UNIT_ROWS:
                starts.append(start)
    ranges = zip(starts, [*starts[1:], table.n_rows], strict=True)
    return [{"unit": i, "start": a, "stop": b} for i, (a, b) in enumerate(ranges)]


class UnitScorer:
    """Scores ranges of rows in a process of its own, each to its own file.

    Errors are answers too, so that they reach the user as they are and not as a trace of Ray's.

    Args:
        table: The rows.
        columns: Those to read.
        parts: Folder of the model and of the files to write.
        x64: Whether JAX computes in 64 bits.
        xla_flags: Flags of the compiler.
    """

    def __init__(self, table: FileTable, columns: Columns, parts: Path, x64: bool, xla_flags: str):
        self.table, self.columns, self.parts = table, columns, parts
        os.environ["XLA_FLAGS"] = xla_flags  # before the first array, with which JAX reads them
        jax.config.update("jax_enable_x64", x64)
        jax.config.update("jax_platforms", "cpu")

    @cached_property
    def model(self) -> Predictor:
        """The model, loaded once in each process."""
        return load_predictor(self.parts / MODEL)

    def __call__(self, unit: dict[str, Any]) -> dict[str, Any]:
        """Score a range; `error` of the result is empty if all went well."""
        if (self.parts / STOPPED).exists():
            return unit | {"error": ""}
        try:
            self._count_try(int(unit["unit"]))
            # Blocks that the compiled loop holds at once are evaluated without a pool of threads.
            blocks = score_rows(
                self.model,
                self.table,
                self.columns,
                int(unit["start"]),
                int(unit["stop"]),
                LEAST_CHUNKS * CHUNK,
            )
            with replacing(_part(self.parts, int(unit["unit"]))) as write:
                for answers in blocks:
                    write(answers)
        except Exception as error:
            return unit | {"error": f"{type(error).__name__}: {error}"}
        return unit | {"error": ""}

    def _count_try(self, unit: int) -> None:
        """Raise if too many workers have begun this range and not lived to end it."""
        with open(self.parts / f"tries-{unit:06d}", "ab") as tries:
            tries.write(b".")
            tries.flush()
            n_tries = tries.tell()
        if n_tries > MOST_TRIES:
            raise MemoryError(
                f"{MOST_TRIES} workers died over these rows, perhaps for want of memory. Use fewer "
                "workers, or engine='local'."
            )


def _map(
    ray: Any, units: list[dict[str, int]], worker: dict[str, Any], n_workers: int
) -> Generator[dict[str, Any], None, None]:
    """The units as they come back from a pool of `UnitScorer`s."""
    context = ray.data.DataContext.get_current()
    settings = {"enable_progress_bars": False, "print_on_execution_start": False}
    before = {name: getattr(context, name) for name in settings}
    logger = logging.getLogger("ray.data")
    level, others = logger.level, set(threading.enumerate())
    try:
        for name, value in settings.items():
            setattr(context, name, value)
        logger.setLevel(logging.ERROR)
        # Ray Data restarts a worker that died and gives it its ranges again, without limit.
        scored = ray.data.from_items(units, override_num_blocks=min(len(units), MOST_TASKS)).map(
            UnitScorer,
            fn_constructor_kwargs=worker,
            compute=ray.data.ActorPoolStrategy(size=n_workers, max_tasks_in_flight_per_actor=2),
            num_cpus=1,
        )
        yield from scored.iter_rows()
    finally:
        for thread in set(threading.enumerate()) - others:
            if thread.name.startswith(RAYS_OWN):
                thread.join(MOST_SECONDS_TO_END)
        logger.setLevel(level)
        for name, value in before.items():
            setattr(context, name, value)


@contextmanager
def _running(ray: Any, n_workers: int | None) -> Iterator[int]:
    """Yields a number of workers for Ray, which is started, and shut down, if it is not running."""
    if ray.is_initialized():
        yield n_workers or max(int(ray.cluster_resources().get("CPU", 1)), 1)
        return
    n_workers = n_workers or os.cpu_count() or 1
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a library must not report its users
    with warnings.catch_warnings():
        # JAX warns of forks; Ray's become other programs at once.
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        ray.init(
            address="local",
            num_cpus=n_workers,
            num_gpus=0,
            object_store_memory=OBJECT_STORE,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    try:
        yield n_workers
    finally:
        ray.shutdown()


def _join(parts: Path, units: list[dict[str, int]], out: Path) -> None:
    """All parts in order as one file; raises, and writes nothing, unless every row is there."""
    with replacing(out) as write:
        for unit in units:
            expected = unit["start"]
            with pq.ParquetFile(_part(parts, unit["unit"])) as part:
                for batch in part.iter_batches(BLOCK_ROWS):
                    rows = batch.column(ROW).to_numpy()
                    if rows[0] != expected or rows[-1] - rows[0] != len(rows) - 1:
                        break
                    expected += len(rows)
                    write(pa.Table.from_batches([batch]))
            if expected != unit["stop"]:
                raise RuntimeError(
                    f"The part of rows {unit['start']} to {unit['stop']} ends at row {expected}. "
                    f"Is {parts.parent} storage that all workers share? Score again."
                )


def _part(parts: Path, unit: int) -> Path:
    return parts / f"part-{unit:06d}.parquet"


def _empty_folder(folder: Path) -> Path:
    """A new folder in the place of what an interrupted run left; raises for anything else."""
    own = ("part-", ".part-", "tries-", f".{MODEL}", MODEL, "_csv", STOPPED)
    if folder.exists():
        strange = [item.name for item in folder.iterdir() if not item.name.startswith(own)]
        if strange:
            raise FileExistsError(
                f"{folder} is needed for the parts of the answers, but holds {strange[:3]}. Move "
                "it away, or choose another name for the answers."
            )
        shutil.rmtree(folder)
    folder.mkdir()
    return folder


def _import_ray() -> Any:
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ImportError("engine='ray' needs Ray: pip install 'diglm[ray]'") from error
    return ray
