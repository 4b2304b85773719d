"""Every data set of the studies by name, and whether it is on this machine."""

import os
from collections.abc import Sequence

from diglm.data.downloads import ADBENCH, FLIGHTS_2008, UCI_REGRESSION, Source, locate
from diglm.data.image_sets import IMAGE_SETS, files_of


def data_sets() -> dict[str, tuple[tuple[Source, ...], ...]]:
    """The files of each data set, in the collections that hold it."""
    tables = {"uci": UCI_REGRESSION, "flights": FLIGHTS_2008, "adbench": ADBENCH}
    found = {name: ((source,),) for name, source in tables.items()}
    return found | {name: files_of(name) for name in IMAGE_SETS}


def all_here(files: Sequence[Source], data_dir: str | os.PathLike | None = None) -> bool:
    """Whether every one of the files is on this machine."""
    return all(locate(source, data_dir) is not None for source in files)


def is_here(name: str, data_dir: str | os.PathLike | None = None) -> bool:
    """Whether one of the collections that hold a data set is on this machine, whole."""
    return any(all_here(files, data_dir) for files in data_sets()[name])
