"""The service described for machines: one table of paths, from which routes are made too."""

from dataclasses import dataclass
from typing import Any

from diglm.serve.errors import HINTS
from diglm.serve.service import Endpoint, Service
from diglm.serve.settings import NAME

Schema = dict[str, Any]

CELL: Schema = {"type": ["string", "number", "boolean", "null"]}
MODEL: Schema = {"type": "string", "pattern": f"^{NAME.pattern}$"}
GROUPS: Schema = {"type": "array", "items": CELL}
TABLE: Schema = {
    "records": {
        "type": "array",
        "minItems": 1,
        "items": {"type": "object", "additionalProperties": CELL},
        "description": "An object for each row, with a value for each column; null is missing.",
    },
    "columns": {
        "type": "object",
        "additionalProperties": {"type": "array", "minItems": 1, "items": CELL},
        "description": "A list of values for each column.",
    },
    "rows": {
        "type": "array",
        "minItems": 1,
        "items": {"type": "array", "items": CELL},
        "description": "A list of values for each row, in the order of the model's columns.",
    },
}
IMAGES: Schema = {
    "type": "array",
    "minItems": 1,
    "items": {"type": ["string", "array"]},
    "description": "Nested lists of pixels, or base64 of raw bytes or of a PNG file.",
}
EXTRA: Schema = {"enum": ["error", "ignore"], "description": "Columns that the model does not know"}
WANTED: Schema = {"type": ["string", "number", "boolean", "array"]}
ANSWERS: Schema = {
    "type": "object",
    "properties": {
        "model": {"type": "string"},
        "rows": {"type": "integer"},
        "answers": {"type": "object", "additionalProperties": {"type": "array"}},
    },
    "required": ["model", "rows", "answers"],
}
ROWS: Schema = {
    "type": "object",
    "properties": {"model": {"type": "string"}, "columns": {"type": "object"}},
    "required": ["model"],
}
ERROR: Schema = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "hint": {"type": "string"}},
    "required": ["error", "hint"],
    "additionalProperties": False,
}
OBJECT: Schema = {"type": "object"}
ALWAYS = (400, 401, 403, 408, 421, 431, 500)  # what any request may meet
WITH_BODY = (404, 413, 415, 422, 503)


def _asked(*needed: str, **more: Schema) -> Schema:
    """A body with rows in exactly one form, and other fields, some of which are needed."""
    every = {**TABLE, "images": IMAGES}
    shared = {"model": MODEL, **more}
    kinds = []
    for form in every:
        own = {form: every[form], **shared}
        own |= {} if form == "images" else {"extra": EXTRA}
        kinds.append(_object(own, [form, *needed]))
    return {"oneOf": kinds}


def _object(properties: Schema, required: list[str]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


SAMPLE: Schema = _object(
    {
        "model": MODEL,
        "n": {"type": "integer", "minimum": 1},
        "y": {"type": ["string", "number", "boolean"]},
        "seed": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
        "temperature": {"type": "number", "exclusiveMinimum": 0, "maximum": 10},
    },
    [],
)
CHANGE = {
    "target": WANTED,
    "margin": {"type": "number", "minimum": 0, "maximum": 100},
    "fixed": {"type": "array", "items": {"type": "string"}},
    "bounds": {"type": "object", "additionalProperties": {"type": "array"}},
    "direction": {"type": "object", "additionalProperties": {"enum": ["up", "down"]}},
    "allow_strange": {"type": "boolean"},
}
WAY = {"steps": {"type": "integer", "minimum": 2, "maximum": 32}}
EXPLAIN = {"groups": GROUPS, "target": {"type": ["string", "number", "boolean"]}}
DRIFT = {
    "groups": GROUPS,
    "y": GROUPS,
    "reference": {"type": "object", "description": "Usual rows, in the same forms."},
    "level": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
}


@dataclass(frozen=True)
class Path:
    """A path: how it is asked, what does the work, and how it answers."""

    path: str
    method: str
    endpoint: Endpoint
    answer: Schema = None  # type: ignore[assignment]
    body: Schema | None = None
    media: str = "application/json"
    refusals: tuple[int, ...] = ()
    shown: bool = True

    def responses(self) -> dict[int | str, dict[str, Any]]:
        """Every answer that it may give."""
        codes = sorted({*ALWAYS, *self.refusals, *(WITH_BODY if self.body else ())})
        content = {"schema": self.answer} if self.answer else {}
        found: dict[int | str, dict[str, Any]] = {
            200: {"description": "The answer", "content": {self.media: content}}
        }
        for code in codes:
            found[code] = {
                "description": HINTS[code],
                "content": {"application/json": {"schema": ERROR}},
            }
        return found

    def extra(self) -> dict[str, Any]:
        """What FastAPI cannot know, because bodies are read by hand."""
        found: dict[str, Any] = {}
        if self.body is not None:
            content = {"application/json": {"schema": self.body}}
            found["requestBody"] = {"required": True, "content": content}
        if "{name}" in self.path:
            place = {"name": "name", "in": "path", "required": True, "schema": MODEL}
            found["parameters"] = [place]
        return found


PATHS = (
    Path("/predict", "POST", Service.predict, ANSWERS, _asked(groups=GROUPS)),
    Path("/assess", "POST", Service.assess, ANSWERS, _asked(groups=GROUPS)),
    Path("/density", "POST", Service.density, ANSWERS, _asked(groups=GROUPS)),
    Path("/explain", "POST", Service.explain, OBJECT, _asked(**EXPLAIN)),
    Path("/drift", "POST", Service.drift, OBJECT, _asked("reference", **DRIFT)),
    Path("/sample", "POST", Service.sample, ROWS, SAMPLE),
    Path("/counterfactual", "POST", Service.counterfactual, ROWS, _asked("target", **CHANGE)),
    Path("/interpolate", "POST", Service.interpolate, ROWS, _asked(**WAY)),
    Path("/models", "GET", Service.list_models, OBJECT),
    Path("/models/{name}", "GET", Service.describe_model, OBJECT, refusals=(404,)),
    Path("/health", "GET", Service.health, OBJECT),
    Path("/ready", "GET", Service.ready, OBJECT, refusals=(503,)),
    Path("/metrics", "GET", Service.prometheus, media="text/plain"),
    Path("/", "GET", Service.index, media="text/html", shown=False),
    Path("/page/{name}", "GET", Service.page, media="text/plain", shown=False),
)
