"""scikit-learn's own checks of both estimators."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from diglm import HybridClassifier, HybridRegressor

TINY = dict(n_blocks=2, width=8, depth=1, n_epochs=20, batch_size=32, verbose=False)

# Minibatches, noise and the held-out split are drawn by row number, so a repeated row and a row of
# weight two are different draws: equal in expectation, not in bits.
SAMPLED = "training draws rows at random; weights and repetitions agree only in expectation"
EXPECTED = {"check_sample_weight_equivalence_on_dense_data": SAMPLED}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")


# Programs of couplings take three times as long to compile: one estimator goes through them, and
# the other, which shares its code, through a linear flow.
@pytest.mark.slow
@parametrize_with_checks(
    [HybridClassifier("linear", **TINY), HybridRegressor(**TINY)],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_estimators_keep_scikit_learns_contract(estimator, check):
    check(estimator)
