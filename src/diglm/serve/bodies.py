"""Bodies of requests: read within limits of size and time, and as strict JSON."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, NoReturn

from diglm.serve.errors import Refused
from diglm.serve.settings import Limits

Json = Any  # what JSON holds: None, bool, int, float, str, lists and dictionaries of them
LARGE = 2**16  # bytes; larger bodies are read beside the loop that answers everybody
LINGER = 8  # times the largest body that is passed over, so that a sender hears why


async def read_object(
    headers: Mapping[str, str], chunks: AsyncIterator[bytes], limits: Limits
) -> dict[str, Json]:
    """The JSON object of a request's body."""
    check_type(headers)
    try:
        async with asyncio.timeout(limits.body_seconds):
            body = await _read(headers, chunks, limits.body_bytes)
    except TimeoutError:
        raise Refused(
            408, f"The body did not arrive within {limits.body_seconds:g} seconds."
        ) from None
    return parsed(body) if len(body) < LARGE else await asyncio.to_thread(parsed, body)


def check_type(headers: Mapping[str, str]) -> None:
    """Refuse what is not JSON. Pages of other origins cannot send this type unasked."""
    given = headers.get("content-type", "")
    kind, _, rest = given.partition(";")
    charset = rest.strip().lower().removeprefix("charset=").strip('"')
    if kind.strip().lower() != "application/json" or charset not in ("", "utf-8", "utf8"):
        raise Refused(415, f"Expected a body of type application/json; got {given!r:.80}.")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "Compressed bodies are not read.")


async def _read(headers: Mapping[str, str], chunks: AsyncIterator[bytes], most: int) -> bytes:
    told = headers.get("content-length", "")
    size, parts = 0, []
    too_large = told.isdecimal() and int(told[:20]) > most
    async for chunk in chunks:
        size += len(chunk)
        too_large = too_large or size > most
        if too_large:
            parts.clear()
            if size > LINGER * most:
                break
        else:
            parts.append(chunk)
    if too_large:
        raise Refused(413, f"The body is larger than {most} bytes.")
    return b"".join(parts)


def parsed(body: bytes) -> dict[str, Json]:
    """Strict JSON: UTF-8, no NaN or Infinity, not nested without end, an object outside."""
    try:
        content = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise Refused(400, f"The body is not UTF-8: byte {error.start} does not fit.") from None
    except RecursionError:
        raise Refused(400, "The body is nested too deeply.") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Refused(400, f"The body is not JSON: {error.msg} ({place}).") from None
    except ValueError:  # whole numbers of more digits than Python reads
        raise Refused(400, "The body holds a number that is too long.") from None
    if not isinstance(content, dict):
        raise Refused(400, f"Expected a JSON object; got {kind_of(content)}.")
    return content


def _refuse_constant(token: str) -> NoReturn:
    raise Refused(400, f"The body holds {token}, which JSON does not know; null is missing.")


KINDS = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


def kind_of(value: Json) -> str:
    """What a value is called in JSON."""
    return KINDS[type(value)]


def take(
    content: Mapping[str, Json], name: str, kinds: tuple[type, ...], default: Json = None
) -> Json:
    """A field of a request, of one of the types it may have; `default` where it is not there."""
    value = content.get(name, default)
    if value is default or type(value) in kinds:
        return value
    expected = " or ".join(dict.fromkeys(KINDS[kind] for kind in kinds))
    raise Refused(422, f"{name} must be {expected}; got {kind_of(value)}.")


def refuse_others(content: Mapping[str, Json], known: frozenset[str]) -> None:
    """Say which fields of a request nobody reads: they are likely to be misspelt."""
    others = sorted(set(content) - known)
    if others:
        raise Refused(
            422,
            f"The request has fields {others[:5]!r} that are not read.",
            f"It may have {sorted(known)}.",
        )
