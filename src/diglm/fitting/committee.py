"""Committees after training: who answers in which share, and how sure their heads may be."""

import itertools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.compiling import jit_once
from diglm.fitting.prepare import Prepared
from diglm.fitting.split import Split
from diglm.fitting.told import MOST_TO_JUDGE, Told
from diglm.fitting.trainers import Begun
from diglm.heads import AbstractResponse, Features, pool
from diglm.heads.calibration import Judged, row_likelihoods
from diglm.hybrid import Hybrid
from diglm.types import placed

FINENESS = {1: 1, 2: 100, 3: 40}  # parts of the whole in which shares of so many are told
TOO_LITTLE = 0.02  # of a share, to be worth the time of asking

LeftBy = Sequence[np.ndarray]
Team = tuple[list[Hybrid], LeftBy]


def settled_committee(
    prepared: Prepared, own: Split, trained: Hybrid
) -> tuple[Hybrid, Told | None]:
    """The committee, or two, with the plain model from which they set out as one more member.

    Training may have gained by chance, of few rows a GLM may be the best there is, and rows without
    a label may mislead. So each trained committee and the plain model answer in shares that the
    judged rows tell, and the heads' confidence is judged as they answer. The density of its own is
    the trained model's.
    """
    places, teams = _to_judge(prepared, own), _teams(prepared.begun, trained)
    if not len(places):
        teams = teams[:1]
    told = [_judged(prepared, own, *team, places) for team in teams]
    logs = np.zeros(1)
    if len(teams) > 1:
        pairs = zip(teams, told, strict=True)
        each = np.stack([row_likelihoods([m.head for m in team[0]], rows) for team, rows in pairs])
        shares = expected_shares(each, told[0].weights)
        taken = np.flatnonzero(shares >= TOO_LITTLE)
        logs = np.log(shares[taken] / np.sum(shares[taken]))
        teams, told = [teams[i] for i in taken], [told[i] for i in taken]
    members = [one for some, _ in teams for one in some]
    sizes = [len(some) for some, _ in teams]
    usual = np.repeat(logs - np.log(sizes), sizes)
    judged = told[0]._replace(
        zs=np.concatenate([one.zs for one in told]),
        log_shares=np.concatenate(
            [log + one.log_shares for log, one in zip(logs, told, strict=True)]
        ),
    )
    trains = [_train(prepared, own, one) for one in members]
    heads = members[0].head.settle_together([one.head for one in members], trains, judged)
    settled = [
        eqx.tree_at(lambda m: m.head, one, head) for one, head in zip(members, heads, strict=True)
    ]
    found = None
    if len(places):
        rows = own.held_out[places]
        answers = [prepared.learned.response(one, rows, once=True) for one in settled]
        found = Told(rows, jax.tree.map(np.asarray, _pooled(answers, placed(judged.log_shares))))
    return Hybrid.committee(settled, trained.density, usual), found


def _teams(begun: Begun, trained: Hybrid) -> list[Team]:
    """Members that answer together, and the rows each left out: trained ones, and the plain."""
    members, teams, run = trained.members, [], begun
    while run is not None:
        n = len(run.left_out)
        teams.append((members[:n], run.left_out))
        members, run = members[n:], run.rival
    return teams if begun.plain is None else [*teams, ([begun.plain], ())]


@jit_once
def _pooled(
    each: list[AbstractResponse], log_shares: Float[Array, " members *rows"]
) -> AbstractResponse:
    return pool(jax.tree.map(lambda *parts: jnp.stack(parts), *each), log_shares)


def expected_shares(
    told: Float[np.ndarray, "models rows"], weights: Float[np.ndarray, " rows"]
) -> Float[np.ndarray, " models"]:
    r"""The expected shares w of models in the mixture $\sum_k w_k\, p_k(y|x)$.

    Given log-likelihoods of rows times their weights, from a uniform prior over all shares that add
    up to one. Few rows leave all models about the same, many decide.
    """
    counted = weights > 0
    told, n = told[:, counted] / weights[counted], FINENESS[len(told)]
    parts = np.array([p for p in itertools.product(range(n + 1), repeat=len(told)) if sum(p) == n])
    best = np.max(told, axis=0)
    with np.errstate(divide="ignore"):
        fit = np.log(parts / n @ np.exp(told - best)) @ weights[counted]
    posterior = np.exp(fit - np.max(fit))
    return posterior @ (parts / n) / np.sum(posterior)


def _to_judge(prepared: Prepared, own: Split) -> np.ndarray:
    """Places among the rows that judge a committee of those that count."""
    places = np.flatnonzero(prepared.learned.rows.weights[own.held_out] > 0)
    return places[np.linspace(0, len(places) - 1, min(len(places), MOST_TO_JUDGE)).astype(int)]


def _judged(
    prepared: Prepared, own: Split, members: list[Hybrid], left_out: LeftBy, places: np.ndarray
) -> Judged:
    """The rows as each member sees them, and who may answer for which."""
    rows = own.held_out[places]
    seen = [prepared.learned.features(one, rows) for one in members]
    may = np.ones((len(members), len(rows)), bool)
    if len(members) > 1:
        may = np.stack([np.isin(len(own.train) + places, left) for left in left_out])
    with np.errstate(divide="ignore"):
        shares = np.log(may / np.sum(may, axis=0))
    return Judged(np.stack([one.z for one in seen]), shares, seen[0].y, seen[0].weight)


def _train(prepared: Prepared, own: Split, member: Hybrid) -> Features:
    """Rows that bound the spreads of a member's head."""
    part = own.train[:0] if member.head.only_held_out else own.train
    return prepared.learned.features(member, part)
