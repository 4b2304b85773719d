"""`diglm train`: look at the rows, hold some out, fit, judge by those, and keep the model."""

import platform
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import jax
import numpy as np

from diglm.__about__ import __version__
from diglm.cli.errors import CommandError
from diglm.cli.terminal import Talk, print_json
from diglm.cli.work.data import ImageData, TableData, close_to, listed, open_data, sized
from diglm.cli.work.holding import held_out, mark_of
from diglm.cli.work.looking import Look, Problem, infer, look_at
from diglm.cli.work.running import Run
from diglm.cli.work.telling import tell_balance, tell_scores
from diglm.cli.work.writing import require_place
from diglm.compiling import use_cache
from diglm.data.files.formats import BLOCK_ROWS, pa, pq
from diglm.estimators import Estimator, HybridClassifier, HybridDensity, HybridRegressor
from diglm.predictor.files import blocks, column_of
from diglm.report.measures import Measures, measure

PROBLEMS: dict[str, type[Estimator]] = {
    "classes": HybridClassifier,
    "numbers": HybridRegressor,
    "density": HybridDensity,
}
OWN_FLAGS = {"random_state": "--seed", "verbose": "--quiet"}
SAMPLE_ROWS = 20_000  # looked at to tell kinds of columns
SAVE_EVERY = 2_000  # steps between states that are kept


@dataclass(frozen=True)
class Asked:
    """All that a run of `train` was asked for; what the result depends on, and only that."""

    data: str
    out: Path
    target: str | None = None
    problem: str | None = None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    weight: str | None = None
    test_share: float = 0.2
    seed: int = 0
    parameters: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Parts:
    """A table taken apart for training: a file to learn from, and rows held out to be judged by."""

    training: Path
    n_training: int
    test: "pa.Table"
    look: Look


def train(asked: Asked, *, command: str, restart: bool, as_json: bool, talk: Talk) -> None:
    """Do it, and tell what was found on the way."""
    require_place(asked.out, read=(asked.data,))
    if not 0 <= asked.test_share < 1:
        raise CommandError(
            f"--test-share must lie between 0 and 1; got {asked.test_share:g}.",
            "0.2 holds out every fifth row; 0 holds out none.",
        )
    use_cache()
    data = open_data(asked.data)
    ways = {TableData: _train_table, ImageData: _train_images}
    model, n_rows, scores = ways[type(data)](data, asked, command, restart, talk)
    model.card_ |= {
        "command": command,
        "trained": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": asked.data,
        "rows": n_rows,
        "target": asked.target,
        "split": {
            "mark": mark_of(data),
            "rows": data.n_rows,
            "share": asked.test_share,
            "seed": asked.seed,
        },
        "test": dict(scores),
        "versions": versions(),
    }
    model.save(asked.out)
    Run(asked.out, described(asked), False, Talk(quiet=True)).done()
    tell_scores(scores, talk)
    talk.say(f"Wrote {asked.out}.")
    talk.say(f"Next: diglm report {asked.out} {asked.data} --out report.html")
    if as_json:
        print_json({"model": str(asked.out), "kind": type(model).__name__, "scores": scores})


def described(asked: Asked) -> dict[str, object]:
    """What makes a run that run, by name."""
    return {name: str(value) for name, value in vars(asked).items() if name != "out"}


def versions() -> dict[str, str]:
    """Of what a model depends on."""
    return {"diglm": __version__, "jax": jax.__version__, "python": platform.python_version()}


# ---------------------------------------------------------------------- tables


def _train_table(
    data: TableData, asked: Asked, command: str, restart: bool, talk: Talk
) -> tuple[Estimator, int, Measures]:
    for name in (asked.target, asked.weight, *asked.drop, *asked.keep):
        if name is not None:
            data.require(name)
    if asked.target in asked.drop:
        raise CommandError(f"--drop names the target {asked.target!r}.", "drop other columns.")
    if asked.weight is not None and not _is_number(data.table.schema.field(asked.weight).type):
        raise CommandError(
            f"--weight {asked.weight} is not a column of numbers.", "weigh rows by numbers."
        )
    problem = _problem(data, asked)
    talk.say(f"{asked.data}: {data.n_rows:,} rows, {len(data.table.names)} columns.")
    talk.say(f"Learning {_goal(problem, asked)}: {problem.why}.")
    run = Run(asked.out, described(asked), restart, talk)
    with run.kept(command):
        parts = _taken_apart(data, asked, run.folder)
        left_out = {k: why for k, why in parts.look.useless.items() if k not in asked.keep}
        features = _chosen(data, asked, parts.look, left_out, talk)
        if problem.kind == "classes" and asked.target is not None:
            tell_balance(column_of(data.read([asked.target]), asked.target), talk)
        model = _estimator(problem, asked, parts.n_training, talk)
        target = {} if asked.target is None else {"target": asked.target}
        model.fit_file(
            parts.training,
            features=features,
            sample_weight=asked.weight,
            checkpoint=run.folder,
            save_every=SAVE_EVERY,
            **target,  # type: ignore[arg-type]
        )
        model.card_ |= {"left out": left_out} if left_out else {}
        scores = {}
        if parts.test.num_rows:
            truth = None if asked.target is None else column_of(parts.test, asked.target)
            scores = measure(model.predictor_, parts.test.select(features), truth)
    return model, parts.n_training, scores


