"""Small data sets with known answers, for tests, examples and figures."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class MixedTable(NamedTuple):
    """Columns by name, ready for `pandas.DataFrame(table.x)`, and two targets."""

    x: dict[str, np.ndarray]
    label: Int[np.ndarray, " rows"]
    response: Float[np.ndarray, " rows"]


def two_moons(
    n: int = 1000, noise: float = 0.1, seed: int = 0
) -> tuple[Float[np.ndarray, "rows 2"], Int[np.ndarray, " rows"]]:
    r"""Two interleaved half circles of radius one, class 0 above and class 1 below.

    Class 0 is $(\cos t, \sin t)$ and class 1 is $(1 - \cos t, 1/2 - \sin t)$ with $t$ uniform on
    $[0, \pi]$, plus normal noise of standard deviation `noise`. Rows alternate between classes.
    """
    _require_rows(n)
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    t = rng.uniform(0.0, np.pi, n)
    side = 1.0 - 2.0 * y
    x = np.stack([y + side * np.cos(t), 0.5 * y + side * np.sin(t)], axis=1)
    return x + noise * rng.standard_normal((n, 2)), y


def toy_regression(
    n: int = 250, seed: int = 0
) -> tuple[Float[np.ndarray, "rows 1"], Float[np.ndarray, " rows"]]:
    r"""$y = x^3 + \epsilon_k$ for $x \sim N(\mu_k, \sigma_k)$, the paper's first simulation.

    Three equally likely components have $\mu = (-4, 0, 4)$ and $\sigma = (0.4, 0.6, 0.4)$. The
    noise is $N(0, 3)$ in the outer two and $N(0, 20)$ in the middle. Both numbers are read as
    standard deviations, as the mixture's are, for only then does the middle visibly differ.

    Reference: Nalisnick et al. (2019), https://arxiv.org/abs/1902.02767, Figure 2.
    """
    _require_rows(n)
    rng = np.random.default_rng(seed)
    k = rng.integers(0, 3, n)
    x = np.array([-4.0, 0.0, 4.0])[k] + np.array([0.4, 0.6, 0.4])[k] * rng.standard_normal(n)
    y = x**3 + np.array([3.0, 20.0, 3.0])[k] * rng.standard_normal(n)
    return x[:, None], y


def mixed_table(n: int = 1000, seed: int = 0) -> MixedTable:
    """A table with every kind of column, and targets that depend on all of them.

    Columns: `income`, positive and skewed, missing more often where it is high; `return`,
    heavy-tailed (Student-t, 2 degrees of freedom); `visits`, whole numbers; `rating`, in steps of
    one half; `city`, text with some missing; `member`, bool. The response is linear in the
    underlying quantities and in both kinds of missingness; the label is 1 with the logistic
    probability of a multiple of it.
    """
    _require_rows(n)
    rng = np.random.default_rng(seed)
    skewed, tailed = rng.standard_normal(n), rng.standard_t(2, n)
    visits = rng.poisson(3.0, n)
    rating = rng.integers(2, 11, n) / 2
    city = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    member = rng.random(n) < 0.4
    no_income = rng.random(n) < 1 / (1 + np.exp(1.5 - skewed))
    no_city = rng.random(n) < 0.1

    effect = np.array([0.0, 1.0, -1.0, 2.0])[city]
    response = (
        0.8 * skewed
        + 0.3 * np.clip(tailed, -5, 5)
        + 0.4 * (visits - 3)
        + 0.5 * (rating - 3)
        + np.where(no_city, 1.5, effect)
        + 0.7 * member
        - 1.5 * no_income
        + 0.3 * rng.standard_normal(n)
    )
    label = rng.random(n) < 1 / (1 + np.exp(-2.0 * (response - 0.3)))
    names = np.array(["Rome", "Oslo", "Lima", "Cairo"], dtype=object)[city]
    names[no_city] = None
    columns = {
        "income": np.where(no_income, np.nan, 30_000.0 * np.exp(0.6 * skewed)),
        "return": 0.02 * tailed,
        "visits": visits,
        "rating": rating,
        "city": names,
        "member": member,
    }
    return MixedTable(columns, label.astype(np.int64), response)


def _require_rows(n: int):
    if n < 1:
        raise ValueError(f"Expected n >= 1 rows; got {n}.")
