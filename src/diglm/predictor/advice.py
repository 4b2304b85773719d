"""Advice: a change of a row as steps that a person can follow, one column at a time."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from diglm.data.encoder import Container
from diglm.data.facets import Facet
from diglm.drawing import DARK, GREY, LIGHT, WARM, Figure, new_figure
from diglm.predictor.frames import table_like
from diglm.predictor.predictor import Predictor


@dataclass(frozen=True)
class Advice:
    """Rows before and after.

    Attributes:
        predictor: the model.
        facets: the columns.
        before: cells of the rows that were asked about.
        after: cells of the answers.
    """

    predictor: Predictor
    facets: tuple[Facet, ...]
    before: Float[np.ndarray, "rows columns"]
    after: Float[np.ndarray, "rows columns"]

    def path(self, i: int = 0) -> Container:
        """One change after the other, each next one such that the row on the way is least strange.

        A table: what is changed, to what, and what the model says of the row after that.
        """
        cells, changed = self._steps(i)
        known = self.predictor.known(self.predictor.at(cells))
        texts = ["as it is", *(self._change(i, j) for j in changed)]
        columns = {"step": np.array(texts, object)}
        columns |= self.predictor.target.columns(known.response)
        columns |= {"log_px": known.log_px, "rejected": self.predictor.refusal.rejects(known)}
        return table_like(np.zeros(0), columns)

    def figure(self, i: int = 0) -> Figure:
        """What changes, in spreads of the data; and log p(x) on the way."""
        cells, changed = self._steps(i)
        log_px = self.predictor.known(self.predictor.at(cells)).log_px
        figure, (left, right) = new_figure(8.0, 1.3 + 0.4 * max(len(changed), 1), 2)
        before, after = self.before[i], self.after[i]
        for place, j in enumerate(changed):
            facet = self.facets[j]
            far = float(facet.far(after[[j]], before[[j]])[0])
            down = after[j] < before[j] and not facet.levels
            left.barh(place, -far if down else far, color=DARK if down else WARM, height=0.6)
        left.axvline(0, color=GREY, linewidth=0.8)
        left.set(
            yticks=range(len(changed)),
            yticklabels=[self._change(i, j) for j in changed],
            xlabel="change, in spreads of the data",
        )
        left.invert_yaxis()
        right.plot(range(len(log_px)), log_px, color=DARK, marker="o", markerfacecolor=LIGHT)
        right.set(xlabel="changes made", ylabel="log p(x)", xticks=range(len(log_px)))
        return figure

    def _steps(self, i: int) -> tuple[Float[np.ndarray, "steps columns"], list[int]]:
        """Rows on the way, and the columns in the order of their change."""
        before, after = self.before[i], self.after[i]
        same = (before == after) | (np.isnan(before) & np.isnan(after))
        left, order, rows = list(np.flatnonzero(~same)), [], [before]
        while left:
            tries = np.repeat(rows[-1][None], len(left), axis=0)
            tries[np.arange(len(left)), left] = after[left]
            known = self.predictor.known(self.predictor.at(tries))
            best = int(np.argmin(self.predictor.refusal.strangeness(known)))
            rows.append(tries[best])
            order.append(int(left.pop(best)))
        return np.stack(rows), order

    def _change(self, i: int, j: int) -> str:
        facet = self.facets[j]
        before, after = facet.text(float(self.before[i, j])), facet.text(float(self.after[i, j]))
        return f"{facet.name}: {before} → {after}"
