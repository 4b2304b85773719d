r"""What the rest of a row leads one to expect of one part of it.

The density of one column given the others is known up to a constant from log p(x) itself,
$$p(x_j = v \mid x_{-j}) = \frac{p(v, x_{-j})}{\int p(v', x_{-j})\, dv'},$$
so it is laid out on a grid of values: all levels of a category, all whole numbers where they are
few, else quantiles of what the model draws, and finer ones where the density is highest. A patch of
an image is replaced by those of images that the model draws.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp, softmax

from diglm.data.facets import Facet
from diglm.predictor.predictor import Predictor
from diglm.refusal import Known

DRAWS = 512  # of the model, whose quantiles the values are
NODES, FINER = 24, 12  # values of a number: first, and around the best of these
PATCHES = 12  # drawn images that lend a patch
MOST_LEVELS = 64
MOST_ROWS = 2**15  # that are evaluated at a time


@dataclass(frozen=True)
class Conditional:
    """One part of rows, at several values, given the rest.

    Attributes:
        cells: the values; (rows, values, cells of the part).
        log_weights: log p of each given the rest, summing to one; (rows, values).
        log_mass: log of the integral of p over the values.
        log_px: log p(x) with each value; (rows, values).
        strangeness: what refusals are judged by.
        answers: what is predicted; (rows, values, k).
    """

    cells: Float[np.ndarray, "rows values part"]
    log_weights: Float[np.ndarray, "rows values"]
    log_mass: Float[np.ndarray, " rows"]
    log_px: Float[np.ndarray, "rows values"]
    strangeness: Float[np.ndarray, "rows values"]
    answers: Float[np.ndarray, "rows values k"]

    def expect(self, of: Float[np.ndarray, "rows values *k"]) -> Float[np.ndarray, " rows *k"]:
        """The expectation over the values, given the rest of each row."""
        weights = np.exp(self.log_weights)
        weights = weights.reshape(weights.shape + (1,) * (of.ndim - 2))
        return np.sum(np.where(weights > 0, weights * of, 0.0), axis=1)

    @property
    def best(self) -> Float[np.ndarray, "rows part"]:
        """The most probable of the values in each row."""
        best = np.argmax(self.log_px, axis=1)[:, None, None]
        return np.take_along_axis(self.cells, best, axis=1)[:, 0]


@dataclass(frozen=True)
class Conditionals:
    """Finds conditionals of any part of rows.

    Attributes:
        predictor: the model.
        draws: cells of rows drawn from it.
    """

    predictor: Predictor
    draws: Float[np.ndarray, "draws cells"]

    @classmethod
    def of(cls, predictor: Predictor, *, seed: int = 0) -> "Conditionals":
        """With draws of the model."""
        n_draws = DRAWS
        if any(len(facet.places) > 1 for facet in predictor.encoder.facets):
            n_draws = PATCHES
        drawn = predictor.sample(n_draws, None, seed=seed)
        return cls(predictor, predictor.cells(drawn))

    def given_rest(
        self, cells: Float[np.ndarray, "rows cells"], facet: Facet, codes: np.ndarray | None
    ) -> Conditional:
        """What the rest of rows leads one to expect of a part."""
        n, places = len(cells), list(facet.places)
        own = cells[:, None, places]
        if len(places) > 1:
            values = np.concatenate([np.tile(self.draws[None, :, places], (n, 1, 1)), own], axis=1)
            return self._at(cells, facet, values, None, codes)
        nodes, all_of_them = self._nodes(facet)
        if all_of_them:
            values = np.tile(nodes[None, :, None], (n, 1, 1))
            return self._at(cells, facet, values, np.zeros(values.shape[:2]), codes)
        values = np.tile(nodes[None, :, None], (n, 1, 1))
        first = self._at(cells, facet, values, np.zeros(values.shape[:2]), codes)
        best = np.argmax(first.log_px, axis=1)
        low, high = nodes[np.maximum(best - 1, 0)], nodes[np.minimum(best + 1, len(nodes) - 1)]
        share = np.linspace(0, 1, FINER + 2)[1:-1]
        finer = low[:, None] + share * (high - low)[:, None]
        if facet.step:
            finer = facet.point(np.rint((finer - facet.low) / facet.step))
        known = np.where(np.isnan(own[:, :, 0]), finer[:, :1], own[:, :, 0])
        every = np.concatenate([values[:, :, 0], finer, known], axis=1)
        every.sort(axis=1)
        return self._at(cells, facet, every[:, :, None], _log_spacing(every), codes)

    def _nodes(self, facet: Facet) -> tuple[Float[np.ndarray, " values"], bool]:
        """Values to begin with, ascending, and whether there are no others."""
        if facet.levels and len(facet.levels) <= MOST_LEVELS:
            return np.arange(len(facet.levels), dtype=float), True
        drawn = self.draws[:, facet.places[0]]
        drawn = drawn[~np.isnan(drawn)] if not np.all(np.isnan(drawn)) else np.array([facet.low])
        values = np.unique(np.concatenate([drawn, [facet.low, facet.high]]))
        if facet.levels or (facet.step and len(values) <= NODES + FINER):
            return values[:MOST_LEVELS], True
        return np.unique(np.quantile(values, np.linspace(0, 1, NODES))), False

    def _at(
        self,
        cells: Float[np.ndarray, "rows cells"],
        facet: Facet,
        values: Float[np.ndarray, "rows values part"],
        log_spacing: Float[np.ndarray, "rows values"] | None,
        codes: np.ndarray | None,
    ) -> Conditional:
        n, n_values = values.shape[:2]
        wide = np.repeat(cells, n_values, axis=0)
        wide[:, list(facet.places)] = values.reshape(n * n_values, -1)
        wide_codes = None if codes is None else np.repeat(codes, n_values)
        parts = []
        for some in pieces(len(wide)):
            own = None if wide_codes is None else wide_codes[some]
            parts.append(summary(self.predictor, wide[some], own))
        log_px, strangeness, answers = (
            np.concatenate(p).reshape(n, n_values, *p[0].shape[1:])
            for p in zip(*parts, strict=True)
        )
        log_p = log_px if log_spacing is None else log_px + log_spacing
        mass = np.asarray(logsumexp(log_p, axis=1))
        shares = np.log(np.maximum(softmax(log_p, axis=1), 1e-300))
        return Conditional(values, shares, mass, log_px, strangeness, answers)


def summary(
    predictor: Predictor, cells: Float[np.ndarray, "rows cells"], codes: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log p(x), strangeness and answers of rows given by cells."""
    known: Known = predictor.known(predictor.at(cells), codes)
    answers = predictor.target.answers(known.response)
    return known.log_px, predictor.refusal.strangeness(known), answers


def pieces(n_rows: int) -> Iterator[slice]:
    """Rows a piece at a time, so that memory does not grow with their number."""
    for start in range(0, n_rows, MOST_ROWS):
        yield slice(start, start + MOST_ROWS)


def _log_spacing(values: Float[np.ndarray, "rows values"]) -> Float[np.ndarray, "rows values"]:
    """Log of the width that each of sorted values stands for, by the trapezoidal rule."""
    ends = np.concatenate([values[:, :1], (values[:, 1:] + values[:, :-1]) / 2, values[:, -1:]], 1)
    with np.errstate(divide="ignore"):
        return np.log(np.diff(ends, axis=1))
