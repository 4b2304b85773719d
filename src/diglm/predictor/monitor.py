"""Has the world moved since the model was fitted? Rows arrive, in pieces of any size."""

import os
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from diglm.data.encoder import Rows
from diglm.heads.pooled import take_rows
from diglm.parameters import Real, Whole, check_parameters
from diglm.predictor import persistence
from diglm.predictor.drift import Drift, verdict
from diglm.predictor.predictor import Predictor
from diglm.predictor.stored import content_of, predictor_of
from diglm.predictor.stream import Stream
from diglm.targets.base import Column, as_column, is_missing

LEAST_REFERENCE = 20
LIMITS = {"level": [Real(0.0, 1.0, open_low=True, open_high=True)], "window": [Whole()]}


@dataclass
class Monitor:
    r"""Compares a stream with reference rows that the model was not fitted to.

    - **Inputs**: the change of the mean of $-\log p(x)$, in nats, and bets on the ranks of
      $\log p(x)$ and of every column among those of the reference.
    - **Relation**: the change of the mean of $-\log p(y|x)$, and bets on the ranks of where y
      stands under $p(y|x)$, which is uniform for every x if the model is right. So rows that move
      to where y is harder to tell are not taken for a relation that has moved.

    While nothing moves, the capital of either side reaches what is needed with probability at most
    half of `level`, *at any time* and however often one looks: ranks are exactly uniform and
    independent (`ranking.py`), and bets on them are fair (`betting.py`). This needs reference rows
    and stream to be exchangeable, so rows of training will not do as reference: the model is
    more at home with them than with any others.

    Use `model.monitor(reference)`; `save` and `Monitor.load` keep one between runs.

    Attributes:
        predictor: the model.
        inputs: what is remembered of the rows.
        relation: of the rows with targets; None if the reference had none.
        seed: of the uniform numbers that break ties.
    """

    predictor: Predictor
    inputs: Stream
    relation: Stream | None
    seed: int

    @classmethod
    def of(
        cls,
        predictor: Predictor,
        reference: Rows,
        y: Column | None = None,
        *,
        groups: Column | None = None,
        level: float = 0.05,
        window: int = 1_000,
        extra: str = "error",
        seed: int = 0,
    ) -> "Monitor":
        """A monitor that starts from reference rows, with targets if the relation is watched."""
        check_parameters({"level": level, "window": window}, LIMITS)
        seen = _seen(predictor, reference, y, groups, extra, _uniforms(seed, 0))
        n, n_columns = len(seen.nats), seen.scores.shape[1] - 1
        if n < LEAST_REFERENCE:
            raise ValueError(
                f"A reference of {n} rows says little of what is usual; give at least "
                f"{LEAST_REFERENCE}, better a thousand, that the model was not fitted to."
            )
        # Half of the stakes lie on log p(x), the other half on the columns.
        weights = np.array([1.0])
        if n_columns:
            weights = np.concatenate([[0.5], np.full(n_columns, 0.5 / n_columns)])
        watched = seen.places is not None
        shared = {"level": level / 2 if watched else level, "window": window}
        inputs = Stream.of(seen.nats, seen.scores, weights, seed=seed, **shared)
        if seen.places is None:
            return cls(predictor, inputs, None, seed)
        if len(seen.places) < LEAST_REFERENCE:
            raise ValueError(
                f"{len(seen.places)} rows of the reference have targets; give at least "
                f"{LEAST_REFERENCE}, or leave y out to watch the inputs alone."
            )
        even = np.full(seen.places.shape[1], 1 / seen.places.shape[1])
        relation = Stream.of(seen.surprise, seen.places, even, seed=seed + 1, **shared)
        return cls(predictor, inputs, relation, seed)

    # ------------------------------------------------------------------ rows arrive

    def update(
        self,
        X: Rows,
        y: Column | None = None,
        *,
        groups: Column | None = None,
        extra: str = "error",
    ) -> Drift:
        """Let rows arrive, and say what is known now; in which pieces does not matter.

        Args:
            X: the next rows; none at all changes nothing.
            y: their targets, where they are known; missing ones are passed over.
            groups: their groups, for a model that was fitted with groups.
            extra: "ignore" passes over columns that fit did not see.
        """
        if len(X) == 0:  # type: ignore[arg-type]
            return self.drift
        if y is not None and self.relation is None:
            raise ValueError(
                "This monitor was started without targets, so it cannot judge the relation. Start "
                "it with monitor(reference, y), or give X alone."
            )
        n_told = 0 if self.relation is None else self.relation.n_rows
        seen = _seen(self.predictor, X, y, groups, extra, _uniforms(self.seed + 1, n_told))
        self.inputs.update(seen.nats, seen.scores)
        if self.relation is not None and seen.places is not None and len(seen.places):
            self.relation.update(seen.surprise, seen.places)
        return self.drift

    @property
    def drift(self) -> Drift:
        """What is known now."""
        inputs = self.inputs.movement()
        relation = None if self.relation is None else self.relation.movement()
        names = tuple(facet.name for facet in self.predictor.encoder.facets)
        columns = self.inputs.columns(names, first=1)
        return Drift(verdict(inputs, relation), inputs, relation, columns, self.inputs.n_rows)

    # ------------------------------------------------------------------ kept

    def save(self, path: str | os.PathLike) -> None:
        """Write the monitor and its model to `path` (safetensors and JSON), replacing it whole."""
        content = {
            "monitor": {name: getattr(self, name) for name in ("inputs", "relation", "seed")},
            "predictor": content_of(self.predictor),
        }
        persistence.write(path, content)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Monitor":
        """The monitor that `save` wrote, which goes on as if it had never stopped."""
        content = persistence.read(path)
        try:
            kept, predictor = content["monitor"], predictor_of(content["predictor"])
            kinds = {"inputs": Stream, "relation": Stream | None, "seed": int}
            for name, expected in kinds.items():
                if not isinstance(kept[name], expected):
                    raise ValueError(f"its {name} is a {type(kept[name]).__name__}")
            return cls(predictor, **{name: kept[name] for name in kinds})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{path} does not describe a monitor: {error}.") from error


