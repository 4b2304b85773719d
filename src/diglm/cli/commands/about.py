"""`diglm info` and `doctor`: what they take."""

from typing import TYPE_CHECKING

from diglm.cli.config import Config
from diglm.cli.later import later
from diglm.cli.options import Json, Model

if TYPE_CHECKING:
    from diglm.cli.work import describing
else:
    describing = later("diglm.cli.work.describing")


def info(model: Model, json: Json = False, config: Config = None) -> None:
    """Say what a model is: its columns, what it predicts, how it was trained and judged."""
    describing.info(model, as_json=json)


def doctor(json: Json = False) -> None:
    """Say what this installation has: versions, extras, devices, caches."""
    describing.doctor(as_json=json)
