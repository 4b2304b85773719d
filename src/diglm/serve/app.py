"""The service as an ASGI application, and as a program."""

import asyncio
import logging
import math
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from diglm.__about__ import __version__
from diglm.optional import optional, require
from diglm.serve.batching import Batcher
from diglm.serve.errors import HINTS, Refused, refusal
from diglm.serve.metrics import Metrics, Watched
from diglm.serve.models import Models
from diglm.serve.openapi import PATHS
from diglm.serve.protocol import within
from diglm.serve.security import Guard, hosts_of
from diglm.serve.service import Service
from diglm.serve.settings import Limits, check_binding
from diglm.serve.straight import Straight

if TYPE_CHECKING:
    import fastapi
    import uvicorn
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
else:
    fastapi, uvicorn = optional("fastapi", "serve"), optional("uvicorn", "serve")
    HTTPException = optional("starlette.exceptions", "serve").HTTPException
    Request = optional("starlette.requests", "serve").Request
    Response = optional("starlette.responses", "serve").Response
    Route = optional("starlette.routing", "serve").Route

logger = logging.getLogger("diglm.serve")
prometheus_client = optional("prometheus_client", "serve")
httptools = optional("httptools", "serve")


def create_app(
    models: Mapping[str, Path],
    *,
    folder: Path | None = None,
    host: str = "127.0.0.1",
    hosts: Sequence[str] = (),
    token: str | None = None,
    limits: Limits | None = None,
) -> "fastapi.FastAPI":
    """The ASGI application that serves `models`; see `serve` for the arguments.

    Files are read here, so what is wrong with them is an error now; programs are compiled once the
    application runs, and /ready tells when they are.
    """
    for package in (fastapi, uvicorn, prometheus_client, httptools):
        require(package)
    limits = limits or Limits()
    rows, errands = (
        Batcher(name, limits.together, limits.queued_rows, limits.seconds)
        for name in ("rows", "errands")
    )
    metrics = Metrics({queue.name: queue for queue in (rows, errands)})
    rows.note = metrics.note_batch
    store = Models(models, folder, metrics.note_change)
    service = Service(store, rows, errands, metrics, limits)

    @asynccontextmanager
    async def lifespan(app: "fastapi.FastAPI") -> AsyncIterator[None]:
        rows.start()
        errands.start()
        tasks = [asyncio.create_task(_keep_fresh(store, limits.watch_seconds))]
        with _reload_on_hangup(store, tasks):
            yield
        for task in tasks:
            task.cancel()
        for queue in (rows, errands):
            await asyncio.to_thread(queue.close, limits.grace_seconds)

    app = fastapi.FastAPI(
        title="diglm",
        version=__version__,
        summary="Predictions that say when not to be trusted.",
        docs_url=None,  # their pages load scripts from other hosts
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers={HTTPException: _refuse_path},
    )
    for path in PATHS:
        bound = path.endpoint.__get__(service)
        straight = Straight(path.path, bound)
        app.router.routes.append(Route(path.path, straight, methods=[path.method]))
        app.add_api_route(  # behind the one that answers: it describes
            path.path,
            bound,
            methods=[path.method],
            responses=path.responses(),
            openapi_extra=path.extra(),
            include_in_schema=path.shown,
            response_model=None,
            response_class=Response,
        )
    app.add_middleware(Watched, metrics=metrics)
    app.add_middleware(Guard, hosts=hosts_of(host, hosts), token=token)
    app.state.service = service
    return app


def serve(
    models: Mapping[str, Path],
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    allow_public: bool = False,
    *,
    folder: Path | None = None,
    hosts: Sequence[str] = (),
    limits: Limits | None = None,
) -> None:
    """Serve models until told to stop (Ctrl-C or SIGTERM); SIGHUP loads their files anew.

    Args:
        models: files by the name they are asked by; the first answers requests that name none.
        host: address to listen at. Others than loopback need a token, or `allow_public`.
        port: to listen at.
        token: what clients must show as a bearer token; None for nothing.
        allow_public: that other machines may ask without a token.
        folder: of model files that are served too, also those that come later.
        hosts: further names that clients may ask for, where the service is behind another name.
        limits: on size, rows and time.
    """
    check_binding(host, token, allow_public)
    limits = limits or Limits()
    _log_to_stderr()
    app = create_app(models, folder=folder, host=host, hosts=hosts, token=token, limits=limits)
    config = uvicorn.Config(
        app,
        http=within(limits),
        ws="none",
        access_log=False,  # it would tell whole paths; ours tells their patterns
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=math.ceil(limits.grace_seconds),
    )
    with _listening(host, port, limits.connections) as listener:
        port = listener.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        logger.info("serving %s at http://%s:%d", ", ".join(models) or "a folder", shown, port)
        uvicorn.Server(config).run([listener])


def _listening(host: str, port: int, backlog: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=backlog)
    except OSError as error:
        raise OSError(
            f"Cannot listen at {host}, port {port}: {error.strerror or error}. Choose another port."
        ) from error


def _log_to_stderr() -> None:
    """Show what happens, unless the program that called us has its own way to."""
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)


async def _keep_fresh(store: Models, seconds: float) -> None:
    """Compile, then look at the files of the models now and then."""
    await asyncio.to_thread(store.warm_up)
    while True:
        await asyncio.sleep(seconds)
        await asyncio.to_thread(store.refresh)


class _reload_on_hangup:
    """While it is entered, SIGHUP loads all models anew, where there is such a signal."""

    def __init__(self, store: Models, tasks: list[asyncio.Task]):
        self.store, self.tasks = store, tasks

    def __enter__(self) -> None:
        with suppress(NotImplementedError, RuntimeError, ValueError, AttributeError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)

    def __exit__(self, *_: object) -> None:
        with suppress(NotImplementedError, RuntimeError, ValueError, AttributeError):
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)

    def _reload(self) -> None:
        reload = asyncio.to_thread(lambda: self.store.refresh(force=True))
        self.tasks.append(asyncio.create_task(reload))


async def _refuse_path(request: Request, error: Exception) -> Response:
    """What the router refuses, in the shape of every refusal."""
    status = getattr(error, "status_code", 500)
    method, path = request.method, request.url.path
    what = f"There is no {method:.10} {path!r:.80}." if status == 404 else "That is not allowed."
    refused = refusal(Refused(status if status in HINTS else 400, what))
    for name, value in (getattr(error, "headers", None) or {}).items():
        refused.headers[name] = value
    return refused
