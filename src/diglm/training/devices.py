"""Where training runs: one device, or the rows of each batch spread over devices and hosts."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from diglm.types import Batch

ROWS = "rows"  # the one axis of the mesh


def connect(
    address: str | None = None, n_processes: int | None = None, process_id: int | None = None
) -> None:
    """Join the processes of a run; call it first, in every process, before any JAX work.

    Without arguments JAX finds the others by itself under SLURM, Open MPI and Kubernetes. Elsewhere
    give the `host:port` of process 0, how many processes there are, and which one this is.
    """
    try:
        jax.distributed.initialize(address, n_processes, process_id)
    except (ValueError, RuntimeError) as error:
        raise RuntimeError(
            f"The processes of the run did not find one another: {error}. Give every process the "
            "same address of process 0 (host:port) and n_processes, and its own process_id."
        ) from error


class Layout:
    """Model replicated, rows of a batch divided evenly over all devices of all processes.

    On one device it changes nothing, so that the program is the ordinary one.
    """

    def __init__(self) -> None:
        devices = np.array(jax.devices())
        self.n_processes, self.process = jax.process_count(), jax.process_index()
        self.mesh = Mesh(devices, (ROWS,)) if devices.size > 1 else None
        self.n_devices = int(devices.size)

    def replicate(self, tree: Any) -> Any:
        """The arrays of a tree on every device."""
        if self.mesh is None:
            return jax.tree.map(_on_device, tree)
        everywhere = NamedSharding(self.mesh, PartitionSpec())
        return jax.tree.map(
            lambda leaf: (
                jax.make_array_from_process_local_data(everywhere, np.asarray(leaf))
                if isinstance(leaf, jax.Array | np.ndarray)
                else leaf
            ),
            tree,
        )

    def spread(self, chunk: Batch) -> Batch:
        """This process's part of a chunk, (steps, rows, ...), as its part of the whole chunk."""
        if self.mesh is None:
            return jax.tree.map(jnp.asarray, chunk)
        by_rows = NamedSharding(self.mesh, PartitionSpec(None, ROWS))
        return jax.tree.map(
            lambda column: jax.make_array_from_process_local_data(by_rows, column), chunk
        )

    def gather(self, tree: Any) -> Any:
        """Replicated arrays as this process's own, for use outside the mesh."""
        return jax.tree.map(
            lambda leaf: jnp.asarray(np.asarray(leaf)) if isinstance(leaf, jax.Array) else leaf,
            tree,
        )


def _on_device(leaf: Any) -> Any:
    return jnp.asarray(leaf) if isinstance(leaf, jax.Array | np.ndarray) else leaf
