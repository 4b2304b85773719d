"""A limit on the time that training takes, and a schedule that comes to its end within it."""

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

from diglm.training.settings import Schedule

FOR_THE_REST = 0.1  # of the time: what follows training, such as calibration


class Pace(NamedTuple):
    """How far training has come, and how long its last stretch took."""

    done_steps: float
    stretch_steps: int
    stretch_seconds: float


@dataclass(frozen=True)
class Clock:
    """When training must be over, as `time.perf_counter` counts; never, if at infinity."""

    ends: float = math.inf

    @classmethod
    def of(cls, max_time: float | None, since: float) -> "Clock":
        """The clock of a fit that began at `since` and may take so many seconds in all."""
        return cls() if max_time is None else cls(since + (1 - FOR_THE_REST) * max_time)

    @property
    def is_set(self) -> bool:
        """Whether there is a limit."""
        return math.isfinite(self.ends)

    def over(self, pace: Pace) -> str | None:
        """The reason to stop, where another stretch like the last would end too late."""
        return "time" if time.perf_counter() + pace.stretch_seconds > self.ends else None

    def in_time(self, schedule: Schedule, pace: Pace) -> Schedule:
        """The schedule with as many steps as there is time for: rates fall before the end."""
        if not self.is_set:
            return schedule
        left = max(self.ends - time.perf_counter(), 0.0)
        more = pace.stretch_steps * (left // max(pace.stretch_seconds, 1e-9))
        total = min(float(schedule.total_steps), max(pace.done_steps + more, 1.0))
        return schedule.with_total(total)


NO_LIMIT = Clock()
