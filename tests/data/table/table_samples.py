"""Tables that several test files share."""

import datetime

import numpy as np
import pandas as pd
import polars as pl

from diglm.data.table.lattice import fit_numbers
from diglm.data.toy import mixed_table


def rng(seed=0):
    return np.random.default_rng(seed)


def column_of(x, **options):
    return fit_numbers("x", np.asarray(x, dtype=np.float64), **options)


def samples():
    r = rng(1)
    return {
        "normal": 5 + 2 * r.standard_normal(500),
        "lognormal": np.exp(2 * r.standard_normal(500)),
        "cauchy": r.standard_cauchy(500),
        "halves": r.integers(-8, 9, 500) / 2,
        "tenths": np.round(20 + 3 * r.standard_normal(500), 1),
        "counts": r.poisson(4.0, 500).astype(float),
        "sixes": 6.0 * r.integers(0, 9, 500) + 1,
        "few whole": np.array([3.0, 18.0, 7.0, 22.0, 9.0]),
        "years": 1900.0 + r.integers(0, 120, 500),
        "binary": (r.random(500) < 0.2).astype(float),
        "constant": np.full(500, 7.5),
    }


def frame_pandas():
    table = mixed_table(300, seed=2)
    r = rng(3)
    frame = pd.DataFrame(table.x)
    frame["grade"] = pd.Categorical(
        r.choice(["low", "mid", "high"], 300), ["low", "mid", "high", "top"], ordered=True
    )
    frame["code"] = pd.Categorical(r.choice([10, 20, 30], 300))
    frame["nullable"] = pd.array(r.choice([1, 2, None], 300), dtype="Int64")
    frame["flag"] = pd.array(r.choice([True, False, None], 300), dtype="boolean")
    frame["small"] = r.integers(0, 255, 300).astype(np.uint8)
    frame["single"] = (r.integers(0, 30, 300) / 10).astype(np.float32)
    day = pd.Timestamp("2024-03-01") + pd.to_timedelta(r.integers(0, 60, 300), unit="D")
    frame["day"] = day
    frame["zoned"] = day.tz_localize("UTC").tz_convert("Europe/Rome")
    frame["wait"] = pd.to_timedelta(r.exponential(1e3, 300), unit="s").round("ms")
    frame["mixed"] = r.choice(np.array([1, "1", 2.5, None], dtype=object), 300)
    return frame


def frame_polars():
    table = mixed_table(300, seed=2)
    r = rng(4)
    columns = {name: pl.Series(values.tolist()) for name, values in table.x.items()}
    columns["income"] = columns["income"].fill_nan(None)
    columns["level"] = pl.Series(r.choice(["a", "b"], 300).tolist(), dtype=pl.Enum(["b", "a", "z"]))
    columns["word"] = pl.Series(r.choice(["u", "v"], 300).tolist(), dtype=pl.Categorical)
    columns["gap"] = pl.Series([None if i % 7 == 0 else i % 5 for i in range(300)], dtype=pl.Int16)
    columns["maybe"] = pl.Series([None if i % 3 == 0 else i % 2 == 0 for i in range(300)])
    columns["single"] = pl.Series(r.standard_normal(300), dtype=pl.Float32)
    first = datetime.datetime(2024, 1, 1)
    hours = [datetime.timedelta(hours=int(h)) for h in r.integers(0, 500, 300)]
    columns["moment"] = pl.Series([first + h for h in hours])
    columns["zoned"] = (
        columns["moment"].dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
    )
    columns["date"] = pl.Series([(first + h).date() for h in hours])
    columns["wait"] = pl.Series([None, *hours[1:]])
    return pl.DataFrame(columns)
