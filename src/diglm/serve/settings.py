"""What an operator may set: limits on size, rows and time, and who may ask."""

import ipaddress
import re
from dataclasses import dataclass, fields

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")  # no slash, and no dot in front


@dataclass(frozen=True)
class Limits:
    """Bounds of one service; each is documented in docs/operating.md.

    Attributes:
        body_bytes: largest body of a request.
        rows: most rows of a request.
        heavy_rows: most rows of a request for explanations or counterfactuals, which cost more.
        queued_rows: rows that may wait; beyond, requests are turned away with 503.
        together: most rows that are evaluated in one go.
        seconds: until a request that waits for its answer is told to try again.
        body_seconds: for a body to arrive.
        header_seconds: for the head of a request to arrive.
        header_bytes: largest head of a request.
        connections: most connections at a time.
        watch_seconds: between looks at the files of the models.
        grace_seconds: for requests under way when the service is told to stop.
    """

    body_bytes: int = 8 * 2**20
    rows: int = 10_000
    heavy_rows: int = 256
    queued_rows: int = 50_000
    together: int = 8_192
    seconds: float = 30.0
    body_seconds: float = 15.0
    header_seconds: float = 10.0
    header_bytes: int = 32 * 2**10
    connections: int = 1_000
    watch_seconds: float = 1.0
    grace_seconds: float = 20.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ValueError(f"{field.name} must be a positive number; got {value!r}.")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a service bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_everywhere(host: str) -> bool:
    """Whether `host` stands for every address of the machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return host == ""


def check_binding(host: str, token: str | None, allow_public: bool) -> None:
    """Refuse to be reached from other machines without a token, unless told to."""
    if token is not None and (len(token) < 8 or not token.isascii() or not token.isprintable()):
        raise ValueError(
            "A token has at least 8 printable ASCII characters; make one with: "
            'python -c "import secrets; print(secrets.token_urlsafe())"'
        )
    if not is_loopback(host) and token is None and not allow_public:
        raise ValueError(
            f"Other machines could reach {host!r}, and no token was given, so anybody there could "
            "ask. Give a token, serve on 127.0.0.1, or say that it may be public (allow_public)."
        )


def check_name(name: object) -> str:
    """A name under which a model may be served, or a clear error."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise ValueError(
            "A model's name has 1 to 64 letters, digits, dots, dashes and underscores and begins "
            f"with a letter or digit; got {name!r:.80}."
        )
    return name
