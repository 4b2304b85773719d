"""Classes: found, read, counted and answered."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diglm.heads import make_head
from diglm.heads.choices import Softmax
from diglm.targets import ClassTarget, as_column
from diglm.targets.base import is_missing, one_a_row

CHOICE = Softmax()


def answered(n=6, n_classes=3):
    """Responses to some rows, and their probabilities."""
    head = make_head("categorical", 2, n_classes=n_classes)
    weight = jnp.asarray(np.random.default_rng(0).normal(size=head.weight.shape))
    head = jax.tree.map(lambda leaf: weight if leaf is head.weight else leaf, head)
    response = jax.vmap(head)(jnp.asarray(np.random.default_rng(1).normal(size=(n, 2))))
    return jax.tree.map(np.asarray, response), np.asarray(jax.nn.softmax(response.logits, axis=1))


def test_classes_are_found_in_sorted_order_and_read_as_positions():
    target = ClassTarget.learn(np.array(["b", "a", "c", "a"]), CHOICE)
    assert target.classes.tolist() == ["a", "b", "c"]
    labels = target.read(np.array(["c", "a"]))
    assert labels.ys.tolist() == [2, 0] and labels.labelled.all() and labels.factors is None
    assert target.strata(labels).tolist() == [2, 0]
    assert target.relation(labels).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert target.in_user_terms(np.array([1, 0])).tolist() == ["b", "a"]
    assert target.in_head_terms(np.array(["b"])).tolist() == [1]
    with pytest.raises(ValueError, match=r"Unknown class 'd'; the model knows \['a', 'b', 'c'\]"):
        target.read(np.array(["d"]))


@pytest.mark.parametrize("y", [[True, False], [1, 0], [1.0, 0.0], ["x", "y"]])
def test_classes_keep_their_type(y):
    target = ClassTarget.learn(np.array(y * 3), CHOICE)
    assert target.classes.dtype == np.array(y).dtype
    assert target.column_types["prediction"] == target.classes.dtype


def test_rows_without_a_label_are_marked_by_a_value_or_by_nothing():
    y = np.array([0, 1, -1, 1])
    target = ClassTarget.learn(y, CHOICE, unlabelled=-1)
    assert target.classes.tolist() == [0, 1]
    labels = target.read(y)
    assert labels.labelled.tolist() == [True, True, False, True]
    assert target.strata(labels).tolist() == [0, 1, -1, 1]
    assert np.isnan(target.relation(labels)[2]).all()
    text = np.array(["a", None, "b", "?"], dtype=object)
    target = ClassTarget.learn(text, CHOICE, unlabelled="?", nulls=True)
    assert target.read(text).labelled.tolist() == [True, False, True, False]
    with pytest.raises(ValueError, match="NaN or None in 1 of 4 rows.*unlabelled="):
        ClassTarget.learn(text, CHOICE)


def test_what_rows_of_a_class_count():
    y = np.array([0] * 6 + [1] * 2)
    balanced = ClassTarget.learn(y, CHOICE, class_weight="balanced")
    labels = balanced.read(y)
    totals = np.bincount(labels.ys, labels.factors)
    assert np.allclose(totals, 4)
    batch = labels.batch(np.zeros((8, 1)), np.full(8, 2.0))
    assert np.allclose(batch.weight, 2 * labels.factors)
    named = ClassTarget.learn(y, CHOICE, class_weight={1: 3.0})
    assert named.factors.tolist() == [1.0, 3.0]
    with pytest.raises(ValueError, match=r"class_weight names 2, but y has the classes \[0, 1\]"):
        ClassTarget.learn(y, CHOICE, class_weight={2: 1.0})
    with pytest.raises(ValueError, match="class_weight must be 'balanced'.*got 'even'"):
        ClassTarget.learn(y, CHOICE, class_weight="even")


def test_frequencies_are_those_of_labelled_rows_by_weight():
    y, weights = np.array([0, 1, 1, -1]), np.array([1.0, 1.0, 2.0, 50.0])
    target = ClassTarget.learn(y, CHOICE, unlabelled=-1).with_marginal(y, weights)
    assert target.shares.tolist() == [0.25, 0.75]


def test_answers_are_the_most_probable_class_and_its_probability():
    target = ClassTarget.learn(np.array(["a", "b", "c"]), CHOICE, unlabelled="?")
    response, probabilities = answered()
    columns = target.columns(response)
    assert tuple(columns) == target.column_names
    best = probabilities.argmax(axis=1)
    assert columns["prediction"].tolist() == target.classes[best].tolist()
    assert np.allclose(columns["probability"], probabilities.max(axis=1))
    y = np.array(["a", "b", "c", "?", "a", "b"])
    log_py = target.log_prob(response, y)
    assert np.isnan(log_py[3]) and np.isclose(log_py[1], np.log(probabilities[1, 1]))
    weights = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 3.0])
    right = (best == [0, 1, 2, 0, 0, 1]).astype(float)
    y = np.array(["a", "b", "c", "a", "a", "b"])
    assert target.skill(response, y, weights) == pytest.approx(np.average(right, weights=weights))
    assert target.reached(np.array(["a", "b"]), np.array(["a", "c"])).tolist() == [True, False]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(5), r"at least two classes to tell apart; y has 1 class \(.*0.0"),
        (np.array([0.5, 1.0, 2.0]), "Unknown label type: continuous.*0.5.*HybridRegressor"),
        (np.array([0.0, np.inf]), "infinity, which names no class"),
        (np.array(["a", 1, "b"], dtype=object), "mixes text and other values such as 1"),
    ],
)
def test_targets_that_are_no_classes(y, message):
    with pytest.raises(ValueError, match=message):
        ClassTarget.learn(y, CHOICE)


def test_a_list_of_numbers_and_text_keeps_both():
    column = as_column([1, "a", None])
    assert column.tolist() == [1, "a", None]
    assert is_missing(column).tolist() == [False, False, True]
    assert as_column([1, 2]).dtype.kind == "i"
    assert is_missing(np.array([1.0, np.nan])).tolist() == [False, True]
    assert is_missing(np.array([1, 2])).tolist() == [False, False]


def test_one_value_or_one_a_row():
    assert one_a_row(3, 2, "y").tolist() == [3, 3]
    assert one_a_row(["a"], 2, "y").tolist() == ["a", "a"]
    assert one_a_row([1, 2], 2, "y").tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"y must be one value or one a row \(3\); got 2 values"):
        one_a_row([1, 2], 3, "y")
