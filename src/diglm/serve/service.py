"""What each path does: read, ask the batcher, answer."""

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING

from diglm.__about__ import __version__
from diglm.optional import optional
from diglm.serve import alone, describe
from diglm.serve.answers import Question
from diglm.serve.batching import Batcher, Work
from diglm.serve.bodies import Json, read_object, refuse_others
from diglm.serve.errors import Refused, answer, as_json, refusal
from diglm.serve.metrics import Metrics
from diglm.serve.models import Models, Served
from diglm.serve.page import INDEX, page_file
from diglm.serve.settings import Limits

if TYPE_CHECKING:
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
else:
    _requests = optional("starlette.requests", "serve")
    Request, ClientDisconnect = _requests.Request, _requests.ClientDisconnect
    Response = optional("starlette.responses", "serve").Response

logger = logging.getLogger("diglm.serve")
Endpoint = Callable[["Service", Request], Awaitable[Response]]
MANY = 500  # rows from which an answer is written beside the loop


def endpoint(function: Endpoint) -> Endpoint:
    """An endpoint whose refusals become answers, and whose faults are logged without contents."""

    @wraps(function)
    async def call(self: "Service", request: Request) -> Response:
        try:
            return await function(self, request)
        except Refused as refused:
            return refusal(refused)
        except ClientDisconnect:
            return refusal(Refused(408, "The request was not sent to its end."))
        except Exception as error:  # its message may quote rows, so that stays out of the log
            places = traceback.extract_tb(error.__traceback__)
            where = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(places[-4:]))
            logger.error("%s in %s", type(error).__name__, where)
            return refusal(Refused(500, "The service made an error."))

    return call


class Service:
    """The endpoints of a service and what they share.

    Attributes:
        models: that can be asked.
        rows: the queue of questions about rows, which are answered together.
        errands: the queue of those that are answered alone. They take longer, and have a thread of
            their own so that nobody who only wants a prediction waits for them.
        metrics: what is counted.
        limits: on size, rows and time.
    """

    def __init__(
        self, models: Models, rows: Batcher, errands: Batcher, metrics: Metrics, limits: Limits
    ):
        self.models, self.rows, self.errands = models, rows, errands
        self.metrics, self.limits = metrics, limits

    # ------------------------------------------------------------------ rows

    @endpoint
    async def predict(self, request: Request) -> Response:
        """What is predicted for each row, how sure it is, and whether the row is refused."""
        return await self._view(request, "predict")

    @endpoint
    async def assess(self, request: Request) -> Response:
        """Everything about each row: prediction, log p(x), strangeness, p-value, refused or not."""
        return await self._view(request, "assess")

    @endpoint
    async def density(self, request: Request) -> Response:
        """How probable, and how strange, each row is."""
        return await self._view(request, "density")

    async def _view(self, request: Request, view: str) -> Response:
        content = await self._content(request)
        served = self._served(content)
        refuse_others(content, served.reader.fields | {"model"})
        rows = served.reader.given(content, self.limits.rows)
        work = Work(Question(rows, view), rows.n_rows, served.answer, served)
        answers = await self.rows.submit(work)
        self.metrics.note_rows(served.name, answers["rejected"])
        content = {"model": served.name, "rows": rows.n_rows, "answers": answers}
        return answer(await _written(content, rows.n_rows))

    # ------------------------------------------------------------------ alone

    @endpoint
    async def sample(self, request: Request) -> Response:
        """New rows like those that the model was fitted to."""
        return await self._alone(request, alone.sample)

    @endpoint
    async def counterfactual(self, request: Request) -> Response:
        """What would have to change for another answer."""
        return await self._alone(request, alone.change)

    @endpoint
    async def interpolate(self, request: Request) -> Response:
        """Rows on the way from one row to another."""
        return await self._alone(request, alone.interpolate)

    @endpoint
    async def explain(self, request: Request) -> Response:
        """What each column adds to the strangeness and to the prediction of each row."""
        return await self._alone(request, alone.reasons)

    @endpoint
    async def drift(self, request: Request) -> Response:
        """Whether rows have moved away from reference rows."""
        return await self._alone(request, alone.drift)

    async def _alone(self, request: Request, prepare: Callable) -> Response:
        content = await self._content(request)
        served = self._served(content)
        size, run = prepare(served, content, self.limits)
        found = await self.errands.submit(Work(None, size, lambda _: [run()]))
        return answer(await _written({"model": served.name} | found, size))

    # ------------------------------------------------------------------ the service itself

    @endpoint
    async def list_models(self, request: Request) -> Response:
        """The models that can be asked."""
        return answer({"models": [describe.summary(served) for served in self.models]})

    @endpoint
    async def describe_model(self, request: Request) -> Response:
        """What a model takes and how it answers."""
        served = self.models.find(request.path_params["name"])
        return answer(describe.description(served))

    @endpoint
    async def health(self, request: Request) -> Response:
        """Whether the process is alive, and whether it is ready."""
        content = {"status": "alive", "ready": self.models.ready, "version": __version__}
        return answer(content)

    @endpoint
    async def ready(self, request: Request) -> Response:
        """Whether models are loaded and compiled."""
        self._require_ready()
        return answer({"status": "ready"})

    @endpoint
    async def prometheus(self, request: Request) -> Response:
        """Counters for Prometheus."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    @endpoint
    async def index(self, request: Request) -> Response:
        """The page."""
        return page_file(INDEX)

    @endpoint
    async def page(self, request: Request) -> Response:
        """What the page is made of."""
        return page_file(request.path_params["name"])

    # ------------------------------------------------------------------ shared

    async def _content(self, request: Request) -> dict[str, Json]:
        self._require_ready()
        return await read_object(request.headers, request.stream(), self.limits)

    def _served(self, content: dict[str, Json]) -> Served:
        return self.models.find(content.get("model"))

    def _require_ready(self) -> None:
        if not self.models.ready:
            raise Refused(503, "The models are being made ready.", retry_after=5)


async def _written(content: dict[str, Json], n_rows: int) -> bytes:
    return as_json(content) if n_rows < MANY else await asyncio.to_thread(as_json, content)
