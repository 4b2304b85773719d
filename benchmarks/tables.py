"""Defaults against defaults on 90 real tables: NLL, error or RMSE, coverage and seconds.

    python benchmarks/tables.py [--half choosing] [--models diglm,linear] [--only NAME ...]

Half of the tables are for choosing what diglm's defaults should be, the other half for judging them
once that is done (see `table_sets.halves`). Every model sees the same rows; three splits each.
Ranks are over means of splits. Results are kept in a file of JSON lines beside the output as they
come, so that an interrupted run goes on: benchmarks/kept.py.
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from diglm.report.results import write_result
from kept import Kept, Result, means, read_options
from table_peers import MODELS, can_fit, code_of, predict_classes, predict_numbers
from table_scores import score_classes, score_numbers, step_of, summary
from table_sets import CLASSES, MOST_SPLITS, SETS, halves, split

PROTOCOL = "tables 1"  # part of every key: change it with the way of judging


def judge(model: str, name: str, number: int, data_dir: str | None) -> Result:
    """Scores of one model on one split of one table."""
    x, y, x_test, y_test = split(name, number, data_dir)
    sizes = {"n_train": len(y), "n_test": len(y_test)}
    if not can_fit(model, len(y)):
        return sizes | {"left_out": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notes on convergence, unseen categories
        if SETS[name].kind == CLASSES:
            found, classes, seconds = predict_classes(model, x, y, x_test, number)
            scores = score_classes(found, classes, y_test, len(y))
        else:
            dist, seconds = predict_numbers(model, x, y, x_test, number)
            scores = score_numbers(dist, y_test, step_of(np.concatenate([y, y_test])))
    return scores | {"seconds": seconds} | sizes


def mean_of(runs: list[Result]) -> Result:
    """Means over splits."""
    return {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}


def run(options: argparse.Namespace, names: list[str], models: list[str]) -> dict:
    """Scores of every model on every table, and what they amount to in each half."""
    tasks, meaning = {}, {}
    for name in names:
        for number in range(options.splits):
            for model in models:
                key = (PROTOCOL, name, number, model, code_of(model))
                tasks[key] = partial(judge, model, name, number, options.data_dir)
                meaning[key] = (name, number, model)
    kept = Kept(options.cache or options.out.with_suffix(".jsonl"))
    results = kept.run(tasks, jobs=options.jobs)
    tables = means({meaning[key]: result for key, result in results.items()}, mean_of)
    half = halves(list(SETS.values()))
    found: dict = {"tables": tables}
    for which in ("choosing", "judged"):
        part = {name: scores for name, scores in tables.items() if half[name] == which}
        if part:
            ran = [model for model in models if any(model in scores for scores in part.values())]
            found[which] = summary(part, ran)
    return found


def show(metrics: dict) -> None:
    """Print what each half amounts to, and each table's main measure, for people."""
    console = Console(width=150)  # seven models side by side, wherever it is printed
    for half in ("choosing", "judged"):
        if half not in metrics:
            continue
        models = list(metrics[half])
        table = Table(half, *models)
        measures = dict.fromkeys(key for found in metrics[half].values() for key in found)
        for key in measures:
            cells = [metrics[half][model].get(key, "") for model in models]
            table.add_row(key, *(f"{c:.3g}" if isinstance(c, float) else str(c) for c in cells))
        console.print(table)
    models = list(dict.fromkeys(m for scores in metrics["tables"].values() for m in scores))
    table = Table("table", "measure", *models)
    for name, scores in metrics["tables"].items():
        for key in ("nll", "error", "rmse", "coverage_90"):
            cells = [scores.get(model, {}).get(key) for model in models]
            if any(cell is not None for cell in cells):
                table.add_row(name, key, *("" if c is None else f"{c:.4g}" for c in cells))
    console.print(table)
    for name, scores in metrics["tables"].items():
        for model, found in scores.items():
            if "failed" in found:
                console.print(f"{name} {model} failed: {found['failed']}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=("choosing", "judged", "both"), default="both")
    parser.add_argument("--only", nargs="+", choices=SETS, help="names of tables")
    parser.add_argument("--splits", type=int, choices=range(1, MOST_SPLITS + 1), default=3)
    parser.add_argument("--data-dir", help="folder with the UCI file (else DIGLM_DATA)")
    options, models = read_options(parser, MODELS, "results/tables.json")
    half = halves(list(SETS.values()))
    wanted = [name for name in SETS if options.half in ("both", half[name])]
    names = [name for name in wanted if options.only is None or name in options.only]
    if not names:
        parser.error(f"none of {options.only} is in the {options.half} half")
    started = time.perf_counter()
    metrics = run(options, names, models)
    show(metrics)
    config = {"half": options.half, "tables": names, "models": models, "splits": options.splits}
    seconds = time.perf_counter() - started
    write_result(options.out, config=config, seed=0, seconds=seconds, metrics=metrics)


if __name__ == "__main__":
    main()
