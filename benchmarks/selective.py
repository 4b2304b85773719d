"""Who should be answered first? Risk against coverage on ten tables, with strange rows and without.

    python benchmarks/selective.py [--seeds 3] [--out results/selective.json]

Tables of classes of 200 to 3,000 rows, the first ten by name of the half that defaults are chosen
by. A HybridClassifier at its defaults is fitted to four fifths of a table. Its answers are given in
two orders: by the largest probability, and with rows that it refuses last, the strangest of all at
the end, the others by the largest probability. AURC, the mean risk over all coverages, is that of
the test rows; and of as many test rows as strange ones, every answer to which counts as wrong:

- shuffled: each column drawn from the test rows by itself, so that margins are familiar and
  relations are not;
- moved: numbers moved by three times the spread of their column, to either side.
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from diglm import HybridClassifier
from diglm.refusal import aurc
from diglm.report.results import write_result
from kept import Kept, Result, diglm_source, read_options
from table_sets import CLASSES, SETS, halves, split

PROTOCOL = "selective 1"  # part of every key: change it with the way of judging
LEAST_ROWS, MOST_ROWS, N_TABLES = 200, 3_000, 10
SPREADS = 3.0


def names() -> list[str]:
    """The tables."""
    sets = [s for s in SETS.values() if s.kind == CLASSES and LEAST_ROWS <= s.rows <= MOST_ROWS]
    half = halves([*SETS.values()])
    return sorted(s.name for s in sets if half[s.name] == "choosing")[:N_TABLES]


def shuffled(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Each column in an order of its own."""
    mixed = {name: column.iloc[rng.permutation(len(rows))].array for name, column in rows.items()}
    return pd.DataFrame(mixed)


def moved(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Numbers moved by three spreads, levels shuffled."""
    found = shuffled(rows, rng)
    for name in rows.select_dtypes("number"):
        column = rows[name].astype(float)
        found[name] = column + SPREADS * column.std() * rng.choice([-1.0, 1.0], len(rows))
    return found


STRANGE = {"shuffled": shuffled, "moved": moved}


def orders(model: HybridClassifier, rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """How sure the model is of each row, in both ways."""
    told = model.assess(rows)
    surest = np.max(model.predict_proba(rows), axis=1)
    refused, strangeness = np.asarray(told["rejected"], bool), np.asarray(told["strangeness"])
    return {"probability": surest, "refusals": np.where(refused, -1 - strangeness, surest)}


def judge(name: str, seed: int) -> Result:
    """AURC in both orders, of familiar rows and with half of the rows strange."""
    x, y, x_test, y_test = split(name, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small tables
        model = HybridClassifier(random_state=seed, verbose=False).fit(x, y)
    wrong = model.predict(x_test) != y_test
    familiar = orders(model, x_test)
    found: Result = {"refused": float(np.mean(model.rejects(x_test)))}
    found |= {f"familiar, by {order}": aurc(sure, wrong) for order, sure in familiar.items()}
    for kind, make in STRANGE.items():
        strange = make(x_test, np.random.default_rng(seed))
        found[f"{kind} refused"] = float(np.mean(model.rejects(strange)))
        both = np.concatenate([wrong, np.ones(len(strange), bool)])
        for order, sure in orders(model, strange).items():
            found[f"{kind}, by {order}"] = aurc(np.concatenate([familiar[order], sure]), both)
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=names(), default=names())
    options, _ = read_options(parser, ["diglm"], "results/selective.json")
    started = time.perf_counter()
    tasks = {
        (PROTOCOL, name, seed, diglm_source()): partial(judge, name, seed)
        for name in options.only
        for seed in range(options.seeds)
    }
    kept = Kept(options.cache or options.out.with_suffix(".jsonl"))
    runs = kept.run(tasks, jobs=options.jobs)
    tables: dict[str, Result] = {}
    for name in options.only:
        of_table = [result for key, result in runs.items() if key[1] == name]
        tables[name] = {k: float(np.mean([run[k] for run in of_table])) for k in of_table[0]}
    first = next(iter(tables.values()))
    mean = {key: float(np.mean([told[key] for told in tables.values()])) for key in first}
    shown = Table("table", *first)
    for name, told in [*tables.items(), ("mean", mean)]:
        shown.add_row(name, *(f"{value:.4f}" for value in told.values()))
    Console(width=200).print(shown)
    config = {"tables": [*options.only], "seeds": options.seeds}
    seconds = time.perf_counter() - started
    write_result(
        options.out,
        config=config,
        seed=0,
        seconds=seconds,
        metrics={"tables": tables, "mean": mean},
    )


if __name__ == "__main__":
    main()
