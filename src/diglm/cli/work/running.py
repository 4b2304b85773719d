"""A run of `train` on disk: its folder, what makes it that run, and what Ctrl-C leaves."""

import json
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from diglm.atomic import replacing
from diglm.cli.errors import CommandError, Interrupted
from diglm.cli.terminal import Talk

HAS_ALARM = hasattr(signal, "setitimer")  # not on Windows
REPEAT_AFTER = 1.0  # seconds
STATES = "states/*"  # what training keeps in the folder, in the end
ASKED = "asked.json"  # what was asked of the run whose folder this is


class Run:
    """The folder beside a model file that holds its training until the model is whole.

    The same command finds it and goes on; another one is told.

    Args:
        out: the model file to be.
        asked: all that the result depends on, by name.
        restart: whether to begin anew whatever is there.
        talk: tells that a run is resumed.
    """

    def __init__(self, out: Path, asked: Mapping[str, object], restart: bool, talk: Talk):
        self.folder = out.with_name(f"{out.name}.run")
        self.asked = json.loads(json.dumps(asked, default=str))
        if restart and self.folder.exists():
            shutil.rmtree(self.folder)
        note = self.folder / ASKED
        if note.exists():
            before = json.loads(note.read_text())
            changed = [
                name
                for name in sorted({*before, *self.asked})
                if before.get(name) != self.asked.get(name)
            ]
            if changed:
                raise CommandError(
                    f"an unfinished run of other options is kept in {self.folder}: "
                    f"{' and '.join(changed)} {'differs' if len(changed) == 1 else 'differ'}.",
                    "give the same options to finish it, or --restart to begin anew.",
                )
            talk.say(f"Going on with the run kept in {self.folder}.")
        new = not self.folder.exists()
        self.folder.mkdir(exist_ok=True)
        try:
            with replacing(note) as file:
                file.write(json.dumps(self.asked, indent=2).encode())
        except OSError:
            if new:
                self.done()
            raise

    @contextmanager
    def kept(self, command: str) -> Iterator[None]:
        """Ctrl-C stops at the next state that can be kept, and says how to go on."""
        with _asking_first(self.folder):
            try:
                yield
            except SystemExit as error:
                if error.code != 128 + signal.SIGTERM:
                    raise
                raise Interrupted(self._left(command)) from error
            except KeyboardInterrupt as error:
                raise Interrupted(self._left(command)) from error
            except Exception:
                if not any(self.folder.glob(STATES)):
                    self.done()  # a mistake: there is nothing to go on with
                raise

    def done(self) -> None:
        """The model is whole: nothing needs to be kept."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _left(self, command: str) -> str:
        return (
            f"interrupted: the run is kept in {self.folder}.\n\n"
            f"hint: to go on, the same again: {command}\n"
            "      to begin anew, add --restart."
        )


@contextmanager
def _asking_first(folder: Path) -> Iterator[None]:
    """Ctrl-C is passed on as SIGTERM where training listens for it; a second one ends at once.

    Python loses an exception that is raised inside a callback of the garbage collector, and JAX has
    one, so an interrupt repeats until it is heard.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        listening = signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, signal.SIG_IGN, None)
        if asked or not listening:
            _alarm(REPEAT_AFTER)
            raise KeyboardInterrupt
        asked = True
        print(f"\nkeeping the run in {folder}; Ctrl-C again stops at once", file=sys.stderr)
        signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGINT, interrupt)
    alarm = signal.signal(signal.SIGALRM, _repeat) if HAS_ALARM else None
    try:
        yield
    finally:
        _alarm(0)
        signal.signal(signal.SIGINT, before)
        if HAS_ALARM:
            signal.signal(signal.SIGALRM, alarm)


def _repeat(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _alarm(seconds: float) -> None:
    if HAS_ALARM:
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