def _problem(data: TableData, asked: Asked) -> Problem:
    if asked.target is None:
        if asked.problem not in (None, "density"):
            raise CommandError(
                f"--problem {asked.problem} needs a target.", "name a column with --target."
            )
        return Problem("density", "no --target was given, so what is usual is learned")
    target = data.read([asked.target])[asked.target]
    if asked.problem is None:
        return infer(target, asked.target)
    if asked.problem == "density":
        raise CommandError(
            "--problem density has no target.", "leave --target out, or drop it with --drop."
        )
    if asked.problem == "numbers" and not _is_number(target.type):
        raise CommandError(
            f"{asked.target!r} is {target.type}, which is not a number.",
            "leave --problem out, and what else could be learned of it is said.",
        )
    return Problem(asked.problem, "as --problem says")


def _is_number(kind: "pa.DataType") -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _goal(problem: Problem, asked: Asked) -> str:
    goals = {"classes": "the class", "numbers": "the number", "density": "what rows look like"}
    target = "" if asked.target is None else f" {asked.target!r}"
    return goals[problem.kind] + target


def _taken_apart(data: TableData, asked: Asked, folder: Path) -> Parts:
    """One pass over the table: rows to learn from go to a file, the others stay here."""
    n = data.n_rows
    held, looked = held_out(n, asked.test_share, asked.seed), np.zeros(n, bool)
    looked[np.random.default_rng(0).choice(n, min(n, SAMPLE_ROWS), replace=False)] = True
    test, sample, start = [], [], 0
    path = folder / "rows.parquet"
    temporary = path.with_suffix(".new")
    with pq.ParquetWriter(temporary, data.table.schema) as writer:
        for block in blocks(data.table, data.table.names, 0, n, BLOCK_ROWS):
            here = slice(start, start + block.num_rows)
            start += block.num_rows
            test.append(block.filter(held[here]))
            sample.append(block.filter(looked[here] & ~held[here]))
            writer.write_table(block.filter(~held[here]))
    temporary.replace(path)
    roles = [name for name in (asked.target, asked.weight) if name is not None]
    seen = pa.concat_tables(sample).unify_dictionaries().drop_columns([*roles, *asked.drop])
    return Parts(path, n - int(held.sum()), pa.concat_tables(test), look_at(seen))


def _chosen(
    data: TableData, asked: Asked, look: Look, left_out: Mapping[str, str], talk: Talk
) -> list[str]:
    """The columns to learn from; those that tell nothing are left out, and said."""
    roles = {asked.target, asked.weight, *asked.drop}
    features = [name for name in data.table.names if name not in roles and name not in left_out]
    for name, why in left_out.items():
        talk.warn(f"column {name!r} is left out: {why}. --keep {shlex.quote(name)} keeps it.")
    for name, why in look.odd.items():
        if name in features:
            talk.warn(f"column {name!r}: {why}.")
    if not features:
        raise CommandError("no column is left to learn from.", "name some with --keep.")
    kinds: dict[str, list[str]] = {}
    for name in features:
        kinds.setdefault(look.columns.get(name, "columns"), []).append(name)
    for kind, names in kinds.items():
        talk.say(f"  {kind}: {listed(names)}")
    if gaps := [f"{name} {share:.1%}" for name, share in look.gaps.items() if name in features]:
        talk.say(f"  missing values: {listed(gaps)}")
    return features


def _estimator(problem: Problem, asked: Asked, n_rows: int, talk: Talk) -> Estimator:
    kind = PROBLEMS[problem.kind]
    for name, flag in OWN_FLAGS.items():
        if name in asked.parameters:
            raise CommandError(f"--set {name} has a flag of its own.", f"say {flag} instead.")
    known = set(kind().get_params(deep=False))
    if unknown := [name for name in asked.parameters if name not in known]:
        raise CommandError(
            f"{kind.__name__} has no parameter {unknown[0]!r}.",
            close_to(unknown[0], sorted(known)) or f"parameters are {listed(sorted(known), 40)}.",
        )
    given = dict(asked.parameters)
    # As many rows as a fit in memory holds out: 200, within a tenth and a fifth of all.
    given.setdefault("validation_fraction", float(np.clip(200 / max(1, n_rows), 0.1, 0.2)))
    return kind(random_state=asked.seed, verbose=talk.verbose, **given)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- images


def _train_images(
    data: ImageData, asked: Asked, command: str, restart: bool, talk: Talk
) -> tuple[Estimator, int, Measures]:
    named = {"--target": asked.target, "--weight": asked.weight}
    named |= {"--drop": asked.drop, "--keep": asked.keep}
    for flag, value in named.items():
        if value:
            raise CommandError(
                f"{flag} names a column, which images do not have.",
                "leave it out: labels are names of folders, or y of the .npz file.",
            )
    labels = data.truth(None)
    wants_density = asked.problem == "density" or labels is None
    problem = Problem("density" if wants_density else "classes", "images with a label each")
    if labels is None and asked.problem in ("classes", "numbers"):
        raise CommandError(
            f"{asked.data} has no labels.", "put images into a folder a class, or y into the .npz."
        )
    talk.say(f"{asked.data}: {data.n_rows:,} images of {sized(data.images.pixels.shape[1:])}.")
    talk.say(f"Learning {'what images look like' if wants_density else 'the class of images'}.")
    if not wants_density and labels is not None:
        tell_balance(labels, talk)
    held = held_out(data.n_rows, asked.test_share, asked.seed)
    test, rest = data.take(np.flatnonzero(held)), data.take(np.flatnonzero(~held))
    model = _estimator(problem, asked, rest.n_rows, talk)
    run = Run(asked.out, described(asked), restart, talk)
    with run.kept(command):
        target = () if wants_density else (rest.images.labels,)
        model.fit(rest.images.pixels, *target, checkpoint=run.folder)  # type: ignore[arg-type]
        truth = None if wants_density else test.images.labels
        scores = measure(model.predictor_, test.images.pixels, truth) if held.any() else {}
    return model, rest.n_rows, scores
