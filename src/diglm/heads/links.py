"""Links: the scale on which the mean of y is linear in z."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr, ndtri
from jaxtyping import Array, Float

from diglm.heads.special import limit

Elementwise = Callable[[Float[Array, "*batch"]], Float[Array, "*batch"]]


@dataclass(frozen=True)
class Link:
    r"""$\eta = g(\mu)$ and $\mu = g^{-1}(\eta)$, elementwise.

    Attributes:
        name: The key in `LINKS`. Models store the name alone, so links are static and savable.
        link: $g$, from a mean to a linear predictor.
        inverse: $g^{-1}$, from a linear predictor to a mean.
    """

    name: str
    link: Elementwise
    inverse: Elementwise

    def log_mean(self, eta: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        r"""$\log g^{-1}(\eta)$, for positive means; a mean that is not positive becomes tiny."""
        if self.name == "log":
            return eta
        return jnp.log(jnp.maximum(self.inverse(eta), jnp.finfo(eta.dtype).tiny))

    def log_odds(self, eta: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        r"""$\log \mu - \log(1 - \mu)$ of $\mu = g^{-1}(\eta)$, for links of probabilities only.

        It keeps its digits where $\mu$ itself rounds to zero or one.
        """
        return LOG_ODDS[self.name](eta)


def _same(value):
    return value


def _exp(eta):
    return jnp.exp(limit(eta))


def _logit(mean):
    return jnp.log(mean) - jnp.log1p(-mean)


def _probit_log_odds(eta):
    return log_ndtr(eta) - log_ndtr(-eta)


def _cloglog(mean):
    return jnp.log(-jnp.log1p(-mean))


def _cloglog_inverse(eta):
    return -jnp.expm1(-_exp(eta))


def _cloglog_log_odds(eta):
    # log(e^r - 1) at the rate r = e^eta; for small rates it is eta itself to within r / 2.
    rate = _exp(eta)
    small = rate < 1e-8
    safe = jnp.where(small, 1.0, rate)
    return jnp.where(small, eta, safe + jnp.log(-jnp.expm1(-safe)))


def _softplus_link(mean):
    return mean + jnp.log(-jnp.expm1(-mean))


def _reciprocal(value):
    # Means of this link are positive, so a predictor at or below zero stands for a huge mean.
    return 1 / jnp.maximum(value, jnp.exp(limit(jnp.full_like(value, -jnp.inf))))


LINKS: dict[str, Link] = {
    link.name: link
    for link in (
        Link("identity", _same, _same),
        Link("log", jnp.log, _exp),
        Link("logit", _logit, jax.nn.sigmoid),
        Link("probit", ndtri, ndtr),
        Link("cloglog", _cloglog, _cloglog_inverse),
        Link("softplus", _softplus_link, jax.nn.softplus),
        Link("reciprocal", _reciprocal, _reciprocal),
    )
}

LOG_ODDS: dict[str, Elementwise] = {
    "logit": _same,
    "probit": _probit_log_odds,
    "cloglog": _cloglog_log_odds,
}


def get_link(name: str) -> Link:
    """The link of that name."""
    if name not in LINKS:
        raise ValueError(f"Expected a link among {sorted(LINKS)}; got {name!r}.")
    return LINKS[name]
