"""A search for the cheapest change of a row that is allowed, answered as wanted, and not strange.

For each row a population of candidates begins with the row itself, the nearest features with the
wanted answer, and rows that the model draws; all are moved to where they are allowed. Then they are
varied: columns put back, taken from each other, moved a little. Every candidate is also drawn along
the line from the row to where the answer just becomes the wanted one. Those that are as wanted are
ranked by cost, the others by what they lack.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from diglm.predictor.actions import Actions
from diglm.predictor.predictor import Predictor
from diglm.targets.base import Column

CANDIDATES, GENERATIONS, POLISH = 40, 12, 8
PROBABLE = 0.35  # that a column is put back, or exchanged
LACKING, STRANGE = 1e6, 1e3  # what a candidate is worse by, beside any cost
FARTHEST = 3.0  # times the way from the row to a candidate


@dataclass(frozen=True)
class Population:
    """Candidates of several rows.

    Attributes:
        cells: (rows, candidates, columns).
        lead: by how much the wanted answer leads.
        key: by which candidates are ranked, the lower the better.
        valid: answered as wanted, and not strange unless that is allowed.
    """

    cells: Float[np.ndarray, "rows candidates columns"]
    lead: Float[np.ndarray, "rows candidates"]
    key: Float[np.ndarray, "rows candidates"]
    valid: Bool[np.ndarray, "rows candidates"]

    def best(self, n: int) -> "Population":
        """The n best candidates of each row."""
        order = np.argsort(self.key, axis=1, kind="stable")[:, :n]
        parts = (np.take_along_axis(a, order, axis=1) for a in (self.lead, self.key, self.valid))
        return Population(np.take_along_axis(self.cells, order[..., None], axis=1), *parts)

    def with_others(self, other: "Population") -> "Population":
        """The candidates of both."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Population(*(np.concatenate(pair, axis=1) for pair in pairs))


