"""uvicorn's HTTP protocol with three things it leaves open: slow, long and too many requests."""

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar

from diglm.optional import optional
from diglm.serve.errors import Refused
from diglm.serve.settings import Limits

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
else:
    HttpToolsProtocol = optional("uvicorn.protocols.http.httptools_impl", "serve").HttpToolsProtocol


class PunctualProtocol(HttpToolsProtocol):
    """Ends connections whose requests do not begin, or whose heads do not end, in time.

    Limits are set on a subclass (`within`), because uvicorn makes the instances.
    """

    limits: ClassVar[Limits] = Limits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock, or turn the connection away if there are too many."""
        super().connection_made(transport)
        self._late: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        if len(self.connections) > self.limits.connections:
            self._end(Refused(503, "There are too many connections.", retry_after=5))
        else:
            self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_clock()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Another head begins."""
        super().on_message_begin()
        self._head_bytes = 0
        self._start_clock()

    def data_received(self, data: bytes) -> None:
        """Count what arrives before the head is there."""
        super().data_received(data)
        if self._late is not None:
            self._count(len(data))

    def on_headers_complete(self) -> None:
        """The head is there: what follows has its own limits."""
        self._stop_clock()
        self._count(len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers))
        if not self.transport.is_closing():
            super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in the shape of every refusal."""
        if not self.transport.is_closing():
            self._end(Refused(400, "The request is not HTTP.", "Send a request of HTTP/1.1."))

    def _count(self, n_bytes: int) -> None:
        self._head_bytes += n_bytes
        if self._head_bytes > self.limits.header_bytes and not self.transport.is_closing():
            most = self.limits.header_bytes
            self._end(Refused(431, f"The head of the request is longer than {most} bytes."))

    def _start_clock(self) -> None:
        self._stop_clock()
        self._late = self.loop.call_later(self.limits.header_seconds, self._time_is_up)

    def _stop_clock(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _time_is_up(self) -> None:
        seconds = self.limits.header_seconds
        self._end(Refused(408, f"The request did not arrive within {seconds:g} seconds."))

    def _end(self, refused: Refused) -> None:
        """Answer and close, without asking the application."""
        status = HTTPStatus(refused.status)
        lines = [f"HTTP/1.1 {status.value} {status.phrase}", "content-type: application/json"]
        lines += [f"{name.lower()}: {value}" for name, value in refused.headers.items()]
        lines += [f"content-length: {len(refused.content)}", "connection: close", "", ""]
        self.transport.write("\r\n".join(dict.fromkeys(lines[:-2])).encode() + b"\r\n\r\n")
        self.transport.write(refused.content)
        self.transport.close()


def within(limits: Limits) -> type[PunctualProtocol]:
    """The protocol with these limits."""
    return type("LimitedProtocol", (PunctualProtocol,), {"limits": limits})
