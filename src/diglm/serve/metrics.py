"""What an operator watches: counts and times for Prometheus, and a log without contents of rows."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import Any

from diglm.__about__ import __version__
from diglm.optional import optional
from diglm.serve.batching import Batcher

prometheus: Any = optional("prometheus_client", "serve")

logger = logging.getLogger("diglm.serve")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
PATTERN = "diglm.pattern"  # where a scope tells which of our paths was asked for
TIMES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


class Metrics:
    """Counters of one service, in a registry of their own."""

    def __init__(self, queues: Mapping[str, Batcher]):
        self.registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self.registry)
        make = {"registry": self.registry}
        self.requests = prometheus.Counter(
            "diglm_requests", "Requests answered", ["path", "status"], **make
        )
        self.seconds = prometheus.Histogram(
            "diglm_request_seconds", "Time to answer", ["path"], buckets=TIMES, **make
        )
        self.rows = prometheus.Counter(
            "diglm_rows",
            "Rows answered, and whether they were refused",
            ["model", "rejected"],
            **make,
        )
        self.batch_rows = prometheus.Histogram(
            "diglm_batch_rows", "Rows computed together", buckets=ROWS, **make
        )
        self.batch_requests = prometheus.Histogram(
            "diglm_batch_requests", "Requests computed together", buckets=ROWS[:10], **make
        )
        self.batch_seconds = prometheus.Histogram(
            "diglm_batch_seconds", "Time to compute a batch", buckets=TIMES, **make
        )
        self.changes = prometheus.Counter(
            "diglm_model_changes", "Models loaded, removed or failed", ["model", "what"], **make
        )
        waiting = prometheus.Gauge("diglm_waiting_rows", "Rows that wait", ["queue"], **make)
        for name, queue in queues.items():
            waiting.labels(name).set_function(partial(getattr, queue, "waiting_rows"))
        prometheus.Info("diglm", "The version", **make).info({"version": __version__})

    def note_batch(self, rows: int, requests: int, seconds: float) -> None:
        """Count a batch."""
        self.batch_rows.observe(rows)
        self.batch_requests.observe(requests)
        self.batch_seconds.observe(seconds)

    def note_rows(self, model: str, rejected: list[bool]) -> None:
        """Count rows that were answered."""
        refused = sum(rejected)
        self.rows.labels(model, "no").inc(len(rejected) - refused)
        if refused:
            self.rows.labels(model, "yes").inc(refused)

    def note_change(self, model: str, what: str) -> None:
        """Count a model that was loaded, removed, or could not be loaded."""
        self.changes.labels(model, what).inc()

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return prometheus.generate_latest(self.registry)


class Watched:
    """An ASGI application whose requests are counted, timed and logged, never by content."""

    def __init__(self, app: App, metrics: Metrics):
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and look at the status of its answer."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started, status = time.perf_counter(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noted)
        finally:
            seconds = time.perf_counter() - started
            path = scope.get(PATTERN, "other")  # names of models stay out
            self.metrics.requests.labels(path, status).inc()
            self.metrics.seconds.labels(path).observe(seconds)
            logger.info("%s %s %d %.1f ms", scope["method"], path, status, 1e3 * seconds)