@dataclass(frozen=True)
class Search:
    """What is looked for.

    Attributes:
        predictor: the model.
        wanted: the answer, one a row.
        margin: by which it shall lead.
        allow_strange: whether rows that the model refuses will do.
    """

    predictor: Predictor
    wanted: Column
    margin: float
    allow_strange: bool

    def run(
        self,
        actions: Actions,
        starts: Float[np.ndarray, "rows starts columns"],
        draws: Float[np.ndarray, "draws columns"],
        rng: np.random.Generator,
    ) -> tuple[Float[np.ndarray, "rows columns"], Bool[np.ndarray, " rows"]]:
        """The best candidate of each row, and whether it is valid."""
        origin = actions.project(actions.origin[:, None])
        first = np.concatenate([origin, actions.project(starts), self._near(actions, draws)], 1)
        found = self.judged(actions, first)
        at_origin = found.lead[:, :1]
        found = found.best(CANDIDATES)
        for turn in range(GENERATIONS):
            varied = self._varied(actions, found, draws, turn, rng)
            found = found.with_others(self.judged(actions, varied)).best(CANDIDATES)
            aimed = self._aimed(actions, found, origin, at_origin)
            found = found.with_others(aimed).best(CANDIDATES)
        for _ in range(POLISH):
            few = found.best(2)
            found = found.with_others(self._aimed(actions, few, origin, at_origin))
            found = found.with_others(self._put_back(actions, found.best(1), origin))
            found = found.best(CANDIDATES)
        return found.cells[:, 0], found.valid[:, 0]

    def judged(self, actions: Actions, cells: Float[np.ndarray, "rows n columns"]) -> Population:
        """Candidates with what they lack and cost."""
        n, k, d = cells.shape
        predictor, wanted = self.predictor, np.repeat(self.wanted, k)
        known = predictor.known(predictor.at(cells.reshape(n * k, d)))
        lead = predictor.target.lead(known.response, wanted).reshape(n, k)
        lacks = predictor.target.shortfall(lead, self.margin)
        refused = predictor.refusal.rejects(known).reshape(n, k) & (not self.allow_strange)
        excess = predictor.refusal.strangeness(known) - predictor.refusal.threshold.limit
        excess = np.where(refused, 1 + np.log1p(np.maximum(excess, 0.0).reshape(n, k)), 0.0)
        cost = actions.cost(cells).sum(axis=2)
        met = (predictor.target.shortfall(lead, 0.0) == 0) & ~refused
        key = cost + np.where(lacks > 0, STRANGE + 10 * lacks, 0.0)
        key += np.where(met, 0.0, LACKING + 100 * (lacks + excess))
        key = np.nan_to_num(key, nan=np.inf, posinf=1e300)
        return Population(cells, np.nan_to_num(lead, nan=-1e30), key, met)

    def _near(
        self, actions: Actions, draws: Float[np.ndarray, "draws columns"]
    ) -> Float[np.ndarray, "rows some columns"]:
        """Drawn rows that are answered as wanted, or nearly, and lie near; where they may be."""
        n, predictor = len(actions.origin), self.predictor
        known = predictor.known(predictor.at(draws))
        lacks = np.empty((n, len(draws)))
        # A name or number that several rows want is looked at once.
        values, place = np.unique(self.wanted, return_inverse=True)
        for i, value in enumerate(values):
            lead = predictor.target.lead(known.response, np.resize(value, len(draws)))
            lacks[place == i] = predictor.target.shortfall(lead, self.margin)
        far = actions.cost(np.tile(draws[None], (n, 1, 1)))
        far = np.sum(far * actions.free[:, None], axis=2)
        order = np.argsort(far + 3 * np.minimum(lacks, 10), axis=1)[:, :CANDIDATES]
        return actions.project(draws[order])

    def _varied(
        self,
        actions: Actions,
        found: Population,
        draws: Float[np.ndarray, "draws columns"],
        turn: int,
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "rows n columns"]:
        """Children of the better half, each varied in one of four ways, alike in all rows.

        Chance is shared, so that what is found for a row does not hang on the rows beside it.
        """
        _, k, d = found.cells.shape
        better = max(1, k // 2)
        mothers = found.cells[:, rng.integers(better, size=k)]
        fathers = found.cells[:, rng.integers(k, size=k)]
        strangers = draws[rng.integers(len(draws), size=k)]
        start = np.broadcast_to(actions.origin[:, None], mothers.shape)
        some = rng.random((k, d)) < PROBABLE
        one = np.arange(d) == rng.integers(d, size=(k, 1))
        spread = np.array([facet.spread for facet in actions.facets]) * 0.8 ** (turn + 1)
        noise = mothers + one * spread * rng.normal(size=(k, d))
        ways = [
            np.where(some, start, mothers),
            np.where(some, fathers, mothers),
            noise,
            np.where(one, strangers, mothers),
        ]
        way = rng.integers(len(ways), size=(k, 1))
        return actions.project(np.choose(way, ways))

    def _aimed(
        self,
        actions: Actions,
        found: Population,
        origin: Float[np.ndarray, "rows 1 columns"],
        at_origin: Float[np.ndarray, "rows 1"],
    ) -> Population:
        """Candidates moved along their way from the row to where the answer becomes the wanted."""
        way = found.lead - at_origin
        share = (self.predictor.target.aim(self.margin) - at_origin) / np.where(way == 0, 1, way)
        share = np.clip(share, 0.0, FARTHEST)[..., None]
        level = np.array([bool(facet.levels) for facet in actions.facets])
        moved = np.where(level, found.cells, origin + share * (found.cells - origin))
        return self.judged(actions, actions.project(moved))

    def _put_back(
        self, actions: Actions, found: Population, origin: Float[np.ndarray, "rows 1 columns"]
    ) -> Population:
        """The best candidate with each of its columns put back, one at a time."""
        n, _, d = found.cells.shape
        back = np.where(np.eye(d, dtype=bool), origin, found.cells)
        return self.judged(actions, back.reshape(n, d, d))
