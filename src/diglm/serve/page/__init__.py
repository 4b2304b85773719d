"""The page at `/`: a few files, read once, that load nothing from anywhere else."""

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from diglm.optional import optional
from diglm.serve.errors import Refused

if TYPE_CHECKING:
    from starlette.responses import Response
else:
    Response = optional("starlette.responses", "serve").Response

INDEX = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def files() -> dict[str, bytes]:
    """The files of the page by name. Only these are served, whatever a path says."""
    folder = resources.files(__package__ or "diglm.serve.page")
    return {
        item.name: item.read_bytes() for item in folder.iterdir() if _suffix(item.name) in TYPES
    }


def page_file(name: str) -> Response:
    """An answer with one of the files."""
    if name not in files():
        raise Refused(404, "The page has no such file.")
    headers = {"Cache-Control": "no-cache"}
    return Response(files()[name], headers=headers, media_type=TYPES[_suffix(name)])


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]
