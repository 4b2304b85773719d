"""Links: there and back, and as others have them."""

import jax.numpy as jnp
import numpy as np
import pytest

from diglm import heads
from diglm.heads.links import LOG_ODDS


@pytest.mark.parametrize("name", sorted(heads.LINKS))
def test_links_round_trip(name):
    link = heads.get_link(name)
    means = {"identity": [-3.0, 0.0, 5.0]}.get(name, [1e-6, 0.01, 0.3, 0.5, 0.7, 0.999])
    if name in ("log", "softplus", "reciprocal"):
        means = [1e-6, 0.1, 3.0, 50.0]
    means = jnp.array(means)
    np.testing.assert_allclose(link.inverse(link.link(means)), means, rtol=1e-9)
    assert link is heads.LINKS[name] and isinstance(hash(link), int)
    if name in LOG_ODDS:
        odds = jnp.log(means) - jnp.log1p(-means)
        np.testing.assert_allclose(link.log_odds(link.link(means)), odds, rtol=1e-8, atol=1e-9)


def test_links_equal_statsmodels():
    from statsmodels.genmod.families import links

    means = np.array([0.01, 0.3, 0.9])
    for name, known in [
        ("logit", links.Logit()),
        ("probit", links.Probit()),
        ("cloglog", links.CLogLog()),
        ("log", links.Log()),
        ("reciprocal", links.InversePower()),
    ]:
        np.testing.assert_allclose(heads.get_link(name).link(jnp.asarray(means)), known(means))
