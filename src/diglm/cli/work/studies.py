"""`diglm demo`, `reproduce` and `data`: studies by name, and their data."""

import os
from collections.abc import Sequence
from pathlib import Path

from diglm.atomic import replacing
from diglm.cli.errors import CommandError
from diglm.cli.terminal import Talk, print_json
from diglm.cli.work.data import close_to
from diglm.compiling import use_cache
from diglm.data.downloads import find
from diglm.data.listing import all_here, data_sets, is_here
from diglm.experiments import digits
from diglm.experiments.frame import BUDGETS, Folders, Study, plain
from diglm.experiments.frame.flags import as_words, changed
from diglm.experiments.frame.text import page_of
from diglm.experiments.frame.whole import FAILED, run_all
from diglm.experiments.registry import STUDIES, study

ALL, LIST = "all", "list"
OTHER = Path("results/other")


def demo(out: Path, quick: bool) -> None:
    """The study of digits."""
    if out.exists() and not out.is_dir():
        raise CommandError(f"--out {out} is a file.", "name a folder for the page.")
    if any(part.is_file() for part in out.parents):
        raise CommandError(f"a part of {out} is a file.", "name a folder for the page.")
    use_cache()
    digits.demo(out, quick=quick)


def reproduce(
    name: str,
    words: Sequence[str],
    *,
    budget: str,
    out: Path | None = None,
    data_dir: Path | None = None,
    again: bool = False,
) -> None:
    """Run a study, all of them, or print which there are."""
    if name == LIST:
        for known in STUDIES:
            one = study(known)
            shows = f" ({', '.join(one.shows)})" if one.shows else ""
            print(f"{known:<18}  {one.about}{shows}")
        return
    if name not in (*STUDIES, ALL):
        raise CommandError(
            f"there is no study {name!r}.",
            close_to(name, [*STUDIES, ALL]) or f"studies are {', '.join(STUDIES)}, and {ALL}.",
        )
    if budget not in BUDGETS:
        raise CommandError(
            f"there is no budget {budget!r}.",
            close_to(budget, list(BUDGETS)) or f"budgets are {' and '.join(BUDGETS)}.",
        )
    if out is not None and out.exists() and not out.is_dir():
        raise CommandError(f"--out {out} is a file.", "name a folder for results.")
    if data_dir is not None:
        os.environ["DIGLM_DATA"] = str(data_dir)
    use_cache()
    if name == ALL:
        _all(words, budget, out, again)
        return
    one = study(name)
    settings = _with_flags(name, one, budget, words)
    folders = Folders.of(budget, out)
    if words and out is None and not _all_own(one, settings, budget):
        folders = Folders.of(budget, OTHER)
    command = " ".join(["diglm reproduce", name, "--budget", budget, *words])
    one.run(settings, folders, command=command, again=again)


def _all(words: Sequence[str], budget: str, out: Path | None, again: bool) -> None:
    """Every study; fails in the end if one did."""
    if words:
        raise CommandError(
            f"{ALL} takes no settings of single studies: {' '.join(words)}.",
            "give them to the study alone, as in diglm reproduce mnist --weights 1.",
        )
    told = run_all(budget, out, again=again)
    rows = [(one.name, one.outcome, f"{one.seconds:.0f}", ", ".join(one.embedded)) for one in told]
    header = ("study", "", "seconds", "embedded instead of")
    Talk().table(f"{sum(one.seconds for one in told):.0f} seconds", rows, header)
    folders = Folders.of(budget, out)
    page = folders.page
    page.parent.mkdir(parents=True, exist_ok=True)
    with replacing(page) as file:
        file.write(page_of(budget, folders).encode())
    print(page)
    failed = [one.name for one in told if one.outcome == FAILED]
    if failed:
        raise CommandError(
            f"{', '.join(failed)} failed; what they said is above.",
            "the same command again runs those alone.",
        )


def _with_flags(name: str, one: Study, budget: str, words: Sequence[str]) -> object:
    settings = one.settings(budget)
    try:
        return changed(settings, words)
    except ValueError as error:
        raise CommandError(f"{name}: {error}.", f"its settings: {as_words(settings)}") from error


def _all_own(one: Study, settings: object, budget: str) -> bool:
    """Whether all runs are the study's own, so that their results may stand beside the others."""
    own = {run.name: plain(run.config) for run in one.runs(one.settings(budget))}
    return all(own.get(run.name) == plain(run.config) for run in one.runs(settings))


def list_data(folder: Path | None, *, as_json: bool) -> None:
    """Each data set, whether its files are here, and what it is."""
    rows = [
        {
            "name": name,
            "here": is_here(name, folder),
            "files": [source.name for source in collections[0]],
            "about": collections[0][0].about,
        }
        for name, collections in data_sets().items()
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print(f"{row['name']:<14}  {'here' if row['here'] else 'absent':<6}  {row['about']}")


def fetch_data(name: str, folder: Path | None) -> None:
    """Print where the files of a data set are, once they are."""
    known = data_sets()
    if name not in known:
        raise CommandError(
            f"there is no data set {name!r}.",
            close_to(name, list(known)) or f"data sets are {', '.join(known)}.",
        )
    here = [files for files in known[name] if all_here(files, folder)]
    public = [files for files in known[name] if all(source.url for source in files)]
    for source in [*here, *public, *known[name]][0]:
        try:
            print(find(source, folder))
        except FileNotFoundError as error:
            raise CommandError(
                str(error).rstrip("."), "put the file into the folder that DIGLM_DATA names."
            ) from error
