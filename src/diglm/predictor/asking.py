r"""Which labels would teach a classifier most: what versions of a model disagree about.

A model with doubts is many: draws of the weights from their posterior, or the members of a
committee. A label tells between these versions s as much as
$$I(y; s \mid x) = H[\textstyle\sum_s \pi_s\, p_s(y \mid x)] - \sum_s \pi_s H[p_s(y \mid x)]$$
(BALD). For several rows at once, a row is chosen given that the labels of those before it will be
known: these are drawn from the model, a few dozen times, and shares of versions follow them by
Bayes' rule (BatchBALD, by sampling). Noise that no label takes away counts for nothing, which is
what tells this from entropy. A model without doubts has one version, and then entropy decides.

References: Houlsby et al. (2011), https://arxiv.org/abs/1112.5745; Kirsch et al. (2019),
https://arxiv.org/abs/1906.08158
"""

from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from diglm.data.encoder import Encoded
from diglm.hybrid import Hybrid
from diglm.predictor import evaluate
from diglm.predictor.look import at_centres
from diglm.predictor.predictor import Predictor
from diglm.types import Buffer

N_DRAWS = 64  # of the weights
N_FUTURES = 32  # draws of the labels that will be known
SEED = 0  # the same rows are always answered alike
CERTAIN = 1e-6  # nats; a label that teaches less teaches nothing


def versions(model: Hybrid, xs: Array, _: Array) -> Float[Array, "rows versions classes"]:
    """p_s(y|x) of each version of the model; members one after the other."""
    key = jax.random.key(SEED)

    def of_member(member: Hybrid) -> Float[Array, "rows versions classes"]:
        points = xs if member.completion is None else jax.vmap(member.completion.centre)(xs)
        zs = member.read(member.flow.forward_rows(points)[0])
        return jax.vmap(lambda z: member.head.versions(z, key, N_DRAWS).mean)(zs)

    own = of_member(model)
    if model.others is None:
        return own
    more = eqx.filter_vmap(of_member, out_axes=1)(model.others)
    return jnp.concatenate([own, more.reshape(len(own), -1, own.shape[-1])], axis=1)


class Versions:
    """What each version of a model answers to rows, and how much each of them counts."""

    def __init__(self, predictor: Predictor, encoded: Encoded):
        centres = at_centres(predictor.encoder, encoded.values)
        found = evaluate.evaluate(versions, predictor.model, centres, np.zeros(0))
        probabilities = np.asarray(found, float)
        self.answers = probabilities / probabilities.sum(axis=-1, keepdims=True)
        n, shares = self.answers.shape[1], np.ones(1)
        if predictor.model.log_shares is not None:
            shares = np.exp(np.asarray(cast(Buffer, predictor.model.log_shares).value, float))
        self.shares = np.repeat(shares / shares.sum(), n // len(shares)) / (n // len(shares))

    @property
    def disagree(self) -> bool:
        """Whether there are several, so that a label tells between them."""
        return self.answers.shape[1] > 1

    @property
    def entropy(self) -> Float[np.ndarray, " rows"]:
        """Of all of them together."""
        return _entropy(np.einsum("s,rsc->rc", self.shares, self.answers))

    def information(
        self, shares: Float[np.ndarray, "futures versions"]
    ) -> Float[np.ndarray, " rows"]:
        """Nats that a row's label would tell of the version, on average over futures."""
        by_version = np.swapaxes(self.answers, 0, 1)
        each = _entropy(by_version)
        total = sum(
            _entropy(np.tensordot(share, by_version, 1)) - np.tensordot(share, each, 1)
            for share in shares
        )
        return np.maximum(total / len(shares), 0.0)


def information_gain(predictor: Predictor, encoded: Encoded) -> Float[np.ndarray, " rows"]:
    """Nats that each row's label would tell of what is not known of the model."""
    found = Versions(predictor, encoded)
    return found.information(found.shares[None])


def most_informative_classes(
    predictor: Predictor, encoded: Encoded, n: int
) -> Int[np.ndarray, " chosen"]:
    """Numbers of the `n` rows whose labels together teach most, best first; none refused."""
    found = Versions(predictor, encoded)
    left = ~predictor.refusal.rejects(predictor.known(encoded))
    entropy, rng = found.entropy, np.random.default_rng(SEED)
    futures = np.tile(found.shares, (N_FUTURES, 1))
    truths = rng.choice(len(found.shares), N_FUTURES, p=found.shares)
    chosen: list[int] = []
    while len(chosen) < min(n, len(left)) and np.any(left):
        gain = found.information(futures[:1] if not chosen else futures)
        # Where versions have nothing left to disagree about, as one alone has not, entropy decides.
        value = gain if np.any(gain[left] > CERTAIN) else entropy
        best = int(np.argmax(np.where(left, value, -np.inf)))
        chosen.append(best)
        left[best] = False
        told = found.answers[best]
        below = np.cumsum(told[truths], axis=1)
        labels = np.sum(rng.random(N_FUTURES)[:, None] > below[:, :-1], axis=1)
        futures = futures * told[:, labels].T
        futures /= futures.sum(axis=1, keepdims=True)
    return np.array(chosen, int)


def _entropy(probabilities: Float[np.ndarray, "*batch classes"]) -> Float[np.ndarray, "*batch"]:
    logs = np.log(np.maximum(probabilities, np.finfo(float).tiny))
    return -np.sum(probabilities * logs, axis=-1)
