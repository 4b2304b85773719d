"""The way from a route to its endpoint without what FastAPI does for others' endpoints."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from diglm.optional import optional
from diglm.serve.metrics import PATTERN, Receive, Scope, Send

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
else:
    Request = optional("starlette.requests", "serve").Request
    Response = optional("starlette.responses", "serve").Response


class Straight:
    """An ASGI application of one endpoint, which reads its request by hand and never raises.

    Resolving dependencies and opening exit stacks, which FastAPI does for each request, took longer
    than all that the service itself does on the loop.

    Args:
        pattern: the path, as metrics and the log tell it.
        endpoint: from a request to its answer.
    """

    def __init__(self, pattern: str, endpoint: Callable[["Request"], Awaitable["Response"]]):
        self.pattern, self.endpoint = pattern, endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        scope[PATTERN] = self.pattern
        response = await self.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)
