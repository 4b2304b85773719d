"""From a table and a recipe's name to an untrained hybrid that already fits the margins."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri
from scipy.stats import rankdata

from diglm import flows
from diglm.bases import Normal
from diglm.bijections import AbstractBijection, Chain, LULinear, MarginalMap
from diglm.completion import Completion
from diglm.flows import Flow
from diglm.heads import AbstractHead
from diglm.hybrid import Hybrid

RECIPES = ("auto", "coupling", "spline", "planar", "linear", "identity")
ROWS_FOR_START = 20_000  # margins and covariance are settled by this many rows


@dataclass(frozen=True)
class Sizes:
    """How large the network is and how long it trains, chosen from the table where not given."""

    n_blocks: int
    width: int
    depth: int
    dropout: float
    n_epochs: int
    batch_size: int
    learning_rate: float
    patience: int


def build_flow(
    flow: str | AbstractBijection,
    rows: Float[np.ndarray, "rows dim"],
    sizes: Sizes,
    *,
    variance: float,
    key,
) -> Flow:
    """A flow for encoded, completed rows: margins, then whitening, then the recipe's layers."""
    dim = rows.shape[1]
    base = Normal(dim, variance)
    if isinstance(flow, AbstractBijection):
        if flow.in_shape != (dim,) or flow.out_shape != (dim,):
            raise ValueError(
                f"The table has {dim} encoded dimensions, so `flow` must map ({dim},) to ({dim},); "
                f"got {flow.in_shape} to {flow.out_shape}."
            )
        started = _start(flow, rows)
        return Flow(started, base)
    if flow not in RECIPES:
        raise ValueError(f"flow must be one of {list(RECIPES)} or a bijection; got {flow!r}.")
    if flow == "identity":
        return Flow(flows.identity(dim), base)
    if flow == "linear":
        return Flow(LULinear.whitening(rows), base)
    layers: list[AbstractBijection] = [MarginalMap.fit(rows)]
    if flow == "planar":
        layers.append(flows.planar(dim, n_blocks=sizes.n_blocks, key=key))
        return Flow(Chain(layers), base)
    if 1 < dim <= flows.LARGEST_LEARNED_MIXING:
        layers.append(LULinear.whitening(_normal_scores(rows)))
    layers.append(
        flows.coupling(
            dim,
            n_blocks=sizes.n_blocks,
            width=sizes.width,
            depth=sizes.depth,
            kind="spline" if flow == "spline" else "affine",
            key=key,
        )
    )
    return Flow(Chain(layers), base)


def build_hybrid(
    flow: str | AbstractBijection,
    head: AbstractHead,
    encoded: Float[np.ndarray, "rows dim"],
    widths: Float[np.ndarray, " dim"],
    missing: Bool[np.ndarray, " dim"],
    sizes: Sizes,
    *,
    variance: float = 1.0,
    seed: int,
) -> Hybrid:
    """An untrained hybrid for the encoded table, its first layers set from the rows."""
    rng = np.random.default_rng(seed)
    completion = Completion(widths, missing)
    if len(encoded) > ROWS_FOR_START:
        encoded = encoded[rng.choice(len(encoded), ROWS_FOR_START, replace=False)]
    rows = completion.starting_rows(encoded, rng)
    built = build_flow(flow, rows, sizes, variance=variance, key=jax.random.key(seed))
    return Hybrid(built, head, completion, sizes.dropout)


def _normal_scores(rows: np.ndarray) -> np.ndarray:
    """Columns as the marginal map will show them, near enough to start the whitening from."""
    return ndtri((rankdata(rows, axis=0) - 0.5) / len(rows))


def _start(bijection: AbstractBijection, rows: np.ndarray) -> AbstractBijection:
    """Layers that start from data (actnorm, batch norm) see the rows once."""
    _, _, started = eqx.filter_jit(bijection.forward_batch)(jnp.asarray(rows), start=True)
    return started


def choose_sizes(given: dict, n_rows: int, dim: int, *, classes: bool) -> Sizes:
    """Sizes from the constructor's parameters, with "auto" resolved for this table.

    Small tables get small networks and small batches; large ones get as many steps as pay.
    """
    batch_size = int(np.clip(2 ** round(np.log2(max(n_rows, 1) / 20)), 32, 512))
    steps_an_epoch = -(-n_rows // batch_size)
    fewest_epochs = np.clip(60_000 / steps_an_epoch, 2, 15)  # of many rows, few passes are enough
    automatic = {
        "n_blocks": 3 if given["flow"] == "planar" else 8,
        "width": int(np.clip(2 ** round(np.log2(2 * np.sqrt(n_rows))), 32, 64)),
        "depth": 2,
        "dropout": 0.1 if classes else 0.0,
        "n_epochs": int(np.clip(4000 / steps_an_epoch, fewest_epochs, 250)),
        "batch_size": batch_size,
        "learning_rate": 5e-3,
        "patience": int(np.clip(1300 / steps_an_epoch, 8, 80)),
    }
    chosen = {name: given[name] for name in automatic}
    for name, value in automatic.items():
        if isinstance(chosen[name], str):
            if chosen[name] != "auto":
                raise ValueError(f"{name} must be a number or 'auto'; got {chosen[name]!r}.")
            chosen[name] = value
    for name in ("n_blocks", "width", "depth", "n_epochs", "batch_size", "patience"):
        if not (isinstance(chosen[name], int | np.integer) and chosen[name] >= 1):
            raise ValueError(f"{name} must be a whole number of at least 1; got {chosen[name]!r}.")
    return Sizes(**chosen)
