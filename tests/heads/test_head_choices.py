"""Heads by name and as objects: what they build, which targets they take, in which unit."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from head_samples import GLM_HEADS

from diglm import heads
from diglm.heads import HEADS, Bayesian, BayesianPoisson, Mixed, MixedPoisson, Softmax
from diglm.heads.registry import head_choice, make_head

FAMILIES = {
    "gaussian": heads.GaussianFamily,
    "heteroscedastic": heads.HeteroscedasticFamily,
    "student_t": heads.StudentTFamily,
    "mixture": heads.MixtureFamily,
    "bernoulli": heads.BernoulliFamily,
    "poisson": heads.PoissonFamily,
    "negative_binomial": heads.NegativeBinomialFamily,
    "gamma": heads.GammaFamily,
    "hurdle": heads.HurdleFamily,
    "zero_inflated": heads.ZeroInflatedFamily,
}
AS_THEY_ARE = (
    "bernoulli",
    "poisson",
    "negative_binomial",
    "zero_inflated",
    "bayesian_poisson",
    "mixed_poisson",
)
ANY_NUMBER = ("gaussian", "heteroscedastic", "student_t", "mixture")


def numbers(choice, dim=2, n_targets=1, scale=1.0, n_groups=0):
    return choice.for_numbers(dim, n_targets=n_targets, scale=scale, n_groups=n_groups)


def classes(choice, dim=2, n_classes=2, n_groups=0):
    return choice.for_classes(dim, n_classes=n_classes, n_groups=n_groups)


# Names


def test_every_glm_head_has_a_name_and_a_constructor():
    assert set(GLM_HEADS) == {*FAMILIES, "categorical"} <= set(HEADS)
    others = {"auto", "bayesian", "bayesian_poisson", "mixed", "mixed_poisson"}
    assert set(HEADS) - set(GLM_HEADS) == others
    assert all(HEADS[name]().name == name for name in HEADS)


@pytest.mark.parametrize("name", sorted(GLM_HEADS))
def test_a_name_stands_for_the_head_with_its_own_defaults(name):
    made = make_head(name, 4, n_classes=3 if name == "categorical" else None)
    assert eqx.tree_equal(made, GLM_HEADS[name](4))
    assert HEADS[name]() is not HEADS[name]()


def test_names_objects_and_auto():
    assert head_choice("auto") == head_choice("student_t") == heads.GLM()
    assert head_choice("auto", usual="categorical") == Softmax()
    asked = Bayesian(noise=0.5)
    assert head_choice(asked) is asked
    with pytest.raises(ValueError, match=r"Expected a head among .*'poison'. Did you mean 'poi"):
        head_choice("poison")
    with pytest.raises(ValueError, match="noise must be 'auto' or a finite number > 0; got -1.0"):
        head_choice(Bayesian(noise=-1.0))
    with pytest.raises(ValueError, match="family must be a family of diglm.heads; got 'gaussian'"):
        head_choice(heads.GLM().set_params(family="gaussian"))


def test_a_new_head_is_one_entry(monkeypatch):
    class Loud(heads.AbstractHeadChoice):
        def get_params(self, deep=True):
            return {}

        def for_numbers(self, dim, *, n_targets, scale, n_groups):
            return heads.GaussianHead(dim, bias=np.full(1, scale))

    monkeypatch.setitem(HEADS._parts, "loud", Loud)
    assert make_head("loud", 2).bias[0] == 1.0
    with pytest.raises(ValueError, match="predicts numbers; for classes choose another"):
        make_head("loud", 2, n_classes=2)


def test_parameters_are_scikit_learns():
    asked = Mixed(slopes=["age"])
    assert asked.get_params() == {
        "slopes": ["age"],
        "prior_precision": "auto",
        "noise": "auto",
        "inference": "auto",
    }
    assert asked.set_params(noise=2.0) is asked and asked.noise == 2.0
    assert asked.slopes == ["age"] and Bayesian().slopes is None
    with pytest.raises(ValueError, match="Softmax has .*'l2'.*; got 'l1'"):
        Softmax().set_params(l1=1.0)


# What they build


def test_options_reach_the_heads():
    assert numbers(heads.GLM(heads.GaussianFamily(), l2=3.0)).l2.value == 3.0
    assert numbers(heads.GLM(heads.GammaFamily(link="softplus"))).family.link == "softplus"
    assert classes(Softmax(l2=2.0), n_classes=4).l2.value == 2.0
    conjugate = numbers(Bayesian(noise=0.5, prior_precision=2.0), scale=0.1)
    np.testing.assert_allclose(conjugate.noise, 25.0)  # a variance, in units of the head
    np.testing.assert_allclose(conjugate.precision, 2.0)
    both = numbers(Bayesian(noise=0.5), n_targets=2, scale=np.array([1.0, 2.0]))
    np.testing.assert_allclose(both.noise, [0.25, 0.0625])
    assert Bayesian(inference="exact").exact_steps and not Bayesian().exact_steps


@pytest.mark.parametrize(
    ("inference", "method", "columns"),
    [("auto", "elbo", 3), ("elbo-diagonal", "elbo", 0), ("laplace", "laplace", 3)],
)
def test_ways_of_inference(inference, method, columns):
    for head in (
        classes(Bayesian(inference=inference)),
        numbers(BayesianPoisson(inference=inference)),
    ):
        assert head.method == method and head.tilt.shape[-1] == columns
    assert classes(Bayesian(inference="jaakkola")).method == "jaakkola"
    many = classes(Bayesian(), dim=257, n_classes=3)
    assert many.kind == "categorical" and many.tilt.shape[-1] == 0  # too wide for a full covariance


def test_effects_of_groups_and_of_observations():
    assert numbers(Mixed()).has_effects  # without groups: of every single row
    assert not numbers(Mixed()).has_closed_form and numbers(Bayesian()).has_closed_form
    grouped = numbers(Mixed(noise=3.0), scale=2.0, n_groups=5)
    assert (grouped.kind, grouped.n_groups, grouped.noise) == ("gaussian", 5, 2.25)
    assert isinstance(grouped.core, heads.ConjugateHead) and not grouped.core.has_effects
    assert classes(Mixed(), n_groups=5).kind == "binary"
    assert numbers(MixedPoisson(), n_groups=5).kind == "poisson"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: classes(heads.GLM()), "predicts numbers; for classes choose another head"),
        (lambda: numbers(Softmax()), "tells classes apart; for numbers choose another head"),
        (lambda: numbers(heads.GLM(), n_groups=2), "groups belong to head='mixed'"),
        (lambda: classes(Softmax(), n_groups=2), "groups belong to head='mixed'"),
        (lambda: numbers(Bayesian(), n_groups=2), "groups belong to head='mixed'"),
        (lambda: numbers(Mixed(slopes="all")), "needs the group of each row"),
        (lambda: classes(Mixed()), "needs the group of each row"),
        (lambda: numbers(MixedPoisson()), "needs the group of each row"),
        (lambda: classes(Mixed(), n_classes=3, n_groups=2), "for two classes; y has 3"),
        (lambda: classes(Bayesian(inference="jaakkola"), n_classes=3), "two classes; y has 3"),
        (lambda: classes(Bayesian(inference="exact")), "inference for classes must be one of"),
        (lambda: numbers(Bayesian(inference="laplace")), "inference for numbers must be one of"),
    ],
)
def test_what_a_head_cannot_do_is_said(build, message):
    with pytest.raises(ValueError, match=message):
        build()


# Support and unit of the targets


WRONG = {
    "bernoulli": ([0.0, 1.0, 0.5], r"0 or 1; got 0\.5"),
    "poisson": ([0.0, 3.0, -1.0], r"whole numbers y >= 0; got -1\.0"),
    "negative_binomial": ([0.0, 3.5], r"whole numbers y >= 0; got 3\.5"),
    "gamma": ([2.0, 0.0], r"y > 0; got 0\.0"),
    "hurdle": ([2.0, -1.0], r"y >= 0; got -1\.0"),
    "zero_inflated": ([0.0, 3.5], r"whole numbers y >= 0; got 3\.5"),
    "bayesian_poisson": ([0.0, 3.5], r"whole numbers y >= 0; got 3\.5"),
    "mixed_poisson": ([-2.0], r"whole numbers y >= 0; got -2\.0"),
}
RIGHT = {
    "bernoulli": [0.0, 1.0],
    "poisson": [0.0, 7.0],
    "negative_binomial": [0.0, 7.0],
    "gamma": [1e-9, 7.0],
    "hurdle": [0.0, 7.5],
    "zero_inflated": [0.0, 7.0],
    "bayesian_poisson": [0.0, 7.0],
    "mixed_poisson": [0.0, 7.0],
}


@pytest.mark.parametrize("name", sorted(set(HEADS) - {"categorical"}))
def test_targets_outside_the_support_are_named(name):
    choice = HEADS[name]()
    choice.check_support(np.array(RIGHT.get(name, [-1.5, 0.0, 2.0])))
    choice.check_support(np.zeros(0))
    if name in WRONG:
        ys, message = WRONG[name]
        with pytest.raises(ValueError, match=message):
            choice.check_support(np.array(ys))


@pytest.mark.parametrize("name", sorted(set(HEADS) - {"categorical"}))
def test_units_keep_targets_in_the_support(name):
    choice, ys = HEADS[name](), np.array([1.0, 2.0, 6.0])
    location, scale = choice.unit(ys)
    if choice.name in AS_THEY_ARE:
        assert (location, scale) == (0.0, 1.0)
    elif name in ("gamma", "hurdle"):
        assert (location, scale) == (0.0, 3.0)
    else:
        np.testing.assert_allclose([location, scale], [ys.mean(), ys.std()])
    if name not in ("bernoulli", *ANY_NUMBER):
        choice.check_support((ys - location) / scale)
    assert choice.unit(np.zeros(0)) == (0.0, 1.0)
    if name in ANY_NUMBER:
        assert choice.unit(np.full(3, 5.0)) == (5.0, 1.0)  # a constant has no spread


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_family_of_ones_own_class_says_the_same(name):
    family = FAMILIES[name]
    ys = np.array(RIGHT.get(name, [-1.5, 2.0]))
    family.check_support(ys)
    assert family.unit(ys) == heads.GLM(family()).unit(ys)
    bound = family().log_prob_bound(jnp.ones(()))
    assert (bound is None) == (name in (*ANY_NUMBER, "gamma", "hurdle"))
