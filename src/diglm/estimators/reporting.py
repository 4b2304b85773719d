"""`report`: one page about a fitted model and rows."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
        """
        card = dict(self.card_) | ({} if command is None else {"report command": command})
        return write_report(path, self._subject(X, y, card, against, random_state), title)

    def describe(self) -> dict[str, object]:
        """What the model is, by name: columns, target, head, threshold, and its card."""
        nothing = self._subject(None, None, self.card_, None, 0)
        return describe(nothing)

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
            parameters=self.get_params(deep=False),
            card=card,
            against=against,
            explain=getattr(self, "explain", None),
            kind=type(self).__name__,
            seed=seed,
        )
