"""scikit-learn's own checks of the estimators."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from diglm import HybridClassifier, HybridDensity, HybridRegressor
from diglm.heads import Bayesian

QUICK = dict(n_epochs=5, batch_size=32, verbose=False)

# Minibatches, noise and the held-out split are drawn by row number, so a repeated row and a row of
# weight two are different draws: equal in expectation, not in bits.
SAMPLED = "training draws rows at random; weights and repetitions agree only in expectation"
EXPECTED = {"check_sample_weight_equivalence_on_dense_data": SAMPLED}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
]


# Programs of couplings take three times as long to compile: what couplings add to the contract is
# tested elsewhere, and here the flow is linear.
@parametrize_with_checks(
    [
        HybridClassifier("linear", **QUICK),
        HybridRegressor("linear", head="gaussian", **QUICK),
    ],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_estimators_keep_scikit_learns_contract(estimator, check):
    check(estimator)


# What folds make of strange tables is looked at here, once for all estimators: a density predicts
# by the threshold.
@pytest.mark.folds
@parametrize_with_checks(
    [HybridDensity("linear", **QUICK)], expected_failed_checks=lambda estimator: EXPECTED
)
def test_a_density_keeps_scikit_learns_contract(estimator, check):
    check(estimator)


# Another head is another fit and other answers: these checks look at them, each once. Parameters,
# names, tags, containers, types of numbers and names of classes are what they were: no head sees
# them.
OF_HEADS = ("train", "one_label", "pickle", "idempotent", "subset_invariance", "regressors_int")
OF_HEADS += ("fit2d_1sample", "fit2d_1feature", "all_zero", "overwritten", "weight_equivalence")


def checks_of_heads():
    for estimator in (
        HybridRegressor("identity", head="bayesian"),
        # The quickest to fit; where nothing comes before the head, training has nothing to add.
        HybridClassifier("identity", head=Bayesian(inference="laplace"), n_epochs=5),
    ):
        cases, kind = {}, type(estimator).__name__
        for case in estimator_checks_generator(
            estimator, legacy=True, expected_failed_checks=EXPECTED, mark="xfail"
        ):
            values, marks = getattr(case, "values", case), getattr(case, "marks", ())
            name = values[1].func.__name__
            if any(word in name for word in OF_HEADS) and name not in cases:
                cases[name] = pytest.param(*values, marks=marks, id=f"{kind}-{name}")
        yield from cases.values()


@pytest.mark.parametrize(("estimator", "check"), list(checks_of_heads()))
def test_bayesian_heads_keep_scikit_learns_contract(estimator, check):
    check(estimator)
