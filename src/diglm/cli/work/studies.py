"""`diglm demo`, `reproduce` and `data`: studies by name, and their data."""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from diglm.cli.errors import CommandError
from diglm.cli.terminal import print_json
from diglm.cli.work.data import close_to
from diglm.compiling import use_cache
from diglm.data.downloads import ADBENCH, FLIGHTS_2008, UCI_REGRESSION, Source, find, locate
from diglm.data.image_sets import IMAGE_SETS, files_of

# Each is a module of diglm.experiments with a command of its own.
STUDIES = {
    "digits": "the demo: digits, and things that are not digits",
    "moons": "density, decision and refusal in the plane",
    "half_moons": "two half moons with twelve labels",
    "unlabelled_tables": "ten tables with 20 to 200 labels",
    "mnist_semi": "MNIST with 1,000 labels",
    "svhn_semi": "house numbers with 1,000 labels",
    "unlabelled_search": "the paper's grid for rows without a label, by halving",
    "toy_regression": "the paper's one-dimensional regression",
    "mnist": "the paper's table of MNIST, a weight of the density a row",
    "svhn": "the same on house numbers",
    "cifar10": "the same on CIFAR-10",
    "uci": "UCI tables beside NGBoost",
    "uci_bayesian": "UCI tables with Bayesian heads",
    "flights": "delays of two million flights",
    "flights_baselines": "other models on the same flights",
}


def demo(out: Path, quick: bool) -> None:
    """The study of digits."""
    if out.exists() and not out.is_dir():
        raise CommandError(f"--out {out} is a file.", "name a folder for the page.")
    reproduce("digits", ["--out", str(out), *(["--quick"] if quick else [])])


def reproduce(name: str, arguments: Sequence[str]) -> None:
    """Run a study's own command with these arguments."""
    if name == "list":
        for study, about in STUDIES.items():
            print(f"{study:<18}  {about}")
        return
    if name not in STUDIES:
        raise CommandError(
            f"there is no study {name!r}.",
            close_to(name, list(STUDIES)) or f"studies are {', '.join(STUDIES)}.",
        )
    use_cache()
    before = sys.argv
    sys.argv = [f"diglm reproduce {name}", *arguments]  # studies read their own command line
    try:
        runpy.run_module(f"diglm.experiments.{name}", run_name="__main__")
    finally:
        sys.argv = before


def list_data(folder: Path | None, *, as_json: bool) -> None:
    """Each data set, whether its files are here, and what it is."""
    rows = [
        {
            "name": name,
            "here": any(_is_here(files, folder) for files in collections),
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
    here = [files for files in known[name] if _is_here(files, folder)]
    public = [files for files in known[name] if all(source.url for source in files)]
    for source in [*here, *public, *known[name]][0]:
        try:
            print(find(source, folder))
        except FileNotFoundError as error:
            raise CommandError(
                str(error).rstrip("."), "put the file into the folder that DIGLM_DATA names."
            ) from error


def data_sets() -> dict[str, tuple[tuple[Source, ...], ...]]:
    """The files of each data set, in the collections that hold it."""
    tables = {"uci": UCI_REGRESSION, "flights": FLIGHTS_2008, "adbench": ADBENCH}
    found = {name: ((source,),) for name, source in tables.items()}
    return found | {name: files_of(name) for name in IMAGE_SETS}


def _is_here(files: Sequence[Source], folder: Path | None) -> bool:
    return all(locate(source, folder) is not None for source in files)
