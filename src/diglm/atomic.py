"""Files that appear under their name only when they are whole; an earlier one survives failures."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Yields a file beside `path` that takes its place if no error is raised.

    A process that is killed leaves a file whose name begins with a dot, never half a file at
    `path`; a full disk is told before anything is replaced.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
