"""How training went: what each epoch had reached on the rows held out."""

import numpy as np

from diglm.drawing import DARK, GREY, WARM, Axes, new_figure
from diglm.report.page import Section, embed
from diglm.report.subject import History, Subject


def training_section(subject: Subject) -> Section | None:
    """A curve for p(y|x), and one for p(x)."""
    predicts = not subject.predictor.target.density_only
    drawn = []
    if predicts and len(subject.history) > 1:
        drawn.append(_curve(subject.history, "log_py", "−log p(y|x), nats a row"))
    density = subject.density_history or subject.history
    if len(density) > 1:
        drawn.append(_curve(density, "log_px", "−log p(x), nats a row"))
    if not drawn:
        return None
    parts = {"p(y|x)": len(subject.history)} if predicts else {}
    parts["p(x)"] = len(density)
    counts = " and ".join(f"{n:,} for {name}" for name, n in parts.items())
    epochs = counts if len(set(parts.values())) > 1 else f"{len(density):,}"
    return Section(
        "How training went",
        f"Epochs: {epochs}. Lower is better. The dark line is on rows held out, the grey one on "
        "those learned from; the dot is the epoch that was kept. Where the dark line rises while "
        "the grey one falls, the model learns by heart, and an earlier epoch is kept.",
        f'<div class="figures">{"".join(drawn)}</div>',
    )


def _curve(history: History, name: str, label: str) -> str:
    figure, (axes,) = new_figure(4.6, 3.0)
    training = -np.array([record[name] for record in history])
    axes.plot(np.arange(1, len(history) + 1), training, color=GREY, linewidth=1, alpha=0.7)
    if f"val_{name}" in history[0]:
        held_out = -np.array([record[f"val_{name}"] for record in history])
        axes.plot(np.arange(1, len(history) + 1), held_out, color=DARK, linewidth=2)
        losses = np.array([record["val_loss"] for record in history])
        _mark(axes, int(np.nanargmin(losses)), held_out)
        _limit(axes, held_out, training)
    axes.set(xlabel="epoch", ylabel=label)
    axes.grid(color="#dddddd", linewidth=0.6)
    return embed(figure, f"{label} over the epochs of training.")


def _mark(axes: Axes, best: int, values: np.ndarray) -> None:
    axes.plot([best + 1], values[best : best + 1], "o", color=WARM, markersize=7)


def _limit(axes: Axes, *curves: np.ndarray) -> None:
    """Leave out the first, steep epochs where they would flatten all others."""
    values = np.concatenate(curves)
    values = values[np.isfinite(values)]
    low, high = np.min(values), np.quantile(values, 0.97)
    room = 0.08 * max(high - low, 1e-9)
    axes.set_ylim(low - room, high + room)
