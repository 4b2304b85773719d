"""What a monitor says: how far inputs and relation have moved, and which columns most."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from diglm.data.encoder import Container
from diglm.predictor.frames import table_like

NOTHING, INPUTS, RELATION = "no evidence", "inputs moved", "relation moved"


@dataclass(frozen=True)
class Movement:
    """How far one side has moved.

    Attributes:
        nats: change of the mean of -log p, all rows of the stream against the reference.
        error: standard error of that; infinite while no row has arrived.
        recent: the same change of the rows in the window alone.
        evidence: log of the capital that betting against "nothing has moved" has made.
        since: number of the row at which the evidence was enough; None as long as it is not.
        n_rows: how many rows of the stream speak of it.
    """

    nats: float
    error: float
    recent: float
    evidence: float
    since: int | None
    n_rows: int

    @property
    def moved(self) -> bool:
        """Whether there has been enough evidence at any time."""
        return self.since is not None


@dataclass(frozen=True)
class ColumnShift:
    """How far one column has moved.

    Attributes:
        name: of the column, or of a patch of images.
        evidence: log capital of the bets on this column alone.
        shift: how far its values lie above those of the reference, in standard deviations: that
            of a normal whose values exceed them as often.
        recent: the same of the rows in the window.
    """

    name: str | int
    evidence: float
    shift: float
    recent: float


@dataclass(frozen=True)
class Drift:
    """What is known after some rows of a stream.

    Attributes:
        verdict: "inputs moved", "relation moved" or "no evidence". Where both moved, the one with
            more evidence; `inputs.moved` and `relation.moved` tell of each.
        inputs: how far p(x) has moved.
        relation: how far p(y|x) has; None where no targets were given.
        columns: those with the most evidence first.
        n_rows: rows of the stream so far.
    """

    verdict: str
    inputs: Movement
    relation: Movement | None
    columns: tuple[ColumnShift, ...]
    n_rows: int

    def table(self) -> Container:
        """The columns as a table."""
        fields = ("name", "evidence", "shift", "recent")
        found = {
            field: np.array([getattr(column, field) for column in self.columns]) for field in fields
        }
        return table_like(np.zeros(0), {"column": found.pop("name"), **found})

    def __str__(self) -> str:
        parts = [f"{self.verdict} after {self.n_rows} rows"]
        sides = [("inputs", self.inputs), ("relation", self.relation)]
        for name, side in sides:
            if side is not None and side.n_rows:
                since = f", since row {side.since}" if side.moved else ""
                parts.append(
                    f"{name} {side.nats:+.3g} ± {side.error:.2g} nats, recently "
                    f"{side.recent:+.3g} (evidence {side.evidence:.1f}{since})"
                )
        if self.inputs.moved:
            most = ", ".join(f"{c.name} ({c.recent:+.2g} sd)" for c in self.columns[:3])
            parts.append(f"most in: {most}")
        return "; ".join(parts)


def verdict(inputs: Movement, relation: Movement | None) -> str:
    """One word of both."""
    evidence = {INPUTS: inputs.evidence if inputs.moved else -math.inf}
    if relation is not None and relation.moved:
        evidence[RELATION] = relation.evidence
    best = max(evidence, key=lambda name: evidence[name])
    return best if evidence[best] > -math.inf else NOTHING


def in_deviations(share_below: Float[np.ndarray, "..."], n: int) -> Float[np.ndarray, "..."]:
    r"""$\sqrt 2\, \Phi^{-1}(P(\text{reference} < \text{new}))$, kept finite by half a row in n."""
    inside = np.clip(share_below, 0.5 / n, 1 - 0.5 / n)
    return math.sqrt(2) * ndtri(inside)
