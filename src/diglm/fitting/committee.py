"""A committee after training: who answers, in which shares, and how sure they may be."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diglm.compiling import jit_once
from diglm.fitting.prepare import Prepared
from diglm.fitting.split import Split
from diglm.fitting.told import MOST_TO_JUDGE, Told, answered
from diglm.heads import AbstractResponse, Features, pool
from diglm.heads.calibration import Judged, row_likelihoods
from diglm.hybrid import Hybrid
from diglm.predictor.look import Viewer
from diglm.types import placed

SHARES = np.linspace(0.0, 1.0, 101)
TOO_LITTLE = 0.02  # of a share, to be worth the time of asking


def settled_committee(
    prepared: Prepared, own: Split, trained: Hybrid
) -> tuple[Hybrid, Told | None]:
    """The committee, with the plain model from which it set out as one more member.

    Training may have gained by chance, and of few rows a GLM may be the best there is. So the
    trained members together and the plain model answer in shares that the judged rows tell, and
    the heads' confidence is judged as they answer. The density of its own is the trained model's.
    """
    places, members = _to_judge(prepared, own), trained.members
    plain = prepared.begun.plain
    judged = _judged(prepared, own, members, places)
    usual = np.full(len(members), -np.log(len(members)))
    if plain is not None and len(places):
        alone = _judged(prepared, own, [plain], places)
        together = row_likelihoods([one.head for one in members], judged)
        share = expected_share(together, row_likelihoods([plain.head], alone), judged.weights)
        if share < TOO_LITTLE:
            members, judged, usual = [plain], alone, np.zeros(1)
        elif share <= 1 - TOO_LITTLE:
            members = [*members, plain]
            shares = [np.log(share) + judged.log_shares, np.log1p(-share) + alone.log_shares]
            zs = np.concatenate([judged.zs, alone.zs])
            judged = judged._replace(zs=zs, log_shares=np.concatenate(shares))
            usual = np.append(np.log(share) + usual, np.log1p(-share))
    trains = [_train(prepared, own, one) for one in members]
    heads = members[0].head.settle_together([one.head for one in members], trains, judged)
    settled = [
        eqx.tree_at(lambda m: m.head, one, head) for one, head in zip(members, heads, strict=True)
    ]
    told = None
    if len(places):
        rows = own.held_out[places]
        viewers = (Viewer(prepared.encoder, one) for one in settled)
        each = [answered(prepared, viewer, rows) for viewer in viewers]
        pooled = _pooled(each, placed(judged.log_shares))
        told = Told(rows, jax.tree.map(np.asarray, pooled))
    return Hybrid.committee(settled, density=trained.density, log_shares=usual), told


@jit_once
def _pooled(
    each: list[AbstractResponse], log_shares: Float[Array, " members *rows"]
) -> AbstractResponse:
    return pool(jax.tree.map(lambda *parts: jnp.stack(parts), *each), log_shares)


def expected_share(
    trained: Float[np.ndarray, " rows"],
    plain: Float[np.ndarray, " rows"],
    weights: Float[np.ndarray, " rows"],
) -> float:
    r"""The expected share w of a model in the mixture $w\,p_1(y|x) + (1 - w)\,p_0(y|x)$.

    Given log-likelihoods of rows times their weights, from a uniform prior. Few rows leave both
    models about half, many decide.
    """
    counted = weights > 0
    first, second = (told[counted] / weights[counted] for told in (trained, plain))
    with np.errstate(divide="ignore"):
        mixed = np.logaddexp(np.log(SHARES)[:, None] + first, np.log1p(-SHARES)[:, None] + second)
    fit = mixed @ weights[counted]
    posterior = np.exp(fit - np.max(fit))
    return float(posterior @ SHARES / np.sum(posterior))


def _to_judge(prepared: Prepared, own: Split) -> np.ndarray:
    """Places among the rows that judge a committee of those that count."""
    places = np.flatnonzero(prepared.rows.weights[own.held_out] > 0)
    return places[np.linspace(0, len(places) - 1, min(len(places), MOST_TO_JUDGE)).astype(int)]


def _judged(prepared: Prepared, own: Split, members: list[Hybrid], places: np.ndarray) -> Judged:
    """The rows as each member sees them, and who may answer for which."""
    rows = own.held_out[places]
    seen = [prepared.features(Viewer(prepared.encoder, one), rows) for one in members]
    may = np.ones((len(members), len(rows)), bool)
    if len(members) > 1:
        left_out = (left - len(own.train) for left in prepared.begun.left_out)
        may = np.stack([np.isin(places, left) for left in left_out])
    with np.errstate(divide="ignore"):
        shares = np.log(may / np.sum(may, axis=0))
    return Judged(np.stack([one.z for one in seen]), shares, seen[0].y, seen[0].weight)


def _train(prepared: Prepared, own: Split, member: Hybrid) -> Features:
    """Rows that bound the spreads of a member's head."""
    part = own.train[:0] if member.head.only_held_out else own.train
    return prepared.features(Viewer(prepared.encoder, member), part)
