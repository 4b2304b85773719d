"""Have the inputs moved? These rows beside other ones, as the model sees both."""

import numpy as np

from diglm.drawing import new_figure
from diglm.report.page import Section, embed, table
from diglm.report.strange import strangeness_histogram
from diglm.report.subject import Subject
from diglm.report.views import view_of


def moved_section(subject: Subject) -> Section | None:
    """Strangeness of both, the move in nats, and the columns that moved most."""
    if subject.against is None:
        return None
    refusal = subject.predictor.refusal
    other = refusal.strangeness(subject.known_against)
    groups = {"rows of this report": subject.strangeness, "the other rows": other}
    figure, (axes,) = new_figure(5.8, 3.1)
    strangeness_histogram(axes, groups, refusal.threshold.limit)
    here, there = subject.known.log_px, subject.known_against.log_px
    move = float(np.mean(here) - np.mean(there))
    doubt = float(np.sqrt(np.var(here) / len(here) + np.var(there) / len(there)))
    numbers = [
        ("rows", f"{len(here):,}", f"{len(there):,}"),
        ("refused", f"{np.mean(subject.refused):.1%}",
         f"{np.mean(refusal.rejects(subject.known_against)):.1%}"),
        ("mean log p(x), nats", f"{np.mean(here):.2f}", f"{np.mean(there):.2f}"),
    ]  # fmt: skip
    content = embed(figure, "Strangeness of both sets of rows.")
    content += table(("", "this report", "the other rows"), numbers)
    content += view_of(subject).moves(subject.against)
    verdict = "more than chance explains" if abs(move) > 3 * doubt else "within chance"
    return Section(
        "Have the inputs moved?",
        f"The other rows are {abs(move):.2f} nats a row {'less' if move > 0 else 'more'} probable "
        f"than those of this report (give or take {doubt:.2f}), {verdict}. Columns are listed "
        "by how far their values moved: 0 is not at all, 1 is altogether.",
        content,
    )
