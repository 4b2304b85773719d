"""Where training runs: one device, or the rows of each batch spread over devices and hosts."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from diglm.rows import DEVICES
from diglm.types import Batch


class LostProcessError(RuntimeError):
    """Another process of the run ended, so this one cannot go on."""


def connect(
    address: str | None = None,
    n_processes: int | None = None,
    process_id: int | None = None,
    *,
    join_seconds: int = 300,
    lost_seconds: int = 60,
) -> None:
    """Join the processes of a run; call it first, in every process, before any JAX work.

    Without arguments JAX finds the others by itself under SLURM, Open MPI and Kubernetes. Elsewhere
    give the `host:port` of process 0, how many processes there are, and which one this is.

    Args:
        address: where process 0 listens.
        n_processes: how many processes there are.
        process_id: which one this is, from 0.
        join_seconds: how long to wait for the others.
        lost_seconds: a process that has been silent for so long is taken for lost, and the others
            end rather than wait for it.
    """
    try:
        jax.distributed.initialize(
            address,
            n_processes,
            process_id,
            initialization_timeout=join_seconds,
            heartbeat_timeout_seconds=lost_seconds,
            shutdown_timeout_seconds=lost_seconds,
        )
    except (ValueError, RuntimeError) as error:
        raise RuntimeError(
            f"The processes of the run did not find one another: {error}. Give every process the "
            "same address of process 0 (host:port) and n_processes, and its own process_id."
        ) from error


def use_every_core() -> None:
    """Make each core of the CPU a device of its own, among which steps on images are divided.

    Call it before any JAX work; afterwards it changes nothing.
    """
    try:
        jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)
    except RuntimeError:  # JAX has started
        return


class Layout:
    """Model replicated, rows of a batch divided evenly over all devices of all processes.

    On one device it changes nothing, so that the program is the ordinary one.
    """

    def __init__(self) -> None:
        devices = np.array(jax.devices())
        self.n_processes, self.process = jax.process_count(), jax.process_index()
        self.mesh = Mesh(devices, (DEVICES,)) if devices.size > 1 else None
        self.n_devices = int(devices.size)

    def replicate(self, tree: Any) -> Any:
        """The arrays of a tree on every device."""
        if self.mesh is None:
            return jax.tree.map(_on_device, tree)
        everywhere = NamedSharding(self.mesh, PartitionSpec())

        def put(leaf: Any) -> Any:
            if not isinstance(leaf, jax.Array | np.ndarray):
                return leaf
            if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                words = put(jax.random.key_data(leaf))
                return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
            return jax.make_array_from_process_local_data(everywhere, np.asarray(leaf))

        return jax.tree.map(put, tree)

    def spread(self, chunk: Batch) -> Batch:
        """This process's part of a chunk, (steps, rows, ...), as its part of the whole chunk."""
        if self.mesh is None:
            return jax.tree.map(jnp.asarray, chunk)
        by_rows = NamedSharding(self.mesh, PartitionSpec(None, DEVICES))
        return jax.tree.map(
            lambda column: jax.make_array_from_process_local_data(by_rows, column), chunk
        )

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process; all of them must ask."""
        if self.n_processes == 1:
            return flag
        with self.working_together():
            return bool(np.any(process_allgather(np.array(flag))))

    @contextmanager
    def working_together(self) -> Iterator[None]:
        """Say what a failed step means where several processes take it."""
        try:
            yield
        except (jax.errors.JaxRuntimeError, ValueError) as error:  # JAX raises the one or the other
            if self.n_processes == 1:
                raise
            raise LostProcessError(
                f"A step of {self.n_processes} processes failed in process {self.process}, most "
                "often because another one ended: see what the others say. Then start all of them "
                f"again; with checkpoint= they resume. JAX reports: {error}"
            ) from error

    def gather(self, tree: Any) -> Any:
        """Replicated arrays as this process's own, for use outside the mesh."""
        return jax.tree.map(
            lambda leaf: jnp.asarray(np.asarray(leaf)) if isinstance(leaf, jax.Array) else leaf,
            tree,
        )


def _on_device(leaf: Any) -> Any:
    return jnp.asarray(leaf) if isinstance(leaf, jax.Array | np.ndarray) else leaf
