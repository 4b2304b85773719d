"""Who may ask: hosts, origins and tokens, checked before anything of a request is read."""

import hmac
from collections.abc import Mapping, Sequence

from diglm.serve.errors import Refused, refusal
from diglm.serve.metrics import App, Message, Receive, Scope, Send
from diglm.serve.settings import LOOPBACK, is_everywhere, is_loopback

# Without a token: the page, which asks for it, and what tells only that the service is alive.
OPEN = ("/", "/health", "/ready")
OPEN_FOLDER = "/page/"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
ADDED = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
CACHE = (b"cache-control", b"no-store")  # unless an answer says otherwise


class Guard:
    """An ASGI application behind its checks.

    A page of another origin may make a browser send requests to a service on this machine, under
    another name for it too (DNS rebinding). So the name asked for must be one of the service's own,
    and requests that a browser marks as another origin's are refused. No answer carries headers
    that would let other origins read it.

    Args:
        app: what is guarded.
        hosts: names that the service goes by, without port; empty for any.
        token: what must be shown as a bearer token; None for nothing.
    """

    def __init__(self, app: App, hosts: frozenset[str], token: str | None):
        self.app, self.hosts = app, hosts
        self.token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it; either way with headers that browsers heed."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                stored = any(name == CACHE[0] for name, _ in headers)
                message["headers"] = [*headers, *ADDED, *(() if stored else (CACHE,))]
            await send(message)

        try:
            self._check(scope)
        except Refused as refused:
            return await refusal(refused)(scope, receive, with_headers)
        await self.app(scope, receive, with_headers)

    def _check(self, scope: Scope) -> None:
        headers = {name: value.decode("latin-1") for name, value in reversed(scope["headers"])}
        host = headers.get(b"host", "")
        if self.hosts and _without_port(host) not in self.hosts:
            raise Refused(421, f"This service is not {host!r:.80}.")
        origin = headers.get(b"origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise Refused(403, f"The origin {origin!r:.80} is not this service.")
        navigates = scope["method"] == "GET" and headers.get(b"sec-fetch-mode") == "navigate"
        if headers.get(b"sec-fetch-site") in ("cross-site", "same-site") and not navigates:
            raise Refused(403, "The request was made by a page of another origin.")
        self._check_token(scope["path"], headers)

    def _check_token(self, path: str, headers: Mapping[bytes, str]) -> None:
        if self.token is None or path in OPEN or path.startswith(OPEN_FOLDER):
            return
        given = headers.get(b"authorization", "")
        scheme, _, shown = given.partition(" ")
        right = hmac.compare_digest(shown.strip().encode(), self.token)  # in constant time
        if scheme.lower() != "bearer" or not right:
            raise Refused(401, "The token is wrong." if given else "A token is needed.")


def hosts_of(host: str, more: Sequence[str]) -> frozenset[str]:
    """Names that a service bound to `host` goes by; empty for any.

    Bound to every address, a service cannot know its names; it takes any unless told.
    """
    named = frozenset(name.lower() for name in more)
    if is_loopback(host):
        return named | frozenset(LOOPBACK) | {_bracketed(host)}
    if is_everywhere(host):
        return named | frozenset(LOOPBACK) if named else frozenset()
    return named | {_bracketed(host)}


def _without_port(host: str) -> str:
    name = host.strip().lower()
    head, separator, port = name.rpartition(":")
    return head if separator and port.isdecimal() and not name.endswith("]") else name


def _bracketed(host: str) -> str:
    return f"[{host.lower()}]" if ":" in host and not host.startswith("[") else host.lower()
