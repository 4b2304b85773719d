"""The models of benchmarks/tables.py, each with a predictive distribution.

All are at their defaults. diglm is given the table as it is; the others get what they need: trees
whole numbers for categories, the others columns for them, standardised; gaps filled by medians, and
marked (histogram boosting takes gaps as they are). What predicts a number only gets the normal
distribution around it whose variance is that of residuals out of fold (five folds).

Two settings are not defaults, because the defaults would be no match: a Gaussian process learns
amplitude, length and noise (scikit-learn's default learns nothing), and logistic regression has the
steps it needs to converge. Processes are left out where 1,000 rows or more train.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from ngboost import NGBClassifier, NGBRegressor
from ngboost.distns import k_categorical
from sklearn.compose import make_column_selector as columns_of
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from diglm import HybridClassifier, HybridRegressor
from kept import diglm_source, library
from table_scores import Numbers, normal

MOST_ROWS_OF_A_PROCESS = 1000
NUMBER = columns_of(dtype_include=["number", "bool"])
WORD = columns_of(dtype_exclude=["number", "bool"])
RIDGES = np.logspace(-3, 3, 13)


# ------------------------------------------------------------------ columns


def _words() -> list:
    """Gaps are a category of their own."""
    return [SimpleImputer(strategy="constant", fill_value="missing", missing_values=np.nan)]


def dense():
    """Standardised numbers and a column for each category."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True, strategy="median"), StandardScaler())
    words = make_pipeline(*_words(), OneHotEncoder(handle_unknown="ignore", sparse_output=False))
    return make_column_transformer((numbers, NUMBER), (words, WORD))


def codes(*, keep_gaps: bool = False):
    """Numbers as they are and a whole number for each category; unseen ones have -1."""
    numbers = "passthrough" if keep_gaps else SimpleImputer(add_indicator=True, strategy="median")
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_column_transformer((numbers, NUMBER), (make_pipeline(*_words(), ordinal), WORD))


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with words of one type, so that scikit-learn can sort them; gaps stay gaps."""
    frame = frame.copy()
    for column in frame:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            words = frame[column].astype(object)
            frame[column] = words.where(words.isna(), words.map(str)).where(words.notna(), np.nan)
        elif pd.api.types.is_bool_dtype(frame[column]):
            frame[column] = frame[column].astype(float)
    return frame


# ------------------------------------------------------------------ models


def boosting_regressor(seed: int):
    """Histogram boosting."""
    return make_pipeline(codes(keep_gaps=True), HistGradientBoostingRegressor(random_state=seed))


def kernel(x: pd.DataFrame):
    """Amplitude and one length for all columns.

    The length sets out from the root of the number of columns, about half the distance of two rows.
    From 1, rows of many columns have nothing to do with one another, and nothing is learned.
    """
    return ConstantKernel() * RBF(np.sqrt(dense().fit_transform(x).shape[1]), (1e-2, 1e3))


def regressing_process(x: pd.DataFrame, seed: int):
    """A Gaussian process with noise."""
    noisy = kernel(x) + WhiteKernel()
    gp = GaussianProcessRegressor(noisy, normalize_y=True, random_state=seed)
    return make_pipeline(dense(), gp)


def classifying_process(x: pd.DataFrame, seed: int):
    """A Gaussian process, one class against the others."""
    return make_pipeline(dense(), GaussianProcessClassifier(kernel(x), random_state=seed))


REGRESSORS: dict[str, Callable] = {
    "boosting": boosting_regressor,
    "forest": lambda seed: make_pipeline(codes(), RandomForestRegressor(random_state=seed)),
    "linear": lambda seed: make_pipeline(dense(), RidgeCV(RIDGES)),
    "neighbours": lambda seed: make_pipeline(dense(), KNeighborsRegressor()),
}
CLASSIFIERS: dict[str, Callable] = {
    "boosting": lambda seed: make_pipeline(
        codes(keep_gaps=True), HistGradientBoostingClassifier(random_state=seed)
    ),
    "forest": lambda seed: make_pipeline(codes(), RandomForestClassifier(random_state=seed)),
    "linear": lambda seed: make_pipeline(dense(), LogisticRegression(max_iter=5000)),
    "neighbours": lambda seed: make_pipeline(dense(), KNeighborsClassifier()),
}
MODELS = ("diglm", "boosting", "forest", "linear", "neighbours", "ngboost", "process")


def code_of(model: str) -> str:
    """What a result of this model depends on."""
    libraries = {
        "diglm": diglm_source,
        "ngboost": lambda: library("ngboost"),
        "process": lambda: library("scikit-learn") + ", length from columns",
    }
    return libraries.get(model, lambda: library("scikit-learn"))()


def can_fit(model: str, n_rows: int) -> bool:
    """Whether the model is run on so many training rows."""
    return model != "process" or n_rows < MOST_ROWS_OF_A_PROCESS


def predict_numbers(
    model: str, x: pd.DataFrame, y: np.ndarray, test: pd.DataFrame, seed: int
) -> tuple[Numbers, float]:
    """Predictive distributions of the test rows, and the seconds of one fit."""
    started = time.perf_counter()
    if model == "diglm":
        fitted = HybridRegressor(random_state=seed, verbose=False).fit(x, y)
        seconds = time.perf_counter() - started
        dist = fitted.predict_dist(test)
        return Numbers(dist.mean, dist.cdf, dist.log_prob, dist.interval(0.9)), seconds
    x, test = plain(x), plain(test)
    if model == "ngboost":
        change = codes().fit(x)
        fitted = NGBRegressor(random_state=seed, verbose=False).fit(change.transform(x), y)
        seconds = time.perf_counter() - started
        found = fitted.pred_dist(change.transform(test))
        return normal(found.loc, found.scale), seconds
    if model == "process":
        fitted = regressing_process(x, seed).fit(x, y)
        seconds = time.perf_counter() - started
        return normal(*fitted.predict(test, return_std=True)), seconds
    fitted = REGRESSORS[model](seed).fit(x, y)
    seconds = time.perf_counter() - started
    folds = KFold(5, shuffle=True, random_state=seed)
    residuals = y - cross_val_predict(REGRESSORS[model](seed), x, y, cv=folds)
    return normal(fitted.predict(test), np.sqrt(np.mean(residuals**2))), seconds


def predict_classes(
    model: str, x: pd.DataFrame, y: np.ndarray, test: pd.DataFrame, seed: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Probabilities of the test rows, the classes of their columns, and the seconds of one fit."""
    started = time.perf_counter()
    if model == "diglm":
        fitted = HybridClassifier(random_state=seed, verbose=False).fit(x, y)
        seconds = time.perf_counter() - started
        return fitted.predict_proba(test), fitted.classes_, seconds
    x, test = plain(x), plain(test)
    classes, places = np.unique(y, return_inverse=True)
    if model == "ngboost":
        change = codes().fit(x)
        fitted = NGBClassifier(k_categorical(len(classes)), random_state=seed, verbose=False)
        fitted.fit(change.transform(x), places)
        seconds = time.perf_counter() - started
        return fitted.predict_proba(change.transform(test)), classes, seconds
    maker = partial(classifying_process, x) if model == "process" else CLASSIFIERS[model]
    fitted = maker(seed).fit(x, places)
    seconds = time.perf_counter() - started
    return fitted.predict_proba(test), classes, seconds
