"""`report`: one page about a fitted model and rows."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from diglm.data.encoder import Rows
from diglm.report.card import describe
from diglm.report.model_page import write_report
from diglm.report.subject import Subject
from diglm.targets import as_column

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from diglm.predictor import Predictor


class AbstractReportedEstimator:
    """An estimator that writes about itself."""

    if TYPE_CHECKING:
        history_: list[dict[str, float | int]]
        density_history_: list[dict[str, float | int]]
        card_: dict[str, object]

        @property
        def _fitted(self) -> Predictor: ...

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...

    def report(
        self,
        path: str | os.PathLike,
        X: Rows,
        y: "ArrayLike | None" = None,
        *,
        against: Rows | None = None,
        title: str = "",
        command: str | None = None,
        random_state: int = 0,
        rows: Sequence[object] | None = None,
        note: str = "",
    ) -> Path:
        """Write one HTML file about the model and rows `X`: no script, nothing fetched.

        It shows the data and its odd columns, accuracy and calibration, how strange the rows are,
        what refusing buys, the worst and the strangest rows, draws beside real rows,
        counterfactuals, training curves and a model card. Give rows that were not learned from.

        Args:
            path: the file; it appears when it is whole, and an earlier one survives any failure.
            X: rows.
            y: their targets; without them nothing is said of accuracy. NaN or None for unknown.
            against: other rows, to see whether the inputs have moved.
            title: of the page.
            command: how the report was asked for, to be shown in it.
            random_state: seed of what is drawn.
            rows: what each row is called where it is shown; by default the index of a pandas
                frame, and the place of the row, from 0, of all else.
            note: what readers should know of these rows, said at the top.
        """
        card = dict(self.card_) | ({} if command is None else {"report command": command})
        subject = replace(
            self._subject(X, y, card, against, random_state),
            rows=_index_of(X) if rows is None else rows,
            note=note,
        )
        return write_report(path, subject, title)

    def describe(self) -> dict[str, object]:
        """What the model is, by name: columns, target, head, threshold, and its card."""
        nothing = self._subject(None, None, self.card_, None, 0)
        return describe(nothing)

    def _chosen(self) -> dict[str, object]:
        """Parameters that are not the defaults."""
        usual = type(self)().get_params(deep=False)
        given = self.get_params(deep=False)
        return {k: v for k, v in given.items() if repr(v) != repr(usual[k])}

    def _subject(
        self,
        X: Rows | None,
        y: "ArrayLike | None",
        card: Mapping[str, object],
        against: Rows | None,
        seed: int,
    ) -> Subject:
        return Subject(
            self._fitted,
            X,
            None if y is None else np.asarray(as_column(y)),
            history=self.history_,
            density_history=self.density_history_,
            parameters=self._chosen(),
            card=card,
            against=against,
            explain=getattr(self, "explain", None),
            kind=type(self).__name__,
            seed=seed,
        )


def _index_of(X: Rows) -> list[object] | None:
    """The names of a pandas frame's rows; None for what has none."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    index = nw.maybe_get_index(frame) if isinstance(frame, nw.DataFrame) else None
    return None if index is None else index.tolist()
