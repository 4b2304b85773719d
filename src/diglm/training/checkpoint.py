"""Checkpoints of a long training run, with Orbax: written whole or not at all, resumed exactly."""

import json
import logging
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import jax


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or read; training goes on with what there is."""


class Position(NamedTuple):
    """The chunk that comes next."""

    epoch: int
    chunk: int


class Saved(NamedTuple):
    """What a checkpoint holds: the arrays of training, where it stood, its epochs and its time."""

    arrays: Any
    position: Position
    history: list[dict[str, float | int]]
    seconds: float


class Checkpoints:
    """The last two good states of a run in a folder.

    Orbax writes a state under a temporary name and renames it when it is complete, so a kill at
    any moment leaves the one before. `run` describes what is trained (settings, data); a folder
    that belongs to another run is refused rather than mixed up with this one.

    Args:
        folder: where; made if absent.
        run: JSON-able description of the run.
    """

    def __init__(self, folder: str | Path, run: dict[str, Any]):
        self.folder = Path(folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._claim(json.loads(json.dumps(run)))
        self._manager = _manager(self.folder / "states")

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._manager.close()

    def save(self, step: int, saved: Saved) -> None:
        """Write a state; on a full disk or another failure warn, and keep the one before."""
        import orbax.checkpoint as ocp

        leaves = {f"{i:04d}": leaf for i, leaf in enumerate(jax.tree.leaves(saved.arrays))}
        about = {
            "position": list(saved.position),
            "history": saved.history,
            "seconds": saved.seconds,
        }
        try:
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardSave(leaves), about=ocp.args.JsonSave(about)
                ),
                force=True,
            )
        except Exception as error:  # whatever the disk did, hours of training must not end here
            warnings.warn(
                f"No checkpoint was written at step {step} in {self.folder}: {error}. Training "
                "goes on; if it is interrupted now it resumes from the state before.",
                CheckpointWarning,
                stacklevel=2,
            )

    def latest(self, like: Any) -> Saved | None:
        """The newest state that can be read, as arrays like `like`; None if there is none."""
        import orbax.checkpoint as ocp

        leaves, structure = jax.tree.flatten(like)
        template = {f"{i:04d}": leaf for i, leaf in enumerate(leaves)}
        for step in sorted(self._manager.all_steps(), reverse=True):
            try:
                found = self._manager.restore(
                    step,
                    args=ocp.args.Composite(
                        state=ocp.args.StandardRestore(template), about=ocp.args.JsonRestore()
                    ),
                )
            except Exception as error:  # torn files fail in many ways
                warnings.warn(
                    f"The checkpoint of step {step} in {self.folder} cannot be read "
                    f"({type(error).__name__}: {error}); trying the one before.",
                    CheckpointWarning,
                    stacklevel=2,
                )
                self._manager.delete(step)
                continue
            arrays = [found.state[name] for name in sorted(template)]
            about = found.about
            return Saved(
                jax.tree.unflatten(structure, arrays),
                Position(*about["position"]),
                about["history"],
                about["seconds"],
            )
        return None

    def _claim(self, run: dict[str, Any]) -> None:
        """Note what this folder is for, or check that it is for the same."""
        path = self.folder / "run.json"
        if not path.exists():
            if jax.process_index() == 0:
                temporary = path.with_suffix(".new")
                temporary.write_text(json.dumps(run, indent=2))
                temporary.replace(path)
            return
        if changed := _changes(json.loads(path.read_text()), run):
            raise ValueError(
                f"The checkpoint folder {self.folder} belongs to another run: "
                f"{'; '.join(changed)}. Use "
                "another folder, or delete this one to start afresh."
            )


def _changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What differs between two descriptions, entry by entry."""
    changed = []
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            changed += _changes(old, new)
        elif old != new:
            changed.append(f"{name} was {old!r}, now {new!r}")
    return changed


def _manager(folder: Path) -> Any:
    try:
        import orbax.checkpoint as ocp
    except ImportError as error:
        raise ImportError(
            "Checkpoints need Orbax: pip install 'diglm[files]', or fit without checkpoint=."
        ) from error
    logging.getLogger("absl").setLevel(logging.ERROR)  # Orbax reports every save otherwise
    folder.mkdir(parents=True, exist_ok=True)
    return ocp.CheckpointManager(
        folder,
        options=ocp.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False),
    )
