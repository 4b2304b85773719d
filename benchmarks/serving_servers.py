"""The two servers that serving.py compares, each a process of its own.

python benchmarks/serving_servers.py ours|naive PORT MODEL
"""

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from diglm import load
from diglm.serve.app import serve
from diglm.serve.settings import Limits


class Records(BaseModel):
    """The body of a request."""

    records: list[dict[str, Any]]


def naive(port: int, path: Path) -> None:
    """What one would write in five lines: a frame a request, and `assess`."""
    model, app = load(path), FastAPI()

    @app.post("/assess")
    def assess(body: Records) -> list[dict[str, Any]]:
        return model.assess(pd.DataFrame(body.records)).to_dict(orient="records")

    @app.get("/ready")
    def ready() -> str:
        return "ready"

    model.assess(model.sample(1, random_state=0))  # compiled before the first request
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


def ours(port: int, path: Path) -> None:
    """The service of this package."""
    serve({"model": path}, port=port, limits=Limits(watch_seconds=0.5))


SERVERS = {"ours": ours, "naive": naive}

if __name__ == "__main__":
    SERVERS[sys.argv[1]](int(sys.argv[2]), Path(sys.argv[3]))
