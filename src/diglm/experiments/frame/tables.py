"""The tables on the page of results, one function each."""

from collections.abc import Sequence

from diglm.experiments.frame import paper
from diglm.experiments.frame.page import (
    DOWN,
    NOT_RUN,
    ORIGIN,
    UP,
    Column,
    Found,
    Results,
    table,
)
from diglm.experiments.registry import STUDIES, study

# Of a strange set under each rule: a column, where its number is, and whether the paper has it.
UNDER_RULES = (
    (Column("NLL", DOWN), "nll", True),
    (Column("entropy", UP, ".3f"), "entropy", True),
    (Column("refused", UP, ".1%"), "refused", False),
)
RULES = {"minimum": "paper's rule", "conformal": "ours"}


def image_table(results: Results, name: str, strange: str, numbers: dict[float, tuple]) -> str:
    """The paper's Table 1 or 2, a row a weight; means over seeds, and their standard deviations.

    What depends on which images are refused stands there under the paper's rule and under ours.
    """
    familiar = {
        "bits_per_dimension": Column("bits per dimension", DOWN),
        "error": Column("error", DOWN, ".2%"),
        "nll": Column("NLL", DOWN, ".3f"),
    }
    bits = Column(f"{strange}: bits", UP)
    by_weight: dict[float, list[Found]] = {weight: [] for weight in numbers}
    for one in results.of(name).values():
        by_weight.setdefault(one.run.config["weight"], []).append(one)
    rows = []
    for weight, theirs in numbers.items():
        found = by_weight[weight]
        metrics = [one.metrics for one in found if one.metrics is not None]
        others = [one["strange"][strange] for one in metrics]
        cells = [
            column.cell([one[key] for one in metrics], told)
            for (key, column), told in zip(familiar.items(), theirs[:3], strict=True)
        ]
        cells.append(bits.cell([one["bits_per_dimension"] for one in others], theirs[3]))
        published = iter(theirs[4:])
        for column, key, in_paper in UNDER_RULES:
            told = next(published) if in_paper else None
            for rule in RULES:
                cells.append(column.cell([one[key][rule] for one in others], told))
                told = None  # the paper has no other rule
        rows.append([f"{weight:g}/D" if weight else "0", *cells, *_origins(found)])
    guarded = [f"{c.title}, {said}" for c, *_ in UNDER_RULES for said in RULES.values()]
    titles = [*(column.title for column in familiar.values()), bits.title]
    titles += [f"{strange}: {title}" for title in guarded]
    return table(["λ", *titles, *ORIGIN], rows)


def _origins(found: Sequence[Found]) -> list[str]:
    """Seconds of all seeds, the seeds, and the commits, with marks."""
    there = [one for one in found if one.stored is not None]
    if len(there) < 2:
        return (there or found)[0].origin
    seconds = sum(one.stored["seconds"] for one in there if one.stored is not None)
    _, seeds, commits = zip(*(one.origin for one in there), strict=True)
    return [f"{seconds:,.0f}", ", ".join(seeds), ", ".join(dict.fromkeys(commits))]


def semi_table(results: Results, name: str, numbers: dict[str, tuple]) -> str:
    """The paper's Table 3 or S2; rows that this budget leaves out are not run."""
    columns = [Column("error", DOWN, ".2%"), Column("NLL", DOWN, ".3f")]
    found, rows = results.of(f"{name}_semi"), []
    for one in found.values():
        row, metrics = one.run.config["row"], one.metrics
        theirs = numbers.get(row, (None, None))
        ours = [None, None] if metrics is None else [metrics["error"], metrics["nll"]]
        cells = [c.cell(*pair) for c, *pair in zip(columns, ours, theirs, strict=True)]
        rows.append([row, *cells, *one.origin])
    asked = {one.run.config["row"] for one in found.values()}
    for row in (row for row in numbers if row not in asked):
        cells = [c.cell(None, theirs) for c, theirs in zip(columns, numbers[row], strict=True)]
        rows.append([row, *cells, *[""] * len(ORIGIN)])
    return table(["learned from", *(column.title for column in columns), *ORIGIN], rows)


def grid_table(results: Results) -> str:
    """The paper's Table S1, and what a search of the grid found."""
    found = results.of("unlabelled_search")
    rows = []
    for name, values in paper.TABLE_S1.items():
        best = [_best(one, name, values) for one in found.values()]
        rows.append([name, _listed(values), *best])
    for place, title in enumerate(ORIGIN):
        rows.append([title, "", *(one.origin[place] for one in found.values())])
    data = [f"best on {one.run.config['data']}" for one in found.values()]
    return table(["hyperparameter", "grid", *data], rows)


