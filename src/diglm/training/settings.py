"""How training proceeds: lengths, rates and schedules, as numbers a compiled program can take."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from diglm.types import Scalar, placed


@dataclass(frozen=True)
class Settings:
    r"""Adam (AdamW with `weight_decay`), warm-up then cosine, averaging, early stopping.

    Args:
        n_epochs: passes over the rows, at most.
        batch_size: rows a step; never more than there are.
        learning_rate: the highest rate, reached after warm-up.
        head_rate: the head's rate, as a share of the flow's.
        warmup: share of all steps over which the rate rises from zero.
        final_rate: the rate at the end, as a share of the highest.
        weight_decay: decoupled decay of every trained number.
        clip: largest global norm of a gradient.
        averaging: decay of the exponential average of the weights; 0 keeps the last weights.
        patience: epochs without a better validation objective before stopping; None never stops.
        emphasis: lambda at the start as a multiple of its final value ("warm start").
        emphasis_share: share of all steps over which the multiple falls, geometrically, to one.
        max_bad_steps: this many non-finite steps in a row stop training.
    """

    n_epochs: int = 100
    batch_size: int = 256
    learning_rate: float = 2e-3
    head_rate: float = 1.0
    warmup: float = 0.05
    final_rate: float = 0.01
    weight_decay: float = 0.0
    clip: float = 5.0
    averaging: float = 0.98
    patience: int | None = 10
    emphasis: float = 1.0
    emphasis_share: float = 0.3
    max_bad_steps: int = 20

    def __post_init__(self):
        """Refuse settings that cannot train, naming the setting."""
        positive = (
            "n_epochs",
            "batch_size",
            "learning_rate",
            "head_rate",
            "clip",
            "emphasis",
            "max_bad_steps",
        )
        for name in positive:
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a positive number; got {value!r}.")
        for name in ("warmup", "averaging", "final_rate", "emphasis_share"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ValueError(f"{name} must lie in [0, 1); got {value!r}.")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience must be at least 1 epoch, or None; got {self.patience!r}.")


class Schedule(NamedTuple):
    """The numbers of `Settings` that enter the compiled step: traced, so they never recompile."""

    rate: Scalar
    final_rate: Scalar
    warmup_steps: Scalar
    total_steps: Scalar
    weight_decay: Scalar
    clip: Scalar
    averaging: Scalar
    emphasis: Scalar
    emphasis_steps: Scalar

    @classmethod
    def of(cls, settings: Settings, total_steps: int) -> "Schedule":
        """The schedule of `settings` over `total_steps` steps."""
        numbers = (
            settings.learning_rate,
            settings.final_rate,
            max(1.0, settings.warmup * total_steps),
            float(total_steps),
            settings.weight_decay,
            settings.clip,
            settings.averaging,
            settings.emphasis,
            max(1.0, settings.emphasis_share * total_steps),
        )
        return cls(*(placed(np.asarray(number, float)) for number in numbers))

    def with_total(self, total_steps: float) -> "Schedule":
        """The same in another number of steps, with the same shares of warm-up and emphasis."""
        share = total_steps / float(self.total_steps)
        warmup, emphasis = (
            placed(np.asarray(max(1.0, share * float(steps)), float))
            for steps in (self.warmup_steps, self.emphasis_steps)
        )
        return self._replace(
            total_steps=placed(np.asarray(total_steps, float)),
            warmup_steps=warmup,
            emphasis_steps=emphasis,
        )

    def rate_at(self, step: Scalar) -> Scalar:
        """Linear warm-up, then a cosine down to the final rate."""
        rise = jnp.minimum(1.0, (step + 1) / self.warmup_steps)
        done = (step - self.warmup_steps) / jnp.maximum(self.total_steps - self.warmup_steps, 1.0)
        cosine = 0.5 * (1 + jnp.cos(jnp.pi * jnp.clip(done, 0.0, 1.0)))
        return self.rate * rise * (self.final_rate + (1 - self.final_rate) * cosine)

    def emphasis_at(self, step: Scalar) -> Scalar:
        """The multiple of lambda: geometric from `emphasis` down (or up) to one."""
        left = jnp.clip(1 - step / self.emphasis_steps, 0.0, 1.0)
        return self.emphasis**left

    def averaging_at(self, step: Scalar) -> Scalar:
        """The average's decay, shorter at first so that the start is soon forgotten."""
        return jnp.minimum(self.averaging, (1 + step) / (10 + step))
