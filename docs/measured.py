"""Write the measured numbers into README.md and the pages of docs/, from the files in results/.

    python docs/measured.py

docs/results.md is written whole, by `diglm.experiments.frame.text`. Elsewhere each block between
`<!-- numbers: NAME -->` and `<!-- end -->` is made anew from results/NAME.json, or from the folder
of results that its writer reads; a test checks that the pages hold what the files say.
"""

import ast
import functools
import itertools
import json
import math
import re
import statistics
from collections.abc import Callable
from pathlib import Path

from diglm.experiments.frame import Folders
from diglm.experiments.frame.page import Results
from diglm.experiments.frame.short import short_table
from diglm.experiments.frame.text import page_of

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"(<!-- numbers: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


MARK = "†"
FOOTNOTE = f"{MARK} from a tree with changes that no commit holds: not made again by its command."


def mark(result: dict) -> str:
    """What tells a result that no commit makes again from the others."""
    return f" {MARK}" if str(result["commit"]).endswith("+") else ""


def tables(result: dict) -> str:
    """Of the tables that nothing was chosen by: mean ranks, coverage, the worst gaps."""
    judged = result["metrics"]["judged"]
    rows = {
        "mean rank in NLL": ("mean_rank_nll", ".2f"),
        "mean rank in error": ("mean_rank_error", ".2f"),
        "mean rank in RMSE": ("mean_rank_rmse", ".2f"),
        "first in NLL, tables": ("wins_nll", "d"),
        "90 % intervals cover, tables below 500 rows": ("mean_coverage_small", ".1%"),
        "largest RMSE, times the best": ("worst_rmse_ratio", ".2f"),
        "largest gap in NLL to the linear model": ("worst_gap_to_linear", ".2f"),
    }
    models = [name for name in judged if "mean_rank_nll" in judged[name]]
    lines = ["| | " + " | ".join(models) + " |", "|---|" + "---:|" * len(models)]
    for label, (key, form) in rows.items():
        cells = [judged[name].get(key) for name in models]
        shown = ("" if cell is None else format(cell, form) for cell in cells)
        lines.append(f"| {label} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def speed(result: dict) -> str:
    """Time of each library as a multiple of diglm's."""
    head = f"| library{mark(result)} | one training step, batch 100 | scoring 100,000 rows |"
    lines = [head, "|---|---:|---:|"]
    for name, numbers in result["metrics"].items():
        step, score = numbers["step_ratio"], numbers["score_ratio"]
        lines.append(f"| {name} {numbers['version']} | {step:.1f}x | {score:.1f}x |")
    return "\n".join(lines)


def serving(result: dict) -> str:
    """Rates and latencies of the service and of a naive endpoint, by the number of clients."""
    lines = [
        f"| clients{mark(result)} | rows a second | naive | times | p50, p99 in ms | naive "
        "| processor ms a row | naive |",
        "|---:|" + "---:|" * 7,
    ]
    for n, one in result["metrics"].items():
        ours, naive = one["ours"], one["naive"]
        latencies = [f"{who['p50_ms']:.0f}, {who['p99_ms']:.0f}" for who in (ours, naive)]
        rates = [f"{who['rows_a_second']:,.0f}" for who in (ours, naive)]
        costs = [f"{who['cpu_ms_a_row']:.2f}" for who in (ours, naive)]
        cells = [n, *rates, f"**{one['times_naive']:.1f}x**", *latencies, *costs]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def serving_soak(result: dict) -> str:
    """What came of asking for a long time while models were replaced."""
    found = result["metrics"]
    memory = found["memory_mb"]
    turned_away = found.get("503", 0)
    rows = {
        f"seconds at saturation{mark(result)}": f"{result['config']['soak']:,.0f}",
        "times the file of the model was replaced": f"{found['reloads']:,}",
        "answers with 200": f"{found['200']:,}",
        "of these equal to the offline ones, bit for bit": f"{found['bitwise_equal']:,}",
        "turned away with 503": f"{turned_away:,}",
        "any other answer": f"{sum(n for k, n in found.items() if _is_other(k)):,}",
        "MB after a third of the time, and at the end": (
            f"{memory['at_a_third']:.0f}, {memory['at_the_end']:.0f}"
        ),
    }
    return "| | |\n|---|---:|\n" + "\n".join(f"| {k} | {v} |" for k, v in rows.items())


def _is_other(name: str) -> bool:
    return name == "wrong" or (name.isdecimal() and name not in ("200", "503"))


def digits(result: dict) -> str:
    """Accuracy, density and refusals of the demo."""
    metrics = result["metrics"]
    lines = ["| digits, default settings | |", "|---|---:|"]
    lines += [
        f"| accuracy on {metrics['n_test']} test digits | {metrics['accuracy']:.1%} |",
        f"| NLL | {metrics['nll']:.3f} |",
        f"| bits per dimension | {metrics['bits_per_dimension']:.2f} |",
        f"| test digits refused | {metrics['false_refusals']:.1%} |",
    ]
    for name, numbers in metrics["strange"].items():
        lines.append(f"| {name}: refused | {numbers['refused']:.1%} |")
    return "\n".join(lines)


def flights(split: str) -> str:
    """All methods of the flight-delay study on one split, in order of NLL; the best in bold."""
    found = {}
    for path in sorted((ROOT / "results" / "flights").glob(f"*-{split}-*.json")):
        result = json.loads(path.read_text())
        kind, name = path.stem.split(f"-{split}-")
        if "-rows" not in name:
            name = "diglm: " + name if kind == "hybrid" else name
            found[name + mark(result)] = result
    keys = ("rmse", "nll", "crps")
    best = {key: min(result["metrics"][key] for result in found.values()) for key in keys}
    lines = [
        "| method | RMSE | NLL | CRPS | in the 90 % interval | wild | seconds |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, result in sorted(found.items(), key=lambda item: item[1]["metrics"]["nll"]):
        metrics = result["metrics"]
        cells = [
            f"**{metrics[key]:.{digits}f}**"
            if metrics[key] == best[key]
            else f"{metrics[key]:.{digits}f}"
            for key, digits in zip(keys, (2, 3, 2), strict=True)
        ]
        seconds = metrics.get("fit_seconds", result["seconds"])
        cells += [f"{metrics['coverage_90']:.1%}", str(metrics["wild"]), f"{seconds:.0f}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def uci() -> str:
    """NLL on the UCI tables, mean over splits and its standard error; RMSE in brackets."""
    published = _published()
    lines, names = [], []
    for path in sorted((ROOT / "results" / "uci").glob("*.json")):
        result = json.loads(path.read_text())
        names = names or list(result["metrics"])
        cells = []
        for numbers in (result["metrics"][name] for name in names):
            nll, rmse = numbers["nll"], numbers["rmse"]
            error = f" ± {statistics.stdev(nll) / len(nll) ** 0.5:.2f}" if len(nll) > 1 else ""
            cells.append(f"{statistics.mean(nll):.2f}{error} ({statistics.mean(rmse):.3g})")
        for rows in published.values():
            rmse, _, nll, spread = rows[path.stem]
            cells.append(f"{nll:.2f} ± {spread:.2f} ({rmse:.3g})")
        named = f"{path.stem} ({result['config']['splits']}){mark(result)}"
        lines.append(f"| {named} | " + " | ".join(cells) + " |")
    titles = [*names, *(f"{name}, published" for name in published)]
    head = ["| table (splits) | " + " | ".join(titles) + " |", "|---|" + "---:|" * len(titles)]
    return "\n".join(head + lines)


def uci_bayesian() -> str:
    """As `uci`, for the Bayesian heads, and the share of targets within their 90 % intervals."""
    dropout, ensembles = _published("uci_bayesian")["MC dropout"], _published()["deep ensembles"]
    lines, names, coverage = [], [], {}
    for path in sorted((ROOT / "results" / "uci_bayesian").glob("*.json")):
        result = json.loads(path.read_text())
        names = names or list(result["metrics"])
        boosted = ROOT / "results" / "uci" / path.name
        metrics = result["metrics"]
        if boosted.exists():
            metrics["NGBoost"] = json.loads(boosted.read_text())["metrics"]["NGBoost, run here"]
        cells = []
        for name in [*names, "NGBoost"]:
            if name not in metrics:
                cells.append("")
                continue
            nll, rmse = metrics[name]["nll"], metrics[name]["rmse"]
            error = f" ± {statistics.stdev(nll) / len(nll) ** 0.5:.2f}" if len(nll) > 1 else ""
            cells.append(f"{statistics.mean(nll):.2f}{error} ({statistics.mean(rmse):.3g})")
            coverage.setdefault(name, []).append(statistics.mean(metrics[name]["coverage_90"]))
        for rows in (dropout, ensembles):
            rmse, _, nll, spread = rows[path.stem]
            cells.append(f"{nll:.2f} ± {spread:.2f} ({rmse:.3g})")
        named = f"{path.stem} ({result['config']['splits']}){mark(result)}"
        lines.append(f"| {named} | " + " | ".join(cells) + " |")
    shares = [f"{statistics.mean(coverage[name]):.1%}" for name in [*names, "NGBoost"]]
    lines.append("| in the 90 % interval | " + " | ".join([*shares, "", ""]) + " |")
    titles = [*names, "NGBoost", "MC dropout, published", "deep ensembles, published"]
    head = ["| table (splits) | " + " | ".join(titles) + " |", "|---|" + "---:|" * len(titles)]
    return "\n".join(head + lines)


def toy_regression(result: dict) -> str:
    """The hybrid of the paper's figure beside the two models it stands for."""
    metrics = result["metrics"]
    hybrid, process = metrics["hybrid"], metrics["gaussian_process"]
    low, high = metrics["range_of_x"]
    shares = hybrid["coverage_90_of_tables"]
    rows = [
        ("in the 90 % interval", "coverage_90", "{:.1%}"),
        ("RMSE to x³", "rmse_to_truth", "{:.2f}"),
        ("mean log p(y\\|x)", "log_py", "{:.3f}"),
    ]
    shared = metrics.get("shared_flow", dict.fromkeys(hybrid, math.nan))
    head = f"| {mark(result)} | hybrid | one flow for both | Gaussian process | kernel density |"
    lines = [head, "|---|---:|---:|---:|---:|"]
    for title, key, form in rows:
        cells = " | ".join(form.format(one[key]) for one in (hybrid, shared, process))
        lines.append(f"| {title} | {cells} | |")
    kde = metrics["kernel_density"]["log_px"]
    lines.append(
        f"| mean log p(x) | {hybrid['log_px']:.3f} | {shared['log_px']:.3f} | | {kde:.3f} |"
    )
    lines += [
        "",
        f"Over {len(shares)} tables drawn alike, {statistics.mean(shares):.1%} of new targets lie "
        f"in the hybrid's 90 % interval. Rows lie within [{low:.2f}, {high:.2f}]; the least "
        f"probable has log p(x) = {metrics['least_log_px_of_rows']:.2f}. No farther than "
        f"{metrics['as_probable_within']:.2f} beyond them is any x as probable as that, which is "
        f"less than the kernel's width, {metrics['kernel_width']:.2f}."
        if metrics["as_probable_beyond"] == 0
        else f"{metrics['as_probable_beyond']} places beyond the rows are as probable as a row.",
    ]
    return "\n".join(lines)


def _published(study: str = "uci") -> dict[str, dict[str, tuple[float, ...]]]:
    """The published numbers, read without importing the package and what it needs."""
    tree = ast.parse((ROOT / "src" / "diglm" / "experiments" / f"{study}.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PUBLISHED":
            return ast.literal_eval(node.value)
    raise LookupError(f"PUBLISHED is not in experiments/{study}.py")


def growth() -> str:
    """Cost of the paper's recipe against the number of rows, one epoch each."""
    found = []
    for path in (ROOT / "results" / "flights").glob("hybrid-all-paper-rows*.json"):
        found.append(json.loads(path.read_text())["metrics"])
    lines = [
        "| training rows | training, s | per million rows | waiting for the disk, s | memory |",
        "|---:|---:|---:|---:|---:|",
    ]
    for metrics in sorted(found, key=lambda m: m["train_rows"]):
        lines.append(
            f"| {metrics['train_rows']:,} | {metrics['train_seconds']:.1f} | "
            f"{metrics['seconds_per_million_rows']:.2f} | {metrics['waited_seconds']:.1f} | "
            f"{metrics['peak_memory_gib']:.2f} GiB |"
        )
    return "\n".join(lines)


def images_in_short(study: str) -> str:
    """A line for each weight of the density."""
    rows = _of_study(study)
    strange = list(rows[0][0]["metrics"]["strange"])
    heads = "".join(f" AUROC {name} |" for name in strange)
    lines = [
        f"| λ | bits per dimension | error | NLL | refused |{heads}",
        "|---|---:|---:|---:|---:|" + "---:|" * len(strange),
    ]
    for seeds in rows:
        metrics = [result["metrics"] for result in seeds]
        areas = "".join(
            f" {_mean(metrics, 'strange', name, 'auroc', form='.4f')} |" for name in strange
        )
        lines.append(
            f"| {_lambda(seeds)} | {_mean(metrics, 'bits_per_dimension', form='.2f')} | "
            f"{_mean(metrics, 'error', form='.2%')} | {_mean(metrics, 'nll', form='.3f')} | "
            f"{_mean(metrics, 'refused', 'conformal', form='.2%')} |{areas}"
        )
    return "\n".join(lines)


def _of_study(study: str) -> list[list[dict]]:
    """Results by weight, those of all seeds together."""
    found = [json.loads(path.read_text()) for path in (ROOT / "results").glob(f"{study}_*.json")]
    found.sort(key=lambda result: (result["config"]["weight"], result["seed"]))
    return [list(same) for _, same in itertools.groupby(found, lambda r: r["config"]["weight"])]


def _mean(found: list[dict], *place: str, form: str) -> str:
    """A number over seeds: the mean, and where there are several the standard deviation."""
    told = [functools.reduce(lambda part, key: part[key], place, one) for one in found]
    spread = f" ± {statistics.stdev(told):{form}}" if len(told) > 1 else ""
    return f"{statistics.fmean(told):{form}}{spread}"


def _by_rule(found: list[dict], key: str, form: str) -> str:
    return ", ".join(_mean(found, key, rule, form=form) for rule in ("minimum", "conformal"))


def images(study: str) -> str:
    """The paper's table for a set of images: familiar ones, then each set that is strange."""
    rows = _of_study(study)
    lines = [
        "| λ | bits per dimension | error | NLL | refused: paper's rule, ours | epochs | minutes |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for seeds in rows:
        metrics = [result["metrics"] for result in seeds]
        minutes = statistics.fmean(result["seconds"] for result in seeds) / 60
        lines.append(
            f"| {_lambda(seeds)} | {_mean(metrics, 'bits_per_dimension', form='.2f')} | "
            f"{_mean(metrics, 'error', form='.2%')} | {_mean(metrics, 'nll', form='.3f')} | "
            f"{_by_rule(metrics, 'refused', '.2%')} | {seeds[0]['config']['n_epochs']} | "
            f"{minutes:.0f} |"
        )
    lines += [
        "",
        "| λ | against | bits per dimension | NLL: paper's rule, ours "
        "| entropy: paper's rule, ours "
        "| refused: paper's rule, ours | AUROC | AUPR | FPR at 95 % |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for seeds in rows:
        for name in seeds[0]["metrics"]["strange"]:
            metrics = [result["metrics"]["strange"][name] for result in seeds]
            ranks = [_mean(metrics, key, form=".4f") for key in ("auroc", "aupr")]
            lines.append(
                f"| {_lambda(seeds)} | {name} | {_mean(metrics, 'bits_per_dimension', form='.2f')} "
                f"| {_by_rule(metrics, 'nll', '.2f')} | {_by_rule(metrics, 'entropy', '.2f')} | "
                f"{_by_rule(metrics, 'refused', '.2%')} | {' | '.join(ranks)} | "
                f"{_mean(metrics, 'fpr95', form='.2%')} |"
            )
    return "\n".join([*lines, *_reservations(rows)])


def _reservations(rows: list[list[dict]]) -> list[str]:
    """Which rows were trained under a schedule that no command has."""
    edited = [
        f"{_lambda([result])}, whose rate followed a schedule {result['config']['schedule']}"
        for seeds in rows
        for result in seeds
        if "schedule" in result["config"]
    ]
    if not edited:
        return []
    return ["", f"Trained under a schedule that was changed by hand: {'; '.join(edited)}."]


def image_recipes(result: dict) -> str:
    """What each change of the recipe costs or gains, in the order of the search."""
    lines = [
        "| variant | bits per dimension | error | NLL | CPU seconds |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, metrics in result["metrics"].items():
        lines.append(
            f"| {name} | {metrics['bits_per_dimension']:.3f} | {metrics['error']:.2%} | "
            f"{metrics['nll']:.3f} | {metrics['cpu_seconds']:.0f} |"
        )
    return "\n".join(lines)


def reversible(result: dict) -> str:
    """What inverting blocks saves and costs."""
    found = result["metrics"]
    kept, inverted = (found["memory_mib"][way] for way in ("kept", "inverted"))
    return (
        f"On 24 blocks at SVHN's size, batches of {result['config']['batch']}: {inverted:.0f} MiB "
        f"instead of {kept:.0f}, {found['time_ratio']:.2f} times the time, gradients equal to "
        f"{found['gradient_difference']:.0e}."
    )


def glow(result: dict) -> str:
    """Images a second of one Glow in several libraries."""
    lines = ["| a step of training | images a second | diglm is faster by |", "|---|---:|---:|"]
    for name, numbers in result["metrics"].items():
        lines.append(
            f"| {name} | {numbers['images_a_second']:.0f} | {numbers['diglm_is_faster_by']:.2f}x |"
        )
    return "\n".join(lines)


def _lambda(seeds: list[dict]) -> str:
    weight = seeds[0]["config"]["weight"]
    marked = next((mark(result) for result in seeds if mark(result)), "")
    return (f"{weight:g}/D" if weight > 0 else "0") + marked


def _from_file(name: str, write: Callable[[dict], str]) -> Callable[[], str]:
    return lambda: write(json.loads((ROOT / "results" / f"{name}.json").read_text()))


def _if_there(*names: str, write: Callable[[], str]) -> Callable[[], str]:
    """What is written where the results are there; elsewhere, that they are not."""

    def written() -> str:
        absent = [name for name in names if not (ROOT / "results" / f"{name}.json").exists()]
        return write() if not absent else f"*Not measured yet: results/{absent[0]}.json.*"

    return written


OOD_TITLES = {
    "mnist": "strange image",
    "digits": "digits of scikit-learn",
    "adbench": "anomalies",
}
CHOSEN_BY = ("blank", "dots", "lines", "noise", "turned", "halves beside", "cut")
OOD_SCORES = ("auto", "density", "typicality", "neighbours", "neighbours_and_density")
OOD_SCORES += (
    "goodness_of_fit",
    "class_distance",
    "likelihood_ratio",
    "simplicity",
    "undecided",
    "energy",
)


def ood(result: dict) -> str:
    """AUROC of scores on everything strange, a table a part."""
    tables = []
    for part, found in result["metrics"].items():
        names = [name for name in OOD_SCORES if name in found]
        heads = [OOD_TITLES[part], "refused by auto", *(name.replace("_", " ") for name in names)]
        lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(names) + 1)]
        share = found["auto"]["familiar"]["refused"] if part != "adbench" else None
        if share is not None:
            lines.append(f"| familiar | {share:.1%} |" + " |" * len(names))
        for kind in [kind for kind in found["auto"] if kind != "familiar"]:
            cells = [
                f"{100 * found[name][kind]['auroc']:.1f}" if kind in found[name] else ""
                for name in names
            ]
            starred = kind + ("*" if part == "mnist" and kind in CHOSEN_BY else "")
            refused = f"{found['auto'][kind]['refused']:.0%}"
            lines.append(f"| {starred} | {refused} | " + " | ".join(cells) + " |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def anomalies(result: dict) -> str:
    """Detectors in the order of their mean ranks."""
    metrics, config = result["metrics"], result["config"]
    ranks, means = metrics["mean_rank"], metrics["mean_auroc"]
    lines = ["| detector | mean rank | mean AUROC |", "|---|---:|---:|"]
    lines += [
        f"| {name} | {ranks[name]:.2f} | {100 * means[name]:.1f} |"
        for name in sorted(ranks, key=ranks.__getitem__)
    ]
    seeds = "one seed" if config["seeds"] == 1 else f"{config['seeds']} seeds"
    return "\n".join([*lines, "", f"{len(config['tables'])} tables, {seeds}."])


def drift(result: dict) -> str:
    """False alarms, and how soon a moved column is found and named."""
    lines = [
        "| rows of reference | false alarms | found and named | after rows (median) |",
        "|---:|---:|---:|---:|",
    ]
    for name, numbers in result["metrics"].items():
        lines.append(
            f"| {name.rpartition(' ')[2]} | {numbers['false_alarms']:.1%} | "
            f"{numbers['found_and_named']:.1%} | {numbers['median_row']:.0f} |"
        )
    return "\n".join(lines)


def explanations(result: dict) -> str:
    """Shares of rows in which the altered column comes first."""
    lines = ["| table | by `explain` | by distance | rows |", "|---|---:|---:|---:|"]
    for name, numbers in result["metrics"].items():
        if isinstance(numbers, dict):
            lines.append(
                f"| {name} | {numbers['first']:.0%} | {numbers['first_by_distance']:.0%} | "
                f"{numbers['rows']} |"
            )
    lines.append(f"| all rows | {result['metrics']['all rows']:.0%} | | |")
    return "\n".join(lines)


def advice(result: dict) -> str:
    """Counterfactuals under constraints, beside brute force."""
    lines = [
        "| table | valid | valid, or said to be impossible | strange among valid | "
        "brute force finds one | missed |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    keys = ("valid", "valid_or_said_to_be_impossible", "strange_among_valid")
    keys += ("possible_by_brute_force", "missed")
    for name, numbers in result["metrics"].items():
        lines.append(f"| {name} | " + " | ".join(f"{numbers[key]:.0%}" for key in keys) + " |")
    return "\n".join(lines)


def absent(result: dict) -> str:
    """Coverage and NLL with columns that are lacking."""
    ways = ("drawn", "refitted", "usual values")
    lines = ["| table, absent | " + " | ".join(ways) + " |", "|---|" + "---:|" * len(ways)]
    for name, cases in result["metrics"].items():
        whole = cases["none absent"]
        lines.append(f"| {name}, none | {whole['inside']:.1%} ({whole['nll']:.2f}) | | |")
        for n in dict.fromkeys(case.split()[0] for case in cases if ", " in case):
            found = [cases[f"{n} absent, {way}"] for way in ways]
            cells = [f"{one['inside']:.1%} ({one['nll']:.2f})" for one in found]
            lines.append(f"| {name}, {n} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def active_learning(result: dict) -> str:
    """Mean loss at the last label, and how much less it is than by chance over all rounds."""
    found = result["metrics"]
    last = found["labels"][-1]
    ways = list(next(iter(found["curves"].values())))
    titles = [way.replace("_", " ") for way in ways]
    heads = [f"loss at {last} labels: {titles[0]}", *titles[1:]]
    heads += [f"{title} beside random, all rounds" for title in titles[1:]]
    lines = ["| table | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for name, by_way in found["curves"].items():
        cells = [f"{by_way[way]['mean'][-1]:.3g}" for way in ways]
        for way in ways[1:]:
            gains = by_way[way]["gain_on_random"]
            error = (
                f" ± {statistics.stdev(gains) / len(gains) ** 0.5:.1%}" if len(gains) > 1 else ""
            )
            cells.append(f"{-statistics.mean(gains):+.1%}{error}")
        lines.append(f"| {name}{mark(result)} | " + " | ".join(cells) + " |")
    n = len(next(iter(next(iter(found["curves"].values())).values()))["last"])
    closing = (
        f"{n} seeds. Loss is the share of wrong answers, or the RMSE; a negative change is better."
    )
    return "\n".join([*lines, "", closing])


def shift_inputs(result: dict) -> str:
    """Errors on new rows, by how far these have moved."""
    columns = {
        "effective rows: learned": ("learned_share", ".0%"),
        "by the truth": ("true_share", ".0%"),
        "strange to the old place": ("uncovered", ".0%"),
        "line: unweighted": ("line", ".2f"),
        "learned weights": ("line_learned", ".2f"),
        "true weights": ("line_true", ".2f"),
        "fitted to the new place": ("line_new", ".2f"),
        "bending: unweighted": ("bends", ".2f"),
        "bending: weighted": ("bends_learned", ".2f"),
    }
    lines = ["| moved by | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for name, found in result["metrics"]["inputs"].items():
        cells = [
            f"{statistics.mean(one[key] for one in found):{form}}" for key, form in columns.values()
        ]
        lines.append(f"| {name} sd{mark(result)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def shift_labels(result: dict) -> str:
    """How near frequencies come, and what they do to answers, over all places."""
    found = result["metrics"]["labels"]

    def mean(key: str) -> float:
        return statistics.mean(one[key] for one in found)

    rows = [
        ("frequencies off by: taken as they were", f"{mean('moved'):.1%}"),
        ("by counting predictions", f"{mean('counted_off'):.1%}"),
        ("by `adapt_labels`", f"{mean('off'):.1%}"),
        ("within two standard errors", f"{mean('within_two_errors'):.0%}"),
        ("accuracy before, after", f"{mean('accuracy'):.2%}, {mean('accuracy_adapted'):.2%}"),
        ("NLL before, after", f"{mean('nll'):.3f}, {mean('nll_adapted'):.3f}"),
    ]
    lines = [f"| {len(found)} places{mark(result)} | |", "|---|---:|"]
    lines += [f"| {title} | {value} |" for title, value in rows]
    closing = "Off by: the share of rows that would have to change class (total variation)."
    return "\n".join([*lines, "", closing])


def processes(result: dict) -> str:
    """Rows a second of one process and of two that share each batch."""
    teams = {
        "1_processes_1_cores": "1 process, 1 core",
        "1_processes_2_cores": "1 process, 2 cores",
        "2_processes_2_cores": "2 processes, 2 cores",
    }
    heads = [*(f"{title}: rows a second" for title in teams.values()), "2 processes beside 1"]
    lines = ["| rows a step | " + " | ".join(heads) + " |", "|---:|" + "---:|" * len(heads)]
    for batch, found in result["metrics"].items():
        cells = [f"{found['rows_a_second'][team]:,.0f}" for team in teams]
        low, high = found["gain_range"]
        cells.append(f"{found['gain']:.2f} ({low:.2f} to {high:.2f})")
        lines.append(f"| {int(batch):,}{mark(result)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def scoring(result: dict) -> str:
    """Rows a second of each engine, and what a call costs before."""
    lines = [
        f"| engine{mark(result)} | rows a second | seconds before the first row |",
        "|---|---:|---:|",
    ]
    for name, found in result["metrics"].items():
        lines.append(f"| {name} | {found['rows_a_second']:,.0f} | {found['seconds_before']:.1f} |")
    return "\n".join(lines)


def growth_of_steps(result: dict) -> str:
    """Cost of a step by each size."""
    lines = ["| size | ms a step | times the size | times the cost |", "|---|---:|---:|---:|"]
    for name, found in result["metrics"].items():
        sizes = ", ".join(f"{value} {key}" for key, value in result["config"]["sizes"].items())
        title = f"{sizes}{mark(result)}" if name == "itself" else name
        lines.append(
            f"| {title} | {found['ms_a_step']:.2f} | {found['times_the_size']:g} | "
            f"{found['times_itself']:.2f} |"
        )
    return "\n".join(lines)


# What the calculation for many hosts assumes.
HOSTS, TABLE_ROWS, BYTES_A_ROW = 1_000, 10**10, 30
LATENCY, NETWORK, STORAGE = 50e-6, 1e9, 20e9  # seconds a message; bytes a second: a host, all
YEARS_BETWEEN_FAILURES = 1.0


def thousand_hosts() -> str:
    """What training and scoring a long table would take on many hosts, by what was measured."""
    steps, scored = (
        json.loads((ROOT / "results" / f"{name}.json").read_text())["metrics"]
        for name in ("growth", "scoring")
    )
    few, many = (steps[f"{rows} rows"]["ms_a_step"] / 1e3 for rows in (128, 8192))
    a_row = (many - few) / (8192 - 128)
    fixed = max(few - 128 * a_row, 0.0)
    # A coupling reads 4 columns through one hidden layer of 100 and gives 8 numbers; the head two.
    gradient = 4 * (8 * ((4 + 1) * 100 + (100 + 1) * 8) + 2 * (8 + 1))
    ring = 2 * (HOSTS - 1) * (LATENCY + gradient / HOSTS / NETWORK)
    tree = 2 * math.ceil(math.log2(HOSTS)) * (LATENCY + gradient / NETWORK)
    size = TABLE_ROWS * BYTES_A_ROW
    one = scored["Ray, 1 worker"]["rows_a_second"]
    survey = max(size * HOSTS / STORAGE, size / NETWORK)
    hours = 365 * 24 * YEARS_BETWEEN_FAILURES / HOSTS
    lines = [
        f"Assumed: {HOSTS:,} hosts of 2 cores like this one; a table of {TABLE_ROWS:,} rows, "
        f"{BYTES_A_ROW} bytes each on disk ({size / 1e9:,.0f} GB); {LATENCY * 1e6:.0f} µs a "
        f"message, {NETWORK / 1e9:g} GB/s a host, {STORAGE / 1e9:g} GB/s from the storage in "
        f"all; a host that fails once in {YEARS_BETWEEN_FAILURES:g} year. Measured: "
        f"{1e3 * fixed:.1f} ms a step and {1e6 * a_row:.1f} µs a row. Gradients are "
        f"{gradient / 1e3:.0f} kB.",
        "",
        "| | by calculation |",
        "|---|---:|",
        f"| survey, every host reading all of the table | {_time(survey)} |",
        f"| sum of gradients, round a ring | {1e3 * ring:.0f} ms |",
        f"| sum of gradients, up and down a tree | {1e3 * tree:.1f} ms |",
    ]
    for rows in (1, 512, 8192):
        step = fixed + rows * a_row
        epoch = TABLE_ROWS / (rows * HOSTS)
        lines.append(
            f"| {rows:,} rows a host and step: computing | {1e3 * step:.1f} ms, "
            f"{step / (step + tree):.0%} of a step with a tree, {step / (step + ring):.0%} with a "
            f"ring |"
        )
        lines.append(
            f"| an epoch of {epoch:,.0f} such steps, tree | {_time(epoch * (step + tree))} |"
        )
    lines += [
        f"| between two failures of any host | {hours:.1f} hours |",
        f"| scoring, {2 * HOSTS:,} workers | {_time(TABLE_ROWS / (2 * HOSTS * one))} |",
        f"| joining 40 bytes a row by one process, reading and writing "
        f"| {_time(2 * 40 * TABLE_ROWS / NETWORK)} |",
    ]
    return "\n".join(lines)


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def half_moons(result: dict) -> str:
    """Accuracies of every model over seeds."""
    lines = ["| half moons, twelve labels | mean accuracy | least |", "|---|---:|---:|"]
    for name, values in result["metrics"].items():
        lines.append(f"| {name} | {statistics.mean(values):.4f} | {min(values):.4f} |")
    n = len(next(iter(result["metrics"].values())))
    return "\n".join([*lines, "", f"{n} seeds, from {result['seed']} on."])


def unlabelled_tables() -> str:
    """Errors with and without the rows that have no label, and what these gain."""
    names = ("labels alone", "with unlabelled rows", "LabelSpreading", "SelfTraining")
    lines = [
        f"| table, labels | {' | '.join(names)} | gain | gain in NLL |",
        "|---|" + "---:|" * (len(names) + 2),
    ]
    gains: dict[str, list[tuple[float, float]]] = {"loss": [], "nll": []}
    n_seeds = set()
    for path in sorted((ROOT / "results" / "unlabelled_tables").glob("*.json")):
        result = json.loads(path.read_text())
        found, config = result["metrics"], result["config"]
        n_seeds.add(config["seeds"])
        cells = [f"{statistics.fmean(found[n]['loss']):.3f}" if n in found else "" for n in names]
        for what, told in gains.items():
            told.append(_gain(found, what))
            mean, error = told[-1]
            cells.append(f"{mean:+.3f} ± {error:.3f}")
        told = f"{config['table']}, {config['labels']}{mark(result)}"
        lines.append(f"| {told} | {' | '.join(cells)} |")
    if not n_seeds:
        return "Not run yet."
    worse = {what: sum(m < -2 * e for m, e in told) for what, told in gains.items()}
    mean = {what: statistics.fmean(m for m, _ in told) for what, told in gains.items()}
    draws, n_tables = ", ".join(map(str, sorted(n_seeds))), len(lines) - 2
    said = (
        f"Errors, or RMSE over the spread of y: means over {draws} draws of rows and labels, gains "
        f"with their standard errors. On average {mean['loss']:+.3f}, in NLL {mean['nll']:+.3f}; "
        f"worse by more than two standard errors on {worse['loss']} of {n_tables} tables, in NLL "
        f"on {worse['nll']}."
    )
    return "\n".join([*lines, "", said])


def _gain(found: dict, what: str) -> tuple[float, float]:
    pairs = zip(found["labels alone"][what], found["with unlabelled rows"][what], strict=True)
    gains = [alone - others for alone, others in pairs]
    return statistics.fmean(gains), statistics.stdev(gains) / len(gains) ** 0.5


def paper() -> str:
    """The paper's results in short, beside ours."""
    return short_table(Results("full", RESULTS))


RESULTS = Folders(ROOT / "results", ROOT / "docs/images", ROOT / "runs", ROOT / "docs/results.md")
WRITERS: dict[str, Callable[[], str]] = {
    "paper": paper,
    "ood": _from_file("ood", ood),
    "tables": _from_file("tables", tables),
    "speed": _from_file("speed", speed),
    "serving": _from_file("serving", serving),
    "serving_soak": _from_file("serving_soak", serving_soak),
    "digits": _from_file("digits", digits),
    "flights_700k": lambda: flights("700k"),
    "flights_all": lambda: flights("all"),
    "flights_growth": growth,
    "uci": uci,
    "uci_bayesian": uci_bayesian,
    "mnist": lambda: images("mnist"),
    "mnist_in_short": lambda: images_in_short("mnist"),
    "image_recipes": _from_file("image_recipes", image_recipes),
    "reversible": _from_file("reversible", reversible),
    "glow": _from_file("glow", glow),
    "svhn": lambda: images("svhn"),
    "cifar10": lambda: images("cifar10"),
    "toy_regression": _from_file("toy_regression", toy_regression),
    "anomalies": _from_file("anomalies", anomalies),
    "drift": _from_file("drift", drift),
    "explanations": _from_file("explanations", explanations),
    "advice": _from_file("advice", advice),
    "half_moons": _from_file("half_moons", half_moons),
    "unlabelled_tables": unlabelled_tables,
    "absent": _from_file("absent", absent),
    "active_learning": _if_there(
        "active_learning", write=_from_file("active_learning", active_learning)
    ),
    "shift_inputs": _if_there("shift", write=_from_file("shift", shift_inputs)),
    "shift_labels": _if_there("shift", write=_from_file("shift", shift_labels)),
    "processes": _from_file("processes", processes),
    "scoring": _if_there("scoring", write=_from_file("scoring", scoring)),
    "growth": _from_file("growth", growth_of_steps),
    "thousand_hosts": _if_there("growth", "scoring", write=thousand_hosts),
}
PAGES = ("README.md", "docs/flights.md", "docs/uci.md", "docs/bayesian.md", "docs/images.md")
PAGES += ("docs/refusing.md", "docs/unlabelled.md")
PAGES += ("docs/operating.md",)
PAGES += ("docs/drift.md", "docs/explaining.md", "docs/asking.md", "docs/shift.md", "docs/scale.md")


def render(text: str) -> str:
    """The text with every block made anew."""

    def anew(found: re.Match) -> str:
        block = WRITERS[found[2]]()
        unsaid = MARK in block and f"{MARK} made" not in block
        footnote = f"\n\n{FOOTNOTE}" if unsaid else ""
        return f"{found[1]}{block}{footnote}\n{found[3]}"

    return BLOCK.sub(anew, text)


def results_page() -> str:
    """docs/results.md, from the full results."""
    return page_of("full", RESULTS)


if __name__ == "__main__":
    for page in PAGES:
        path = ROOT / page
        path.write_text(render(path.read_text()))
    RESULTS.page.write_text(results_page())