@dataclass(frozen=True)
class _Seen:
    """Rows as a monitor looks at them.

    `nats` are -log p(x), `scores` that and the columns; `surprise` -log p(y|x) of the rows with
    targets, `places` where they stand under p(y|x); None where no targets were given.
    """

    nats: Float[np.ndarray, " rows"]
    scores: Float[np.ndarray, "rows scores"]
    surprise: Float[np.ndarray, " told"]
    places: Float[np.ndarray, "told k"] | None


def _seen(
    predictor: Predictor,
    X: Rows,
    y: Column | None,
    groups: Column | None,
    extra: str,
    uniforms: np.random.Generator,
) -> _Seen:
    facets = predictor.encoder.facets
    cells = predictor.cells(X, extra=extra) if facets else None
    encoded = predictor.encode(X, extra=extra) if cells is None else predictor.at(cells)
    known = predictor.known(encoded, predictor.codes(groups, len(encoded)))
    nats = -known.log_px
    columns = [] if cells is None else [cells[:, list(f.places)].mean(axis=1) for f in facets]
    scores = np.stack([nats, *columns], axis=1)
    scores = np.where(np.isnan(scores), -np.inf, scores)  # a gap is a value of its own
    if y is None:
        return _Seen(nats, scores, np.zeros(0), None)
    ys = as_column(y)
    if len(ys) != len(nats):
        raise ValueError(f"X has {len(nats)} rows, but y has {len(ys)}; give one a row.")
    gone = np.any([is_missing(column) for column in (ys.T if ys.ndim == 2 else [ys])], axis=0)
    told = np.flatnonzero(~gone)
    log_py = predictor.target.log_prob(take_rows(known.response, told), ys[told])
    labelled = ~np.isnan(log_py)
    told = told[labelled]
    places = predictor.target.places(
        take_rows(known.response, told), ys[told], uniforms.random(len(told))
    )
    return _Seen(nats, scores, -log_py[labelled], places)


def _uniforms(seed: int, n_before: int) -> np.random.Generator:
    """The uniforms of the rows from this position on."""
    bits = np.random.PCG64([seed, 3])
    bits.advance(n_before)
    return np.random.Generator(bits)