def _best(one: Found, name: str, grid: Sequence[float | int]) -> str:
    """The best value, and those that were searched where they are not the whole grid."""
    if one.metrics is None:
        return NOT_RUN
    searched = one.run.config[name]
    rest = "" if set(searched) == set(grid) else f" (of {_listed(searched)})"
    return f"{one.metrics['best'][name]:g}{rest}"


def _listed(values: Sequence[float | int]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def flights_table(results: Results) -> str:
    """RMSE and NLL of the paper's text."""
    columns = [Column("RMSE", DOWN), Column("NLL", DOWN)]
    rows = []
    for one in results.of("flights").values():
        config, metrics = one.run.config, one.metrics
        if "-rows" in one.run.name:
            continue
        ours = [None, None] if metrics is None else [metrics["rmse"], metrics["nll"]]
        cells = [c.cell(*pair) for c, *pair in zip(columns, ours, paper.FLIGHTS, strict=True)]
        recipe = {"paper": "the paper's recipe", "ours": "our recipe"}[config["recipe"]]
        rows.append([f"{recipe}, split {config['split']}", *cells, *one.origin])
    return table(["model", *(column.title for column in columns), *ORIGIN], rows)


def toy_table(results: Results) -> str:
    """What is measured of Figure 2, of which the paper gives no numbers."""
    (one,) = results.of("toy_regression").values()
    names = {
        "hybrid": "hybrid with a density of its own",
        "shared_flow": "hybrid, one flow for both (the paper's)",
        "gaussian_process": "Gaussian process",
        "kernel_density": "kernel density estimate",
    }
    keys = {"rmse_to_truth": ".2f", "coverage_90": ".1%", "log_py": ".3f", "log_px": ".3f"}
    rows = []
    for name, title in names.items():
        of_one = (one.metrics or {}).get(name)
        if of_one is None:
            rows.append([title, *[NOT_RUN] * len(keys), *one.origin])
            continue
        cells = [f"{of_one[key]:{form}}" if key in of_one else "" for key, form in keys.items()]
        rows.append([title, *cells, *one.origin])
    titles = ["RMSE to x³", "in the 90 % interval", "mean log p(y\\|x)", "mean log p(x)"]
    return table(["model", *titles, *ORIGIN], rows)


def moons_table(results: Results) -> str:
    """Accuracies of Figure 6."""
    (one,) = results.of("half_moons").values()
    if one.metrics is None:
        return f"*{NOT_RUN.capitalize()}.*"
    rows = [
        [
            name,
            f"{sum(values) / len(values):.2%}",
            f"{min(values):.2%}",
            str(len(values)),
            *one.origin,
        ]
        for name, values in one.metrics.items()
    ]
    return table(["learned from", "mean accuracy", "least", "draws", *ORIGIN], rows)


FUTURE = {
    "moons": {"kl": ("KL from the truth", ".3f"), "error": ("error", ".2%")},
    "digits": {"bits_per_dimension": ("bits per dimension", ".3f"), "error": ("error", ".2%")},
    "table": {"log_px": ("mean log p(x)", ".2f"), "rmse": ("RMSE", ".2f")},
}


def future_table(results: Results, data: str) -> str:
    """Flows and terms that the paper leaves for the future, beside couplings, on one data set."""
    one = results.of("future_flows")[f"future_flows/{data}"]
    if one.metrics is None:
        return f"*{NOT_RUN.capitalize()}.*"
    columns = FUTURE[data] | {
        "nll": ("NLL", ".3f"),
        "log_px_error": ("standard error of a row's log p(x)", ".2f"),
        "seconds": ("processor seconds of fit", ",.0f"),
    }
    rows = []
    for name, told in one.metrics.items():
        means = {key: sum(told[key]) / len(told[key]) for key in columns}
        cells = [f"{means[key]:{form}}" for key, (_, form) in columns.items()]
        rows.append([name, *cells, *one.origin[1:]])
    return table(["flow", *(title for title, _ in columns.values()), *ORIGIN[1:]], rows)


def studies_table(results: Results) -> str:
    """Every study: what it shows, how many of its runs are there, and what makes them."""
    rows = []
    for name in STUDIES:
        found = results.of(name)
        there = [one for one in found.values() if one.stored is not None]
        sound = sum(not one.marks.strip("°") for one in there)
        seconds = sum(one.stored["seconds"] for one in there if one.stored is not None)
        shows = ", ".join(study(name).shows)
        counts = [f"{len(there)} of {len(found)}", str(sound), f"{seconds:,.0f}"]
        rows.append([f"{results.command(name)} {study(name).about}", shows, *counts])
    return table(["study", "shows", "results", "unmarked", "seconds"], rows)
