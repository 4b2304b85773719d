r"""One look at rows: features, log p(x) and p(y|x), with what is missing drawn given the rest.

$$p(y \mid x_{obs}) = \sum_k w_k\, p(y \mid x_{obs}, e_k), \qquad
w_k \propto \frac{p(x_{obs}, e_k)}{q(e_k \mid x_{obs})},$$

for draws $e_k$ of the missing values at fixed places of $q$. The average weight is the density of
what was observed. A row without gaps needs no draws.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int
from scipy.special import logsumexp

from diglm.completion import fixed_offsets
from diglm.data.encoder import AbstractEncoder, Encoded
from diglm.heads import AbstractResponse, Features, pool
from diglm.heads.pooled import replace_rows, take_rows
from diglm.hybrid import Hybrid
from diglm.predictor import evaluate
from diglm.predictor.evaluate import Look
from diglm.refusal import Known

GAP_DRAWS = 32  # of what may be missing, from a proposal that was trained with the model
LOST_DRAWS = 128  # of what may not, from the normal of the encoded rows, which fits less well
PIECE = 2_048  # rows with gaps that are drawn at a time
BLOCK = 256  # of which they come in multiples
Part = Callable[..., Look]


@dataclass(frozen=True)
class Groups:
    """What is known of groups: their names, and the encoded columns that have slopes of theirs."""

    names: np.ndarray
    places: tuple[int, ...] = ()

    def codes(self, groups: np.ndarray | None, n: int) -> Int[np.ndarray, " rows"]:
        """Numbers of the groups of n rows, -1 for those never seen and where none are given."""
        if groups is None:
            return np.full(n, -1)
        if len(groups) != n:
            raise ValueError(f"X has {n} rows, but groups has {len(groups)}.")
        place = {value: i for i, value in enumerate(self.names.tolist())}
        return np.array([place.get(value, -1) for value in np.asarray(groups).tolist()], int)

    def design(self, values: np.ndarray) -> np.ndarray:
        """A one, and the encoded columns with slopes; what is missing has no slope."""
        columns = _flat(values)[:, list(self.places)]
        return np.concatenate([np.ones((len(values), 1)), np.nan_to_num(columns)], axis=1)

    def features(self, z: np.ndarray, values: np.ndarray, codes: np.ndarray) -> Features:
        """Rows as a head with effects of groups takes them."""
        nothing = np.zeros(len(z))
        return Features(z, nothing, nothing, self.design(values), codes)


@dataclass(frozen=True)
class Viewer:
    """What looks at encoded rows: an encoder, a model and the groups it knows, if any.

    With `once` by programs that come soon rather than run fast: for models on the way to the one
    that will answer.
    """

    encoder: AbstractEncoder
    model: Hybrid
    groups: Groups | None = None
    once: bool = False

    def look(
        self, encoded: Encoded, codes: np.ndarray | None = None, part: Part = evaluate.look
    ) -> Look:
        """The part of a look that is asked for; log p(x) is in the user's units."""
        values = encoded.values
        gaps = rows_with_gaps(values)
        centres = at_centres(self.encoder, values)
        seen = self._at_centres(centres, codes, part)
        if np.any(gaps):
            lost = gaps & np.any((values != values) & (centres == centres), axis=_after(values))
            seen = self._with_gaps(seen, values, gaps, lost, codes)
        log_px = seen.log_px
        if log_px is not None:
            log_px = np.asarray(log_px, float) + encoded.log_scale
        return seen._replace(log_px=log_px)

    def known(self, encoded: Encoded, codes: np.ndarray | None = None) -> Known:
        """Everything that refusals may be judged by, from one pass."""
        seen = self.look(encoded, codes)
        return Known(
            seen.z,  # type: ignore[arg-type]
            seen.log_px,  # type: ignore[arg-type]
            seen.response,  # type: ignore[arg-type]
            encoded.unseen,
            seen.u,  # type: ignore[arg-type]
            at_centres(self.encoder, encoded.values),
            self.encoder.layout,
            self._groups_of(codes, len(encoded)),
            self.encoder.told(encoded.values),
        )

    def _groups_of(self, codes: np.ndarray | None, n: int) -> np.ndarray | None:
        if self.groups is None:
            return None
        return np.full(n, -1) if codes is None else codes

    def features(self, encoded: Encoded) -> np.ndarray:
        """Features at the centres of cells, what is missing at its expectation; flat."""
        return self.features_of_values(at_centres(self.encoder, encoded.values))

    def read(self, encoded: Encoded) -> np.ndarray:
        """Features as the head reads them, to fit it: zero, where it does not."""
        z, n = replace(self, once=True).features(encoded), self.model.n_read
        return z if n is None else np.where(np.arange(z.shape[1]) < n, z, 0.0).astype(z.dtype)

    def features_of_values(self, values: np.ndarray) -> np.ndarray:
        """Features of rows in which what no training row prepared for is filled in."""
        return _flat(self._evaluate(values, evaluate.respond).z)

    def _at_centres(self, values: np.ndarray, codes: np.ndarray | None, part: Part) -> Look:
        seen = self._evaluate(values, part)
        z = None if seen.z is None else _flat(seen.z)
        response = seen.response
        if self.groups is not None and z is not None:
            codes = np.full(len(z), -1) if codes is None else codes
            response = _as_numpy(self.model.head.of_groups(self.groups.features(z, values, codes)))
        u = None if seen.u is None else _flat(seen.u)
        return Look(z, seen.log_px, response, u)

    def _evaluate(self, values: np.ndarray, part: Part) -> Look:
        # Where one pass gives all, that one program gives any part.
        function = evaluate.look if self.model.completion is None else part
        offsets = fixed_offsets(_shape(self.encoder), self.encoder.n_offsets)
        found = evaluate.evaluate(function, self.model, values, offsets, once=self.once)
        return _of_rows(found)

    def _with_gaps(
        self,
        seen: Look,
        values: np.ndarray,
        gaps: Bool[np.ndarray, " rows"],
        lost: Bool[np.ndarray, " rows"],
        codes: np.ndarray | None,
    ) -> Look:
        """The look with the rows that have gaps answered by draws of what they lack."""
        response = seen.response
        log_px = None if seen.log_px is None else np.array(seen.log_px, float)
        for rows, n_draws in ((gaps & ~lost, GAP_DRAWS), (lost, LOST_DRAWS)):
            places = np.flatnonzero(rows)
            for start in range(0, len(places), PIECE):
                some = places[start : start + PIECE]
                own = None if codes is None else codes[some]
                density, drawn = self._drawn(values[some], own, n_draws, centre=rows is lost)
                if response is not None:
                    response = replace_rows(response, drawn, some)
                if log_px is not None:
                    log_px[some] = density
        return seen._replace(log_px=log_px, response=response)

    def _drawn(
        self, values: np.ndarray, codes: np.ndarray | None, n_draws: int, *, centre: bool
    ) -> tuple[np.ndarray, AbstractResponse]:
        """log p(x) of rows with gaps, and their responses averaged over draws.

        With `centre` these are responses at the centres of cells, as rows without gaps have them:
        a level that was drawn is a level, and not a place beside it.
        """
        cells = self.encoder.widths > 0 if centre else np.zeros(self.encoder.shape, bool)
        n_rows = len(values)
        # Sums over whole blocks only: else the last bit of a row would hang on how many there are.
        values = _in_blocks(values)
        codes = None if codes is None else _in_blocks(codes)
        log_weights, responses = [], []
        for u in fixed_offsets(_shape(self.encoder), n_draws):
            us = np.broadcast_to(u, values.shape)
            filled, log_q = self.encoder.complete(values, us)
            found = self._filled(filled, us)
            log_weights.append(np.asarray(found.log_px, float) - log_q)
            if np.any(cells):
                filled = self.encoder.centred(np.asarray(filled, float))
                found = self._filled(filled, np.where(cells, 0.5, us))
            response = found.response
            if self.groups is not None:
                own = np.full(len(values), -1) if codes is None else codes
                rows = self.groups.features(np.asarray(found.z), filled, own)
                response = _as_numpy(self.model.head.of_groups(rows))
            responses.append(response)
        weights = np.stack(log_weights)
        total = logsumexp(weights, axis=0)
        stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *responses)
        shares = jnp.asarray(weights - total, jnp.result_type(float))
        first = np.arange(n_rows)
        return (total - np.log(n_draws))[:n_rows], take_rows(pool(stacked, shares), first)

    def _filled(self, filled: np.ndarray, us: np.ndarray) -> Look:
        """Everything about rows filled in, in which uniforms say where in their cells they are."""
        beside = np.concatenate([filled, us], axis=-1)
        return _of_rows(evaluate.evaluate(evaluate.look_filled, self.model, beside, np.zeros(0)))


