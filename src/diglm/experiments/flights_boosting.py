"""Boosted trees as baselines of the flight-delay study: histogram gradient boosting and NGBoost."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

from diglm.experiments.flights_metrics import Gaussian, Predictive, StudentT, fit_student_t
from diglm.experiments.flights_protocol import Fitted, Progress, hold_out, require


@dataclass(frozen=True)
class Boosting:
    """Settings of a histogram booster; it stops when the held-out rows no longer gain."""

    max_iter: int = 300
    max_leaf_nodes: int = 63
    learning_rate: float = 0.1


@dataclass(frozen=True)
class NaturalBoosting:
    """Settings of NGBoost; `n_rows` of the training rows are used, because it is slow."""

    n_rows: int = 50_000
    n_trees: int = 500
    learning_rate: float = 0.04
    depth: int = 4
    patience: int = 30
    boosted_df: float = 3.0  # of the Student-t; its final df is fitted on held-out rows


def boosting(
    x_train: np.ndarray,
    y_train: np.ndarray,
    x_test: np.ndarray,
    seed: int,
    progress: Progress,
    settings: Boosting | None = None,
) -> Iterator[Fitted]:
    """Histogram gradient boosting, with four ways to make a distribution of its prediction.

    `boosting` has one variance. `boosting-variance` has a variance for each row, from a second
    booster on log squared residuals. `boosting-student-t` puts Student-t tails on that scale.
    `boosting-median-t` does so around the conditional median, which suits a skewed target.
    """
    settings = settings or Boosting()
    learn, held = hold_out(len(y_train), seed)
    rows = Rows(x_train[learn], y_train[learn], x_train[held], y_train[held], x_test)

    def boost(loss: str, targets: Rows) -> Boosted:
        return _boost(loss, targets, settings, seed)

    def fitted(name: str, predictive: Predictive, *parts: Boosted, **learned: float) -> Fitted:
        used = asdict(settings) | {"trees": [part.n_trees for part in parts]} | learned
        return Fitted(name, predictive, sum(part.seconds for part in parts), used)

    progress("boosting the mean")
    mean = boost("squared_error", rows)
    errors = rows.y_held - mean.held
    sd = np.full(len(x_test), np.sqrt(np.mean(errors**2)))
    yield fitted("boosting", Gaussian(mean.test, sd), mean)

    progress("boosting the variance")
    scale = boost("squared_error", rows.of_residuals(mean, log_scale)).exponential()
    factor = np.sqrt(np.mean((errors / scale.held) ** 2))
    yield fitted("boosting-variance", Gaussian(mean.test, factor * scale.test), mean, scale)

    _, factor, df = fit_student_t(errors, scale.held)
    predictive = StudentT(mean.test, factor * scale.test, df)
    yield fitted("boosting-student-t", predictive, mean, scale, df=df)

    progress("boosting the median")
    median = boost("absolute_error", rows)
    scale = boost("squared_error", rows.of_residuals(median, log_scale)).exponential()
    shift, factor, df = fit_student_t(rows.y_held - median.held, scale.held, shifted=True)
    predictive = StudentT(median.test + shift * scale.test, factor * scale.test, df)
    yield fitted("boosting-median-t", predictive, median, scale, df=df, shift=shift)


class Boosted(NamedTuple):
    """What a booster says of the rows it learnt from, of the held-out rows and of the test rows."""

    learn: np.ndarray
    held: np.ndarray
    test: np.ndarray
    n_trees: int
    seconds: float

    def exponential(self) -> "Boosted":
        """The same of a booster whose target was a logarithm."""
        return self._replace(**{part: np.exp(getattr(self, part)) for part in self._fields[:3]})


class Rows(NamedTuple):
    """The training rows in two parts, and the attributes of the test rows."""

    x_learn: np.ndarray
    y_learn: np.ndarray
    x_held: np.ndarray
    y_held: np.ndarray
    x_test: np.ndarray

    def of_residuals(
        self, location: Boosted, function: Callable[[np.ndarray], np.ndarray]
    ) -> "Rows":
        """The same rows with a function of what `location` left over as their target."""
        return self._replace(
            y_learn=function(self.y_learn - location.learn),
            y_held=function(self.y_held - location.held),
        )


def log_scale(residuals: np.ndarray) -> np.ndarray:
    """Half of log(1 + r^2): the minute keeps rows that were met by chance from ruling a fit."""
    return 0.5 * np.log1p(residuals**2)


def _boost(loss: str, rows: Rows, settings: Boosting, seed: int) -> Boosted:
    started = time.perf_counter()
    model = HistGradientBoostingRegressor(
        loss=loss,
        max_iter=settings.max_iter,
        max_leaf_nodes=settings.max_leaf_nodes,
        learning_rate=settings.learning_rate,
        early_stopping="auto",  # that is, with held-out rows: yes
        random_state=seed,
    ).fit(rows.x_learn, rows.y_learn, X_val=rows.x_held, y_val=rows.y_held)
    learn, held, test = (model.predict(x) for x in (rows.x_learn, rows.x_held, rows.x_test))
    return Boosted(learn, held, test, model.n_iter_, time.perf_counter() - started)


def natural_boosting(
    x_train: np.ndarray,
    y_train: np.ndarray,
    x_test: np.ndarray,
    seed: int,
    progress: Progress,
    settings: NaturalBoosting | None = None,
) -> Iterator[Fitted]:
    """NGBoost (Duan et al., 2020): trees for all parameters of a distribution at once.

    `ngboost` is Gaussian, `ngboost-student-t` has Student-t tails.
    """
    ngboost = require("ngboost", "The baseline 'ngboost'", extra="study")
    settings = settings or NaturalBoosting()
    rows = np.random.default_rng(seed).permutation(len(y_train))[: settings.n_rows]
    learn, held = (rows[part] for part in hold_out(len(rows), seed))
    centre, unit = np.mean(y_train[learn]), np.std(y_train[learn])
    families = {
        "ngboost": ngboost.distns.Normal,
        "ngboost-student-t": student_t_family(settings.boosted_df),
    }
    for name, family in families.items():
        started = time.perf_counter()
        progress(f"training {name} on {len(learn):,} rows")
        model = ngboost.NGBRegressor(
            Dist=family,
            Score=ngboost.scores.LogScore,
            Base=DecisionTreeRegressor(max_depth=settings.depth, min_samples_leaf=20),
            n_estimators=settings.n_trees,
            learning_rate=settings.learning_rate,
            random_state=seed,
            verbose=False,
        )
        model.fit(
            x_train[learn],
            (y_train[learn] - centre) / unit,
            X_val=x_train[held],
            Y_val=(y_train[held] - centre) / unit,
            early_stopping_rounds=settings.patience,
        )
        n_trees = model.best_val_loss_itr + 1  # it counts from zero
        of_held, of_test = (model.pred_dist(x, max_iter=n_trees) for x in (x_train[held], x_test))
        used: dict[str, Any] = asdict(settings) | {"trees": n_trees}
        mean, scale = (centre + unit * of_test.loc, unit * of_test.scale)
        if name == "ngboost":
            predictive = Gaussian(mean, scale)
        else:
            errors = y_train[held] - centre - unit * of_held.loc
            _, factor, used["df"] = fit_student_t(errors, unit * of_held.scale)
            predictive = StudentT(mean, factor * scale, used["df"])
        yield Fitted(name, predictive, time.perf_counter() - started, used)


def student_t_family(degrees: float) -> type:
    r"""NGBoost's Student-t with the Fisher information of its own parameters, m and log s.

    The package states the information for log s as $\nu / (2 (\nu + 3) s^2)$; it is
    $2 \nu / (\nu + 3)$. Natural gradients are then of one size whatever the scale.
    """
    ngboost = require("ngboost", "The baseline 'ngboost'", extra="study")
    theirs = ngboost.distns.t

    class Score(theirs.TFixedDfLogScore, ngboost.scores.LogScore):
        def metric(self):
            information = np.zeros((len(self.var), 2, 2))
            information[:, 0, 0] = (self.df + 1) / ((self.df + 3) * self.var)
            information[:, 1, 1] = 2 * self.df / (self.df + 3)
            return information

    class Family(theirs.TFixedDf):
        scores = [Score]
        fixed_df = degrees

    return Family
