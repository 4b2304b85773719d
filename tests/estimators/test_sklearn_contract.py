"""scikit-learn's own checks of the estimators."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

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

# These checks look at what was learned, and at tables that are hard to learn from. Parameters,
# names, tags, containers, and errors are what they are whatever flow or head is fitted.
OF_MODELS = ("train", "one_label", "pickle", "idempotent", "subset_invariance", "regressors_int")
OF_MODELS += ("fit2d_1sample", "fit2d_1feature", "all_zero", "overwritten", "weight_equivalence")
OF_TRAINING = (*OF_MODELS, "dtypes", "classes", "class_weight", "order_invariance", "general")
OF_TRAINING += ("outliers", "clusterer", "consistency", "n_iter")


def checks_of(estimator, kind):
    """All that scikit-learn has for an estimator, by their names."""
    for case in estimator_checks_generator(
        estimator, legacy=True, expected_failed_checks=EXPECTED, mark="xfail"
    ):
        values, marks = getattr(case, "values", case), getattr(case, "marks", ())
        name = values[1].func.__name__
        yield name, pytest.param(*values, marks=marks, id=f"{kind}-{name}")


def every_check(make):
    """Each check once: of a model that is trained, or of the one that is fitted soonest.

    Most of the time goes into compiling. Programs of couplings take three times as long as those of
    a linear flow, and what couplings add to the contract is tested elsewhere; the identity has
    nothing to train.
    """
    for flow, trains in (("linear", True), ("identity", False)):
        estimator = make(flow)
        for name, case in checks_of(estimator, f"{type(estimator).__name__}-{flow}"):
            if any(word in name for word in OF_TRAINING) == trains:
                yield case


def checks_of_heads():
    """Another head is another fit and other answers: these checks look at them, each once."""
    for estimator in (
        HybridRegressor("identity", head="bayesian"),
        # The quickest to fit; where nothing comes before the head, training has nothing to add.
        HybridClassifier("identity", head=Bayesian(inference="laplace"), n_epochs=5),
    ):
        cases = {}
        for name, case in checks_of(estimator, type(estimator).__name__):
            if any(word in name for word in OF_MODELS):
                cases.setdefault(name, case)
        yield from cases.values()


@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        *every_check(lambda flow: HybridClassifier(flow, **QUICK)),
        *every_check(lambda flow: HybridRegressor(flow, head="gaussian", **QUICK)),
    ],
)
def test_estimators_keep_scikit_learns_contract(estimator, check):
    check(estimator)


# What folds make of strange tables is looked at here, once for all estimators: a density predicts
# by the threshold.
@pytest.mark.folds
@pytest.mark.parametrize(
    ("estimator", "check"), list(every_check(lambda flow: HybridDensity(flow, **QUICK)))
)
def test_a_density_keeps_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("estimator", "check"), list(checks_of_heads()))
def test_bayesian_heads_keep_scikit_learns_contract(estimator, check):
    check(estimator)
