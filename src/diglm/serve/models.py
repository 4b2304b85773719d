"""Models by name, loaded once and replaced, whole, when their files change."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from diglm.data.kinds import name_of
from diglm.estimators import load
from diglm.predictor import Predictor
from diglm.serve.answers import Question, answer_all
from diglm.serve.bodies import Json
from diglm.serve.errors import Refused
from diglm.serve.rows import READERS, AbstractReader
from diglm.serve.settings import check_name

logger = logging.getLogger("diglm.serve")
SUFFIXES = (".diglm", ".safetensors")
Stamp = tuple[int, int, int]  # of a file: another when another file has taken its name


@dataclass(frozen=True, eq=False)  # two are the same only if they are one
class Served:
    """A loaded model. Requests keep the one that they began with, whatever happens to its name."""

    name: str
    path: Path
    predictor: Predictor
    estimator: str
    stamp: Stamp | None
    loaded: float

    @property
    def kind(self) -> str:
        """The kind of rows: "table" or "image"."""
        return name_of(self.predictor.encoder)

    @cached_property
    def reader(self) -> AbstractReader:
        """What reads its rows from JSON."""
        return READERS[self.kind](self.predictor.encoder)

    @cached_property
    def column_names(self) -> list[str]:
        """Names of the columns of its rows, in order; none for images."""
        return list(getattr(self.reader, "names", []))

    def answer(self, questions: list[Question]) -> list[dict[str, list[Json]] | Exception]:
        """Answers to questions of several requests."""
        return answer_all(self.predictor, self.reader, questions)

    def warm_up(self) -> None:
        """Compile what the first requests would else wait for, with a row and one with gaps."""
        predictor = self.predictor
        drawn = predictor.encode(predictor.sample(1, None, seed=0))
        predictor.columns(drawn)
        if np.any(predictor.encoder.can_be_missing):
            gaps = np.where(predictor.encoder.can_be_missing, np.nan, drawn.values)
            predictor.columns(replace(drawn, values=gaps))

    def warm_up_errands(self) -> None:
        """The same for draws and ways back, which most services are seldom asked for."""
        predictor = self.predictor
        drawn = predictor.encode(predictor.sample(1, None, seed=0))
        predictor.invert(predictor.features(drawn))
        predictor.between(drawn, drawn, 2)


class Models:
    """The models of a service; names are bound anew in one step, so no request sees half of one.

    Args:
        models: files by name; a name that comes with diglm, such as mnist, may stand for a file.
        folder: every model file in it is served by its name without suffix, also those that come
            later.
        changed: called with a name and "loaded", "removed" or "failed".
    """

    def __init__(
        self,
        models: Mapping[str, Path],
        folder: Path | None = None,
        changed: Callable[[str, str], None] = lambda name, what: None,
    ):
        self.given = {check_name(name): Path(path) for name, path in models.items()}
        self.folder, self.changed = folder, changed
        if folder is not None and not folder.is_dir():
            raise FileNotFoundError(f"There is no folder {folder} of models.")
        self._served: dict[str, Served] = {}
        self._failed: dict[str, Stamp | None] = {}  # files not to try again until they change
        self._lock = threading.Lock()  # one reload at a time
        self.ready = False
        for name, path in self._files().items():
            self._served[name] = _loaded(name, path)
        if not self._served and folder is None:
            raise ValueError("There is no model to serve; give at least one file.")

    # ------------------------------------------------------------------ asked

    def __iter__(self):
        """The models, by name."""
        return iter(sorted(self._served.values(), key=lambda served: served.name))

    def find(self, name: Json) -> Served:
        """The model of this name; without a name, the only one or the first that was given."""
        served = self._served
        if name is None:
            if not served:
                raise Refused(503, "No model is loaded.", retry_after=5)
            first = next(iter(self.given), None)
            return served.get(first or "") or served[min(served)]
        try:
            found = served.get(check_name(name))
        except ValueError as error:
            raise Refused(404, str(error)) from None
        if found is None:
            raise Refused(404, f"There is no model {name!r}; there are {sorted(served)[:20]}.")
        return found

    # ------------------------------------------------------------------ kept up to date

    def warm_up(self) -> None:
        """Compile for every model; the service is ready as soon as it can answer about rows."""
        for served in self:
            started = time.perf_counter()
            served.warm_up()
            seconds = time.perf_counter() - started
            logger.info("model %s is warm after %.1f s", served.name, seconds)
            self.changed(served.name, "loaded")
        self.ready = True
        for served in self:
            served.warm_up_errands()

    def refresh(self, *, force: bool = False) -> None:
        """Load the models whose files changed; `force` loads all. What fails leaves the old one."""
        with self._lock:
            files = self._files()
            for name, path in files.items():
                self._refresh_one(name, path, force)
            for name in set(self._served) - set(files):
                self._served = {n: s for n, s in self._served.items() if n != name}
                logger.info("model %s is gone", name)
                self.changed(name, "removed")

    def _refresh_one(self, name: str, path: Path, force: bool) -> None:
        stamp, old = _stamp(path), self._served.get(name)
        known = old is not None and old.stamp == stamp
        if not force and (known or (name in self._failed and self._failed[name] == stamp)):
            return
        if stamp is None and old is not None and old.stamp is not None:
            return  # its file is gone: the model in memory goes on
        try:
            served = _loaded(name, path)
            served.warm_up()
        except Exception as error:  # whatever is wrong with a file, the old model goes on
            self._failed[name] = stamp
            logger.error("model %s was not loaded: %s", name, error)
            self.changed(name, "failed")
            return
        self._failed.pop(name, None)
        self._served = {**self._served, name: served}
        logger.info("model %s was loaded", name)
        self.changed(name, "loaded")

    def _files(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        if self.folder is not None and self.folder.is_dir():
            for path in sorted(self.folder.iterdir()):
                if path.suffix in SUFFIXES and path.is_file() and not path.name.startswith("."):
                    try:
                        found[check_name(path.stem)] = path
                    except ValueError as error:
                        logger.warning("file %s is not served: %s", path.name, error)
        return {**found, **self.given}


def _loaded(name: str, path: Path) -> Served:
    stamp = _stamp(path)  # before reading: a change meanwhile is seen at the next look
    model = load(path)
    return Served(name, path, model.predictor_, type(model).__name__, stamp, time.time())


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
