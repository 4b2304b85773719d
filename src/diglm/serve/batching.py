"""Requests that wait together are computed together, by one thread that works off a queue.

While the thread is busy, requests queue; when it is free it takes the first and, with it, all
others of the same key, up to a number of rows. So a lone request waits for nobody, and under load
one pass serves many: what a pass costs hardly depends on how many rows are in it.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from diglm.serve.errors import Refused

Payload = TypeVar("Payload")
Result = TypeVar("Result")
LONGEST_WAIT = 30.0  # seconds that a client is asked to wait at most


@dataclass(frozen=True)
class Work(Generic[Payload, Result]):
    """One request's part of a computation.

    Attributes:
        payload: what it brings.
        size: its rows.
        compute: from payloads of several works of one key to a result, or an error, for each.
        key: works of equal keys are computed together; None for those that are computed alone.
    """

    payload: Payload
    size: int
    compute: Callable[[list[Payload]], Sequence[Result | Exception]]
    key: Hashable = None


@dataclass(frozen=True)
class _Waiting:
    work: Work
    future: asyncio.Future
    loop: asyncio.AbstractEventLoop
    until: float


@dataclass
class Batcher:
    """A bounded queue and the thread that works it off.

    Attributes:
        name: of the queue, for its thread and for metrics.
        together: most rows of a batch.
        queued: most rows that wait.
        seconds: that a request waits for its answer at most.
        note: called with the rows and requests of each batch, and the seconds that it took.
    """

    name: str
    together: int
    queued: int
    seconds: float
    note: Callable[[int, int, float], None] = lambda rows, works, seconds: None
    waiting_rows: int = 0
    _queue: deque[_Waiting] = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None
    _closed: bool = False
    _rate: float = 10_000.0  # rows a second, as lately seen

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._work, name=f"diglm-{self.name}", daemon=True)
        self._thread.start()

    def close(self, seconds: float = 10.0) -> None:
        """Answer what waits, take nothing more, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(seconds)

    async def submit(self, work: Work[Payload, Result]) -> Result:
        """The result of a work; `Refused` if there is no room, or it takes too long."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(work, loop.create_future(), loop, time.monotonic() + self.seconds)
        with self._changed:
            if self._closed:
                raise Refused(503, "The service is stopping.", retry_after=LONGEST_WAIT)
            if self.waiting_rows + work.size > self.queued:
                wait = min(self.waiting_rows / self._rate, LONGEST_WAIT)
                raise Refused(503, "Too many rows are waiting already.", retry_after=wait)
            self._queue.append(waiting)
            self.waiting_rows += work.size
            self._changed.notify()
        try:
            async with asyncio.timeout_at(loop.time() + self.seconds):
                return await waiting.future
        except TimeoutError:
            raise Refused(
                503, f"No answer within {self.seconds:g} seconds.", retry_after=LONGEST_WAIT
            ) from None

    def _work(self) -> None:
        while batch := self._next():
            started = time.perf_counter()
            results = _computed([waiting.work for waiting in batch])
            seconds = time.perf_counter() - started
            rows = sum(waiting.work.size for waiting in batch)
            self._rate += 0.2 * (rows / max(seconds, 1e-6) - self._rate)
            self.note(rows, len(batch), seconds)
            _deliver(batch, results)

    def _next(self) -> list[_Waiting]:
        """The next batch, when there is one; empty at the end."""
        with self._changed:
            while True:
                while not self._queue and not self._closed:
                    self._changed.wait()
                if not self._queue:
                    return []
                if batch := self._taken():
                    return batch

    def _taken(self) -> list[_Waiting]:
        """The first that still waits and all that go with it, out of the queue."""
        batch, rows, rest = [], 0, deque()
        now = time.monotonic()
        for waiting in self._queue:
            work = waiting.work
            if now > waiting.until:  # nobody listens any more
                self.waiting_rows -= work.size
            elif not batch or self._joins(batch[0].work, work, rows):
                batch.append(waiting)
                rows += work.size
            else:
                rest.append(waiting)
        self.waiting_rows -= rows
        self._queue = rest
        return batch

    def _joins(self, first: Work, work: Work, rows: int) -> bool:
        return first.key is not None and work.key == first.key and rows + work.size <= self.together


def _computed(works: list[Work]) -> Sequence[object]:
    """A result, or an error, for each work; never an exception, which would end the thread."""
    try:
        return works[0].compute([work.payload for work in works])
    except Exception as error:
        return [error] * len(works)


def _deliver(batch: list[_Waiting], results: Sequence[object]) -> None:
    """Hand results over to the loops that wait for them: one call for all of a loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future, object]]] = {}
    for waiting, result in zip(batch, results, strict=True):
        by_loop.setdefault(waiting.loop, []).append((waiting.future, result))
    for loop, pairs in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, pairs)


def _settle(pairs: list[tuple[asyncio.Future, object]]) -> None:
    for future, result in pairs:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