def at_centres(encoder: AbstractEncoder, values: np.ndarray) -> np.ndarray:
    """Values in which what no training row prepared for stands at its expectation."""
    if not np.any(rows_with_gaps(values)):
        return values
    return encoder.complete(values, np.full(values.shape, 0.5))[0]


def rows_with_gaps(values: np.ndarray) -> Bool[np.ndarray, " rows"]:
    """Which rows lack a value."""
    if values.dtype.kind != "f":
        return np.zeros(len(values), bool)
    gaps = np.isnan(values)
    if not gaps.any():  # a row at a time takes ten times as long
        return np.zeros(len(values), bool)
    return np.asarray(gaps.any(axis=_after(values)))


def _after(values: np.ndarray) -> tuple[int, ...]:
    """All axes but that of the rows."""
    return tuple(range(1, values.ndim))


def _in_blocks(rows: np.ndarray) -> np.ndarray:
    return rows[np.resize(np.arange(len(rows)), -(-len(rows) // BLOCK) * BLOCK)]


def _flat(z: np.ndarray | jax.Array | None) -> np.ndarray:
    rows = np.asarray(z)
    return rows.reshape(len(rows), math.prod(rows.shape[1:]))


def _of_rows(seen: Look) -> Look:
    return seen if seen.response is None else seen._replace(response=seen.response.of_rows())


def _as_numpy(response: AbstractResponse) -> AbstractResponse:
    return jax.tree.map(np.asarray, response)


def _shape(encoder: AbstractEncoder) -> int | tuple[int, ...]:
    return encoder.shape if len(encoder.shape) > 1 else encoder.dim
