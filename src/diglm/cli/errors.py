"""Mistakes: a line `error: ...`, a line `hint: ...`, exit code 2, and no traceback.

Exit codes are 0 for done, 1 for what came out badly (a drift was found, a fault of diglm's own), 2
for a mistake of use, 130 for an interrupt.
"""

import errno
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from typer.exceptions import TyperException

WRONG_USE, FAULT, INTERRUPTED = 2, 1, 130
NO_WORDS = "NoArgsIsHelpError"  # of a typer that does not export it
OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"
LESS = "ask for fewer rows at a time, or make a smaller model."
INSTALL = re.compile(r"pip install '?([^'\s]+)'?")


class CommandError(Exception):
    """What a person did wrong, and what to do about it."""

    def __init__(self, message: str, hint: str):
        super().__init__(message)
        self.hint = hint


class Interrupted(Exception):
    """Ctrl-C; the text says what is kept and how to go on."""


@contextmanager
def told(command: str) -> Iterator[None]:
    """Tell errors that pass as people read them, and end with their exit code."""
    try:
        yield
    except (KeyboardInterrupt, typer.Abort):
        _end("interrupted", "nothing was written.", INTERRUPTED)
    except Interrupted as error:
        print(f"\n{error}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # whoever reads our output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except CommandError as error:
        _end(str(error), error.hint, WRONG_USE)
    except TyperException as error:
        if type(error).__name__ == NO_WORDS:  # its message is the whole help
            print(_usage(error), file=sys.stderr)
            _end(f"{command} needs a command.", f"{command} --help lists them.", WRONG_USE)
        _end(_usage(error), f"see {command} --help", WRONG_USE)
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        if os.environ.get("DIGLM_DEBUG"):
            traceback.print_exc()
        _end(*_explained(error, command), WRONG_USE)
    except Exception as error:
        if OUT_OF_MEMORY in str(error):  # as XLA says it
            _end("out of memory.", LESS, WRONG_USE)
        if os.environ.get("DIGLM_DEBUG"):
            raise
        _end(
            f"{type(error).__name__}: {error}",
            "this is a fault of diglm's; DIGLM_DEBUG=1 shows where it happened.",
            FAULT,
        )


def _usage(error: TyperException) -> str:
    """What was wrong with the words of a command."""
    describe = getattr(error, "format_message", None)
    return str(describe() if describe is not None else error)


def _explained(error: Exception, command: str) -> tuple[str, str]:
    """An error of the library or of the system as a message and a hint."""
    if isinstance(error, OSError) and error.errno is not None and not error.filename:
        return _one_line(error), _about_disk(error)
    if isinstance(error, OSError) and error.errno is not None:
        return f"{error.filename}: {error.strerror}", _about_disk(error)
    if isinstance(error, ImportError) and (found := INSTALL.search(str(error))):
        return _one_line(error).partition(" hint:")[0], f"pip install '{found[1]}'"
    if isinstance(error, MemoryError):
        return f"out of memory. {error}", LESS
    return _one_line(error), f"see {command} --help"


def _about_disk(error: OSError) -> str:
    return {
        errno.ENOSPC: "free some space, or write to another disk; earlier files are as they were.",
        errno.EDQUOT: "your quota is used up; write elsewhere. Earlier files are as they were.",
        errno.EFBIG: "the file grew too large for its disk; earlier files are as they were.",
        errno.EACCES: "choose a place that you may write to, or a file that you may read.",
        errno.EROFS: "that disk cannot be written to; choose another place.",
        errno.ENOENT: "check the path; folders are not made.",
        errno.EISDIR: "name a file, not a folder.",
        errno.ENOTDIR: "a part of that path is a file; check the path.",
    }.get(error.errno or 0, "check the path and the disk.")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _end(message: str, hint: str, code: int) -> None:
    print(f"error: {' '.join(message.split())}\n\nhint: {hint}", file=sys.stderr)
    sys.exit(code)
