r"""Why is this row strange, and why this answer? By what each column is against what is expected.

For each column j of a row, its value is compared with values $v$ drawn from
$p(x_j \mid x_{-j})$: what the other columns lead one to expect. Of any quantity g of the row,
$$g(x) - E_{v \sim p(x_j | x_{-j})}\, g(x_{j \to v})$$
is what the column adds to it: nothing where the value is as expected. With $g = -\log p(x)$ this is
the surprise of the value, $-\log p(x_j \mid x_{-j})$, less the surprise that is usual there, in
nats; a value two deviations of its conditional away adds 1.5.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from diglm.data.encoder import Container, Rows
from diglm.data.facets import Facet
from diglm.drawing import DARK, GREY, WARM, Figure, new_figure
from diglm.predictor.conditionals import Conditionals, pieces, summary
from diglm.predictor.frames import table_like
from diglm.predictor.predictor import Predictor

MOST_BARS = 20
WORTH_SAYING = 0.5  # nats above which a figure says what was expected instead


@dataclass(frozen=True)
class Explanation:
    """What each part of each row adds. Tables have a column for each; images are maps.

    Attributes:
        surprise: to -log p(x), in nats, above what is usual; a missing value has -log of the
            probability that it is missing.
        strangeness: to what refusals are judged by, in its own unit.
        prediction: to the answer: to the probability of the class that is asked about, or to the
            mean; None for a model without a target.
        expected: rows in which every part stands at its most probable value given the others.
        answer: the answer that is explained, one a row.
        parts: the same as arrays (rows, columns), by name; and the cells of rows and expectations.
        facets: what the columns are.
    """

    surprise: Container
    strangeness: Container
    prediction: Container | None
    expected: Container
    answer: Float[np.ndarray, " rows"] | None
    parts: dict[str, Float[np.ndarray, "rows columns"]]
    facets: tuple[Facet, ...]

    def ranking(self) -> Int[np.ndarray, "rows columns"]:
        """Positions of the columns in each row, the most surprising first."""
        return np.argsort(-self.parts["surprise"], axis=1, kind="stable")

    def table(self, row: int = 0) -> Container:
        """One row: its values, what was expected, and what each adds; the most surprising first."""
        order = self.ranking()[row].tolist()
        texts = {name: [self._text(name, row, j) for j in order] for name in ("value", "expected")}
        columns = {"column": np.array([str(self.facets[j].name) for j in order], object)}
        columns |= {name: np.array(values, object) for name, values in texts.items()}
        for name in ("surprise", "strangeness", "prediction"):
            if name in self.parts:
                columns[name] = self.parts[name][row, order]
        return table_like(np.zeros(0), columns)

    def figure(self, row: int = 0) -> Figure:
        """One row as a figure: bars for a table, maps for an image."""
        shown = [name for name in ("surprise", "prediction") if name in self.parts]
        if any(len(facet.places) > 1 for facet in self.facets):
            return self._maps(row, shown)
        order = self.ranking()[row][:MOST_BARS][::-1].tolist()
        figure, axes = new_figure(1.5 + 3.2 * len(shown), 1.1 + 0.3 * len(order), len(shown))
        titles = {"surprise": "adds to strangeness, in nats", "prediction": "adds to the answer"}
        for one, name in zip(axes, shown, strict=True):
            values = self.parts[name][row, order]
            colours = [WARM if value > 0 else DARK for value in values]
            one.barh(range(len(order)), values, color=colours, height=0.7)
            one.axvline(0, color=GREY, linewidth=0.8)
            one.set(yticks=range(len(order)), yticklabels=[], xlabel=titles[name])
        axes[0].set_yticklabels([self._label(row, j) for j in order])
        if self.answer is not None:
            axes[-1].set_title(f"answer {self.answer[row]:.3g}", fontsize=10)
        return figure

    def _maps(self, row: int, shown: list[str]) -> Figure:
        figure, axes = new_figure(3.2 * (1 + len(shown)), 3.0, 1 + len(shown))
        axes[0].imshow(_grey(self.expected, self.parts["value"], row), cmap="gray_r")
        axes[0].set_title("image")
        for one, name in zip(axes[1:], shown, strict=True):
            values = getattr(self, name)[row]
            top = max(float(np.max(np.abs(values))), 1e-12)
            image = one.imshow(values, cmap="RdBu_r", vmin=-top, vmax=top)
            figure.colorbar(image, ax=one, shrink=0.8)
            one.set_title(name)
        for one in axes:
            one.set(xticks=[], yticks=[])
        return figure

    def _text(self, name: str, row: int, j: int) -> str:
        facet = self.facets[j]
        cells = self.parts[name][row, list(facet.places)]
        return facet.text(float(cells[0] if len(cells) == 1 else np.mean(cells)))

    def _label(self, row: int, j: int) -> str:
        name, value = self.facets[j].name, self._text("value", row, j)
        if self.parts["surprise"][row, j] < WORTH_SAYING:
            return f"{name} = {value}"
        return f"{name} = {value}, not {self._text('expected', row, j)}"


def explain(
    predictor: Predictor,
    X: Rows,
    target: object = None,
    *,
    groups: np.ndarray | None = None,
    extra: str = "error",
) -> Explanation:
    """What each column of each row adds to its strangeness and to its prediction."""
    facets = predictor.encoder.facets
    if not facets:
        raise ValueError(f"{type(predictor.encoder).__name__} does not say what parts rows have.")
    cells = predictor.cells(X, extra=extra)
    codes = predictor.codes(groups, len(cells))
    conditionals = Conditionals.of(predictor)
    # Rows one block at a time: every part of a row is tried at dozens of values.
    blocks = [
        _explained(conditionals, cells[some], None if codes is None else codes[some], target, some)
        for some in pieces(len(cells))
    ]
    parts = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    answer = parts.pop("answer", None)
    parts["value"] = cells
    laid = {
        name: _laid_out(predictor, X, parts[name])
        for name in ("surprise", "strangeness", "prediction")
        if name in parts
    }
    return Explanation(
        surprise=laid["surprise"],
        strangeness=laid["strangeness"],
        prediction=laid.get("prediction"),
        expected=predictor.encoder.decode_cells(parts["expected"]),
        answer=answer,
        parts=parts,
        facets=facets,
    )


def _explained(
    conditionals: Conditionals,
    cells: Float[np.ndarray, "rows cells"],
    codes: np.ndarray | None,
    target: object,
    some: slice,
) -> dict[str, np.ndarray]:
    predictor, n = conditionals.predictor, len(cells)
    facets = predictor.encoder.facets
    log_px, strangeness, answers = summary(predictor, cells, codes)
    wanted = target if np.ndim(target) == 0 else np.asarray(target)[some]  # type: ignore
    asked = predictor.target.asked_of(answers, wanted)
    rows, n_answers = np.arange(n), answers.shape[1]
    found = {name: np.zeros((n, len(facets))) for name in ("surprise", "strangeness")}
    if n_answers:
        found |= {"prediction": np.zeros((n, len(facets))), "answer": answers[rows, asked]}
    expected = np.zeros(cells.shape)
    for j, facet in enumerate(facets):
        at = conditionals.given_rest(cells, facet, codes)
        usual = at.expect(-at.log_px)
        gone = np.isnan(cells[:, list(facet.places)]).any(axis=1)
        missing = np.logaddexp(log_px, at.log_mass) - log_px
        found["surprise"][:, j] = np.where(gone, missing, -log_px - usual)
        found["strangeness"][:, j] = strangeness - at.expect(at.strangeness)
        expected[:, list(facet.places)] = at.best
        if n_answers:
            change = answers - at.expect(at.answers)
            found["prediction"][:, j] = change[rows, asked]
    return found | {"expected": expected}


def _laid_out(
    predictor: Predictor, X: Rows, values: Float[np.ndarray, "rows columns"]
) -> Container:
    """A table with a column for each part, or a map of parts that are patches."""
    facets = predictor.encoder.facets
    if all(len(facet.places) == 1 for facet in facets):
        return table_like(X, {facet.name: values[:, j] for j, facet in enumerate(facets)})
    spread = np.zeros((len(values), predictor.encoder.dim))
    for j, facet in enumerate(facets):
        spread[:, list(facet.places)] = values[:, [j]]
    return spread.reshape(len(values), *predictor.encoder.shape)[..., 0]


def _grey(like: np.ndarray, cells: Float[np.ndarray, "rows cells"], row: int) -> np.ndarray:
    """An image as one channel of greys."""
    return cells[row].reshape(like.shape[1:]).mean(axis=-1)
