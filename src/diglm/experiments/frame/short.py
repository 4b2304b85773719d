"""The paper's results in short, for the README."""

import functools
from typing import Any

from diglm.experiments.frame import paper
from diglm.experiments.frame.page import DOWN, MARKS, ORIGIN, Column, Results, table

# What the README shows: a title, a study, a file of its results, the place of a number in it, its
# column, and the paper's number.
SHORT: tuple[tuple[str, str, str, tuple[str, ...], Column, float | None], ...] = (
    (
        "Figure 2: RMSE to the truth",
        "toy_regression",
        "toy_regression",
        ("hybrid", "rmse_to_truth"),
        Column("", DOWN),
        None,
    ),
    (
        "Flights: NLL of the paper's recipe",
        "flights",
        "flights/hybrid-all-paper",
        ("nll",),
        Column("", DOWN),
        paper.FLIGHTS[1],
    ),
    (
        "Table 1: MNIST at 1/D, error",
        "mnist",
        "mnist_1",
        ("error",),
        Column("", DOWN, ".2%"),
        paper.TABLE_1[1.0][1],
    ),
    (
        "Table 1: MNIST at 1/D, bits",
        "mnist",
        "mnist_1",
        ("bits_per_dimension",),
        Column("", DOWN),
        paper.TABLE_1[1.0][0],
    ),
    (
        "Table 2: SVHN at 1/D, error",
        "svhn",
        "svhn_1",
        ("error",),
        Column("", DOWN, ".2%"),
        paper.TABLE_2[1.0][1],
    ),
    (
        "Table 2: SVHN at 1/D, bits",
        "svhn",
        "svhn_1",
        ("bits_per_dimension",),
        Column("", DOWN),
        paper.TABLE_2[1.0][0],
    ),
    (
        "Table 3: MNIST with 1,000 labels, error",
        "mnist_semi",
        "semi_mnist_with_unlabelled_images",
        ("error",),
        Column("", DOWN, ".2%"),
        paper.TABLE_3["with unlabelled images"][0],
    ),
    (
        "Table S2: SVHN with 1,000 labels, error",
        "svhn_semi",
        "semi_svhn_with_unlabelled_images",
        ("error",),
        Column("", DOWN, ".2%"),
        paper.TABLE_S2["with unlabelled images"][0],
    ),
)


def short_table(results: Results) -> str:
    """The paper's results in short: its number, ours, and how ours was made."""
    rows = []
    for title, name, file, place, column, theirs in SHORT:
        one = results.of(name)[file]
        ours: Any = one.metrics
        if ours is not None:
            ours = functools.reduce(lambda inner, key: inner[key], place, ours)
        rows.append([title, column.cell(ours, theirs), *one.origin, results.command(name)])
    marks = "; ".join(f"{mark} {meaning}" for mark, meaning in MARKS.items())
    titles = ["", "ours (the paper's)", *ORIGIN, "command"]
    return f"{table(titles, rows)}\n\n{marks}."
