"""The fitted thing: everything that can be asked of rows, in one place and in one pass."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from diglm.compiling import require_own_jax
from diglm.data.encoder import AbstractEncoder, Container, Encoded, Rows
from diglm.heads import AbstractResponse
from diglm.hybrid import Hybrid
from diglm.parameters import Real, check_real, check_whole
from diglm.predictor import draw, evaluate
from diglm.predictor.agreement import Agreement, checked_level
from diglm.predictor.look import Groups, Viewer, at_centres
from diglm.predictor.memory import Memory
from diglm.refusal import Known, Refusal
from diglm.targets import AbstractTarget
from diglm.targets.base import Column, one_a_row
from diglm.types import Key, bucket

MOST_REDRAWS = 20  # of rows that no training row is near to
Latents = Float[np.ndarray, "n ..."]


@dataclass(frozen=True)
class Predictor:
    """A fitted model and all that its answers need. Estimators, files and workers hold one.

    Attributes:
        encoder: from the user's rows to numbers.
        target: what is predicted, in the user's terms.
        model: the hybrid.
        refusal: what strange rows are judged by.
        groups: those whose effects were learned; None without.
        memory: the sums that an exact posterior is known by; None for other heads.
        owner: who is asked, for error messages.
        agreement: of held-out targets with their predictions, by which answers keep a level; None
            where nothing is predicted, and in files that know of none.
    """

    encoder: AbstractEncoder
    target: AbstractTarget
    model: Hybrid
    refusal: Refusal
    groups: Groups | None = None
    memory: Memory | None = None
    owner: str = "The model"
    agreement: Agreement | None = None

    # ------------------------------------------------------------------ looking at rows

    @property
    def viewer(self) -> Viewer:
        """What looks at encoded rows."""
        return Viewer(self.encoder, self.model, self.groups)

    def encode(self, X: Rows, *, extra: str = "error", absent: str = "error") -> Encoded:
        """Rows as the model takes them; `absent="draw"` lets columns be lacking."""
        gone = self.encoder.lacking(X) if absent != "error" else None
        if gone is None or not np.any(gone):
            return self.encoder.encode(X, owner=self.owner, extra=extra)
        cells = self.encoder.cells(X, owner=self.owner, extra=extra, absent=absent)
        return self.encoder.encode_cells(cells, gone)

    def cells(self, X: Rows, *, extra: str = "error") -> Float[np.ndarray, "rows cells"]:
        """Rows as a person reads them, cell by cell."""
        return self.encoder.cells(X, owner=self.owner, extra=extra)

    def at(self, cells: Float[np.ndarray, "rows cells"]) -> Encoded:
        """Rows given by their cells, as the model takes them."""
        return self.encoder.encode_cells(cells)

    def codes(self, groups: Column | None, n: int) -> np.ndarray | None:
        """Numbers of the groups of rows; an error if the model knows of none."""
        if groups is None:
            return None
        if self.groups is None:
            raise ValueError("This model was fitted without groups, so it cannot answer for them.")
        return self.groups.codes(np.asarray(groups), n)

    def known(self, encoded: Encoded, codes: np.ndarray | None = None) -> Known:
        """Everything about rows, from one pass."""
        return self.viewer.known(encoded, codes)

    def response(self, encoded: Encoded, codes: np.ndarray | None = None) -> AbstractResponse:
        """p(y|x) of rows."""
        seen = self.viewer.look(encoded, codes, evaluate.respond)
        return seen.response  # type: ignore[return-value]

    def log_px(self, encoded: Encoded) -> Float[np.ndarray, " rows"]:
        """log p(x) of rows, in the user's units."""
        return self.viewer.look(encoded, None, evaluate.density).log_px  # type: ignore

    def features(self, encoded: Encoded) -> Float[np.ndarray, "rows dim"]:
        """z = f(x)."""
        return self.viewer.features(encoded)

    def columns(self, encoded: Encoded, codes: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """One table of all answers: what is predicted, and how strange each row is."""
        return self.columns_of(self.known(encoded, codes))

    def columns_of(self, known: Known) -> dict[str, np.ndarray]:
        """The same, of rows that were looked at already."""
        strangeness, p_value, rejected = self.refusal.judge(known)
        return self.target.columns(known.response) | {
            "log_px": known.log_px,
            "strangeness": strangeness,
            "p_value": p_value,
            "rejected": rejected,
        }

    def interval(
        self, response: AbstractResponse, level: float | int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the intervals of numbers that hold y with that probability."""
        target, level = self.target, checked_level(level)
        if self.agreement is None:
            return target.distribution(response).interval(level)  # type: ignore[attr-defined]
        return target.distribution(response).agreeing(self.agreement.tails(level))  # type: ignore

    def classes_within(
        self, known: Known, level: float | int, *, by_class: bool
    ) -> Bool[np.ndarray, "rows classes"]:
        """Sets of classes that hold the truth with that probability; none for rows refused."""
        level, fitted = checked_level(level), self.target.as_fitted
        probabilities = fitted.answers(known.response)
        n_classes = probabilities.shape[1]
        least = np.zeros(n_classes)
        if self.agreement is not None:
            # Classes have other frequencies than in the held-out rows: what holds for each, holds.
            by_class = by_class or fitted is not self.target
            of = range(n_classes) if by_class else [None] * n_classes
            least = np.array([self.agreement.least(level, one) for one in of])
        found = probabilities >= least
        best = np.argmax(self.target.answers(known.response), axis=1)
        found[np.arange(len(found)), best] = True
        return found & ~self.refusal.rejects(known)[:, None]

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the answers."""
        return *self.target.column_names, "log_px", "strangeness", "p_value", "rejected"

    # ------------------------------------------------------------------ the way back

    def invert(self, zs: Float[np.ndarray, "rows dim"]) -> Container:
        """Rows with these features, in the container and units of the rows of fit."""
        zs = np.asarray(zs, float)
        if zs.ndim != 2 or zs.shape[1] != self.encoder.dim:
            raise ValueError(
                f"Expected features of shape (rows, {self.encoder.dim}); got {zs.shape}. "
                "Use the output of transform()."
            )
        if not np.all(np.isfinite(zs)):
            raise ValueError("Features must be finite numbers; found NaN or infinity.")
        points = evaluate.evaluate(evaluate.invert, self.model, zs, np.zeros(0))
        return self.encoder.decode(np.asarray(points, float))

    def sample(self, n: object, y: object, *, seed: int, temperature: float = 1.0) -> Container:
        """`n` rows like those of fit; with `y` (one value, or n of them) exactly given it."""
        require_own_jax()
        n_rows = check_whole("n", n)
        heat = check_real("temperature", temperature, Real(0.0, open_low=True))
        source, drawn = self.model.source, self._drawn
        cooled = eqx.tree_at(lambda m: m.flow.base, source, source.flow.base.cooled(heat))
        if y is None:
            base = cooled.flow.base
            _, points = drawn(lambda places, key: base.sample(key, len(places)), n_rows, seed)
            return self.encoder.decode(points)
        wanted = self.target.in_head_terms(one_a_row(y, n_rows, "y"))
        real = wanted if wanted.dtype.kind in "iu" else wanted.astype(jnp.result_type(float))
        model = self.model.with_source(cooled)
        _, points = drawn(
            lambda places, key: draw.latents_given(model, jnp.asarray(real[places]), key=key),
            n_rows,
            seed,
        )
        return self.encoder.decode(points)

    def sample_joint(self, n: int, *, seed: int) -> tuple[Container, Column]:
        """`n` rows and targets drawn from the joint p(x, y)."""
        require_own_jax()
        check_whole("n", n)
        base = self.model.source.flow.base
        us, points = self._drawn(lambda places, key: base.sample(key, len(places)), n, seed)
        told = draw.answers_at(self.model, jnp.asarray(us))
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), MOST_REDRAWS), n)
        ys = jax.vmap(lambda response, key: response.sample(key))(told, keys)
        return self.encoder.decode(points), self.target.in_user_terms(np.asarray(ys))

    def between(
        self, first: Encoded, second: Encoded, steps: int, way: str = "circle"
    ) -> Container:
        """Rows from one row to another, on a way of `draw.WAYS` through the density's latents."""
        ends = np.concatenate([at_centres(self.encoder, e.values[:1]) for e in (first, second)])
        us = evaluate.evaluate(evaluate.latents, self.model, ends, np.zeros(0)).astype(float)
        return self.encoder.decode(self._points(draw.WAYS[way](us[0], us[1], steps)))

    def _drawn(
        self, latents: Callable[[np.ndarray, Key], Latents | Array], n: int, seed: int
    ) -> tuple[Latents, Float[np.ndarray, "n ..."]]:
        """Latents of the density, drawn for places 0 to n - 1, and the encoded rows there.

        Of what lies farther from all training rows than these from one another a network knows
        nothing: where such a row is drawn, it is drawn again.
        """
        key = jax.random.key(seed)
        us = np.array(latents(np.arange(n), key))
        points = self._points(us)
        for turn in range(MOST_REDRAWS):
            left = np.flatnonzero(~self.encoder.within_reach(points))
            if len(left) == 0:
                break
            places = np.resize(left, bucket(len(left)))  # of few sizes, which compile once
            again = np.asarray(latents(places, jax.random.fold_in(key, turn)))[: len(left)]
            us[left], points[left] = again, self._points(again)
        return us, points

    def _points(self, us: Latents) -> Float[np.ndarray, "n ..."]:
        """Encoded rows at latents of the density."""
        return np.array(evaluate.evaluate(evaluate.draw, self.model, us, np.zeros(0)), float)

    def called(self, owner: str) -> "Predictor":
        """The same, under another name in error messages."""
        return replace(self, owner=owner)
