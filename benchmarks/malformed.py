"""Bodies that no honest client sends: every one must end in a documented refusal.

Fuzz a running service, loopback only, with as many as asked for:

    python benchmarks/malformed.py --port 8000 --model NAME --count 10000
"""

import argparse
import http.client
import json
import random
import time
from collections import Counter
from collections.abc import Iterator

PATHS = ("/assess", "/predict", "/density", "/explain", "/sample", "/counterfactual", "/drift")
PATHS += ("/interpolate",)
REFUSALS = (400, 404, 408, 411, 413, 415, 422, 431)
WORDS = ("NaN", "Infinity", "-Infinity", "nan", "undefined", "True", "None", "+1", "01", "1.", ".5")
WORDS += ("1e", "0x10", "'a'", "\\u12", '"\\x"', '"', "[", "{", "]", "}", ",", ":", "", " ", "\x00")
STRANGE = (
    1e308,
    -1e308,
    1e999,
    10**400,
    -(10**400),
    2**63,
    5e-324,
    -0.0,
    True,
    False,
    None,
    "",
    "\x00",
)
STRANGE += ("\ud800", "NaN", "null", "a" * 5000, [], {}, [[]], [{}], {"a": {"b": []}}, [None] * 50)
FIELDS = ("model", "records", "columns", "rows", "images", "groups", "extra", "n", "y", "seed")
FIELDS += ("temperature", "target", "margin", "steps", "reference", "level", "fixed", "bounds", "x")


def malformed(
    count: int, seed: int = 0, names: tuple[str, ...] = ()
) -> Iterator[tuple[str, bytes, str]]:
    """Paths, bodies and types of them; `names` are those of models that exist."""
    rng = random.Random(seed)
    makers = (_token, _nested, _typed, _cut, _encoded, _long, _wrong_type, _rows)
    for i in range(count):
        path = rng.choice(PATHS)
        body, kind = makers[i % len(makers)](rng, names)
        yield path, body, kind


JSON = "application/json"


def _token(rng: random.Random, names: tuple[str, ...]) -> tuple[bytes, str]:
    """Tokens that JSON does not know."""
    word = rng.choice(WORDS)
    forms = ('{"rows": [[%s]]}', '{"records": [{"a": %s}]}', '{"n": %s}', "%s", '{"model": %s}}')
    return (rng.choice(forms) % word).encode(), JSON


def _nested(rng: random.Random, names: tuple[str, ...]) -> tuple[bytes, str]:
    depth = rng.choice((50, 1_000, 20_000, 100_000))
    opened, closed = rng.choice((("[", "]"), ('{"a":', "}")))
    inner = "1" if opened != "[" else ""
    closing = closed * depth if rng.random() < 0.7 else ""
    return f'{{"rows": {opened * depth}{inner}{closing}}}'.encode(), JSON


def _typed(rng: random.Random, names: tuple[str, ...]) -> tuple[bytes, str]:
    """Fields of wrong types."""
    content = {rng.choice(FIELDS): rng.choice(STRANGE) for _ in range(rng.randint(1, 5))}
    if names and rng.random() < 0.5:
        content["model"] = rng.choice(names)
    return json.dumps(content).encode(), JSON


def _cut(rng: random.Random, names: tuple[str, ...]) -> tuple[bytes, str]:
    """What was good JSON, cut short or with a byte changed."""
    good = bytearray(json.dumps({"model": "a", "rows": [[1, "b", None]] * 5}).encode())
    if rng.random() < 0.5:
        return bytes(good[: rng.randrange(len(good))]), JSON
    good[rng.randrange(len(good))] = rng.randrange(256)
    return bytes(good), JSON


def _encoded(rng: random.Random, names: tuple[str, ...]) -> tuple[bytes, str]:
    """Other encodings, marks of byte order, and no text at all."""
    text = '{"model": "ä", "rows": [["é"]]}'
    codec = rng.choice(("utf-16", "utf-32", "latin-1", "utf-8-sig", "cp500"))
    if rng.random() < 0.3:
        return rng.randbytes(rng.randint(0, 200)), JSON
    return text.encode(codec), JSON


def _long(rng: random.Random, names: tuple[str, ...]) -> tuple[bytes, str]:
    """Long numbers, names and lists."""
    n = rng.choice((100, 10_000, 100_000))
    half = "\\ud83d" * (n // 6)  # of a surrogate pair
    text = rng.choice(("1" * n, '"' + "a" * n + '"', "1." + "0" * n, '"' + half + '"'))
    form = rng.choice(('{"rows": [[%s]]}', '{"model": %s}', '{"n": %s}', '{"seed": %s, "n": 1}'))
    return (form % text).encode(), JSON


def _wrong_type(rng: random.Random, names: tuple[str, ...]) -> tuple[bytes, str]:
    kinds = ("text/plain", "", "application/x-www-form-urlencoded", "application/json; charset=x")
    return b'{"rows": [[1]]}', rng.choice((*kinds, "multipart/form-data", "a" * 500))


def _rows(rng: random.Random, names: tuple[str, ...]) -> tuple[bytes, str]:
    """Rows of a model that exists, with cells that it cannot take."""
    model = {"model": rng.choice(names)} if names else {}
    width, n = rng.randint(0, 12), rng.randint(0, 4)
    cells = [[rng.choice(STRANGE) for _ in range(width)] for _ in range(n)]
    form = rng.choice(("rows", "columns", "records", "images"))
    rows = {
        "rows": cells,
        "columns": {str(j): cells for j in range(width)},
        "records": [{str(j): cell for j, cell in enumerate(row)} for row in cells],
        "images": [rng.choice(("", "AAAA", "iVBORw0KGgo=", "é", 5, [[1, [2]]], [[0] * 28] * 27))],
    }[form]
    return json.dumps({**model, form: rows}).encode(), JSON


def fuzz(port: int, names: tuple[str, ...], count: int, seed: int, seconds: float) -> Counter:
    """How often each status came back; stops at an answer that is not documented."""
    counts: Counter = Counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    end = time.monotonic() + seconds
    for path, body, kind in malformed(count, seed, names):
        if time.monotonic() > end:
            break
        try:
            connection.request("POST", path, body, {"Content-Type": kind} if kind else {})
            answer = connection.getresponse()
            content = answer.read()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            connection.close()
            counts["closed"] += 1
            continue
        counts[answer.status] += 1
        if answer.status != 200 and set(json.loads(content)) != {"error", "hint"}:
            raise SystemExit(f"{answer.status} has another shape: {content[:200]!r}")
        if answer.status not in (200, *REFUSALS):
            raise SystemExit(f"{answer.status} to {path} {body[:300]!r}: {content[:300]!r}")
    connection.request("GET", "/health")
    counts["healthy after"] = connection.getresponse().status
    connection.close()
    return counts


def main() -> None:
    """Fuzz and count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0, help="stop after this long")
    args = parser.parse_args()
    found = fuzz(args.port, tuple(args.model), args.count, args.seed, args.seconds)
    print(json.dumps({str(status): n for status, n in found.items()}))


if __name__ == "__main__":
    main()
