"""Recipes: their sizes, what they refuse, and that their parameters are theirs."""

import numpy as np
import pytest
from sklearn.base import clone

from diglm import HybridClassifier, HybridRegressor, flows, recipes
from diglm.data.image import ImageEncoder
from diglm.recipes import RECIPES, AskedSizes, CouplingFlow, Glow, Sizes, recipe_of

TINY = dict(n_epochs=2, batch_size=32, random_state=0, verbose=False)


@pytest.mark.parametrize("name", [name for name in RECIPES if RECIPES[name]().layout == "vector"])
def test_every_recipe_for_tables_fits_predicts_and_draws(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    model = HybridRegressor(name, n_blocks=1, width=4, reject=0.1, **TINY).fit(X, X[:, 0])
    assert np.isfinite(model.score_samples(X)).all()
    assert model.sample(3, random_state=0).shape == (3, 2)


def test_sizes_that_are_given_are_kept_and_the_others_chosen():
    asked = AskedSizes(width=12, n_epochs=7)
    sizes = CouplingFlow().sizes(asked, 1000, drops_features=True)
    assert isinstance(sizes, Sizes) and (sizes.width, sizes.n_epochs) == (12, 7)
    assert sizes.n_blocks == 8 and sizes.dropout == 0.1
    assert recipes.PlanarFlow().sizes(AskedSizes(), 1000, drops_features=False).n_blocks == 3


def test_more_rows_have_larger_batches_and_fewer_epochs():
    few, many = (CouplingFlow().sizes(AskedSizes(), n, drops_features=False) for n in (100, 10**6))
    assert few.batch_size < many.batch_size and few.n_epochs > many.n_epochs


def test_a_recipe_for_other_rows_is_refused_with_those_that_fit():
    with pytest.raises(ValueError, match="use 'glow' or a bijection"):
        recipe_of("spline", "image")
    with pytest.raises(
        ValueError, match="'coupling' or 'spline' or 'planar' or 'continuous' or 'residual'"
    ):
        recipe_of(Glow(), "vector")
    with pytest.raises(ValueError, match="Did you mean 'glow'"):
        recipe_of("glo", "image")


def test_auto_is_the_usual_recipe_of_the_layout():
    assert recipe_of("auto", "vector") == CouplingFlow()
    assert recipe_of("auto", "image") == Glow()


def test_a_bijection_is_taken_as_it_is(key):
    own = flows.linear(2, key=key)
    assert recipe_of(own, "vector").bijection is own
    X = np.random.default_rng(0).normal(size=(60, 3))
    with pytest.raises(ValueError, match=r"must map \(3,\) to \(3,\)"):
        HybridRegressor(own, **TINY).fit(X, X[:, 0])


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Glow(reader=0), "reader must be 'auto' or None or a whole number of at least 1; got 0"),
        (Glow(reader="wide"), "reader must be"),
        (Glow(augment=-1), "augment must be 'auto' or a whole number of at least 0; got -1"),
        (Glow(base="normall"), "base must be 'auto' or 'normal' or 'mixture'"),
    ],
)
def test_a_wrong_parameter_of_a_recipe_is_said_at_fit(recipe, message):
    images = np.zeros((40, 8, 8, 1), np.uint8)
    with pytest.raises(ValueError, match=message):
        HybridClassifier(recipe, **TINY).fit(images, np.arange(40) % 2)


def test_images_are_moved_by_less_than_their_size():
    encoder = ImageEncoder.fit(np.zeros((2, 8, 8, 1), np.uint8))
    assert Glow(augment=0).augmentation(encoder) is None
    assert Glow(augment=3).augmentation(encoder).pixels == 3
    with pytest.raises(ValueError, match="smaller than the image"):
        Glow(augment=8).augmentation(encoder)


def test_parameters_of_a_recipe_are_reached_through_the_estimator():
    model = HybridClassifier(Glow(reader=16))
    assert model.get_params()["flow__reader"] == 16
    other = clone(model).set_params(flow__reader=None)
    assert other.flow.reader is None and model.flow.reader == 16
    with pytest.raises(ValueError, match="Glow has"):
        model.set_params(flow__width=3)
