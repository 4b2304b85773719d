"""Every refusal has one shape: what is wrong, and what to do."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from diglm.optional import optional

if TYPE_CHECKING:
    from starlette.responses import Response
else:
    Response = optional("starlette.responses", "serve").Response

LONGEST = 1_000  # characters of a message: values in it come from the request
HINTS: dict[int, str] = {
    400: "Send a JSON object in UTF-8; numbers are finite, and null stands for a missing value.",
    401: "Send the header: Authorization: Bearer TOKEN",
    403: "Requests from pages of other origins are not answered.",
    404: "GET /models lists the models; GET /openapi.json describes every path.",
    405: "GET /openapi.json tells which methods each path has.",
    408: "Send the whole request at once.",
    411: "Send a body, with Content-Length or chunked.",
    413: "Send fewer rows at a time.",
    415: "Send the header Content-Type: application/json, and no Content-Encoding.",
    421: "Ask by the name or address that the service was started for.",
    422: "GET /models/NAME tells what the model takes.",
    431: "Send fewer or shorter headers.",
    500: "The service goes on. Its log has the place of the error, without contents of rows.",
    501: "GET /models/NAME tells what the model can be asked.",
    503: "Wait as long as Retry-After says, then ask again.",
}


class Refused(Exception):
    """A request that is not answered.

    Args:
        status: HTTP status.
        error: what is wrong with the request.
        hint: what to do; None for the usual one of the status.
        retry_after: seconds after which to ask again.
    """

    def __init__(
        self, status: int, error: str, hint: str | None = None, *, retry_after: float | None = None
    ):
        super().__init__(error)
        self.status, self.error, self.hint = status, error, hint or HINTS[status]
        self.retry_after = retry_after

    @property
    def content(self) -> bytes:
        """The body of the answer."""
        return as_json({"error": shortened(self.error), "hint": shortened(self.hint)})

    @property
    def headers(self) -> dict[str, str]:
        """What stands above it."""
        found: dict[str, str] = {}
        if self.retry_after is not None:
            found["Retry-After"] = str(max(1, round(self.retry_after)))
        if self.status == 401:
            found["WWW-Authenticate"] = "Bearer"
        if self.status in (408, 413):  # what is still to come is not read
            found["Connection"] = "close"
        return found


def as_json(content: object) -> bytes:
    """JSON in ASCII: whatever text a request holds, halves of surrogates too, can be given back."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def answer(
    content: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer in JSON."""
    body = content if isinstance(content, bytes) else as_json(content)
    return Response(body, status, headers, media_type="application/json")


def refusal(refused: Refused) -> Response:
    """The answer to a request that is refused."""
    return answer(refused.content, refused.status, refused.headers)


def shortened(text: str) -> str:
    """A message that cannot grow with what was sent."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
