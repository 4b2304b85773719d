"""Where experiments find their data: a given folder, `DIGLM_DATA`, the user's cache, a download."""

import gzip
import hashlib
import os
import shutil
import tempfile
import urllib.error
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diglm.places import cache_folder


@dataclass(frozen=True)
class Source:
    """A data file known by its checksum; `url` is None where no public address serves that file.

    The checksum of a gzip file is that of what it holds: a copy packed anew is as good. That of an
    archive, .tar.gz, is its own. `folder` is where a package of the operating system may have put
    the file.
    """

    name: str
    sha256: str
    about: str
    url: str | None = None
    folder: str | None = None


UCI_REGRESSION = Source(
    "uci_regression.npz",
    "0b636598f56539c1898c736263b16a73cfe8a7f12518a6f2878dbf215b024e84",
    "nine UCI regression tables with the splits of Hernandez-Lobato and Adams (2015)",
)

FLIGHTS_2008 = Source(
    "flights_2008_jan_apr.parquet",
    "59242b63ad370b34db397a9378f919098fff97e1fe0688ec1443fc14d70f95d3",
    "US flights that arrived, January to April 2008: eight attributes and the arrival delay",
)

ADBENCH = Source(
    "adbench_odd.npz",
    "99f35d32aafae70ed3fb8d35e659cd06a89aa96530dfa140c8808a94b639b6eb",
    "21 tables of ADBench (Han et al., 2022) with labelled anomalies, at most 40,000 rows of each",
)
ADBENCH_TABLES = tuple(
    "ALOI Cardiotocography Hepatitis InternetAds Lymphography PageBlocks Pima SpamBase Stamps WDBC "
    "Waveform campaign donors landsat mammography musk satimage-2 skin vertebral wine yeast".split()
)


def find(source: Source, data_dir: str | os.PathLike | None = None) -> Path:
    """The path of a checked copy of `source`; a clear error says where one may be put."""
    if (path := locate(source, data_dir)) is not None:
        return path
    folders = _folders(data_dir)
    looked = " or ".join(str(folder) for folder in folders)
    if source.url is None:
        raise FileNotFoundError(
            f"{source.name} ({source.about}) was not found in {looked}. Put it there, or set "
            f"DIGLM_DATA or --data-dir to its folder. Its sha256 is {source.sha256}."
        )
    path = folders[-1] / source.name
    path.parent.mkdir(parents=True, exist_ok=True)
    return _download(source, source.url, path, looked)


def locate(source: Source, data_dir: str | os.PathLike | None = None) -> Path | None:
    """The path of a checked copy that is on this machine, or None."""
    paths = [folder / source.name for folder in _folders(data_dir)]
    if source.folder is not None:
        paths.append(Path(source.folder) / Path(source.name).name)
    for path in paths:
        if path.is_file():
            _check(path, source)
            return path
    return None


def _folders(data_dir: str | os.PathLike | None) -> list[Path]:
    """Where to look, the user's cache last."""
    given = data_dir if data_dir is not None else os.environ.get("DIGLM_DATA")
    return ([Path(given)] if given else []) + [cache_folder()]


def _download(source: Source, url: str, path: Path, looked: str) -> Path:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".download.", suffix=path.suffix)
    try:
        with (
            urllib.request.urlopen(url, timeout=30) as reply,
            os.fdopen(handle, "wb") as out,
        ):
            shutil.copyfileobj(reply, out)
        _check(Path(temporary), source)
        os.replace(temporary, path)
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        raise FileNotFoundError(
            f"{source.name} was not found in {looked} and could not be downloaded ({error}). "
            "Without a network, put the file there, or set DIGLM_DATA to its folder."
        ) from error
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path


def _check(path: Path, source: Source) -> None:
    content = path.read_bytes()
    try:
        packed = source.name.endswith(".gz") and not source.name.endswith(".tar.gz")
        content = gzip.decompress(content) if packed else content
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path} is not a whole gzip file ({error}). Remove it, or replace it with a good copy."
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise ValueError(
            f"{path} is not the expected file: its sha256 is {found}, expected {source.sha256}. "
            "Remove it, or replace it with a good copy."
        )


@dataclass(frozen=True)
class Split:
    """One published train/test split of a table."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def uci_regression(name: str, split: int, data_dir: str | os.PathLike | None = None) -> Split:
    """A UCI regression table with published split number `split`."""
    with np.load(find(UCI_REGRESSION, data_dir), allow_pickle=False) as stored:
        names = sorted({key.split(".")[0] for key in stored})
        if name not in names:
            raise ValueError(f"Unknown UCI table {name!r}; choose one of {names}.")
        x, y, tests = stored[f"{name}.x"], stored[f"{name}.y"], stored[f"{name}.test"]
    if not 0 <= split < len(tests):
        raise ValueError(f"{name} has splits 0 to {len(tests) - 1}; got {split}.")
    test = tests[split]
    return Split(x[~test], y[~test], x[test], y[test])


def flights(data_dir: str | os.PathLike | None = None) -> Path:
    """The checked Parquet file of US flights, January to April 2008, in order of time."""
    return find(FLIGHTS_2008, data_dir)


def adbench(name: str, data_dir: str | os.PathLike | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Rows of an ADBench table, and which of them are anomalies."""
    if name not in ADBENCH_TABLES:
        raise ValueError(f"Unknown ADBench table {name!r}; choose one of {[*ADBENCH_TABLES]}.")
    with np.load(find(ADBENCH, data_dir), allow_pickle=False) as stored:
        return stored[f"{name}.x"].astype(float), stored[f"{name}.y"].astype(bool)
