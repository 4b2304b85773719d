"""Labelled rows in every batch: how many, how often, and what they count."""

import numpy as np
import pytest

from diglm.data.chunks import ArrayPlan
from diglm.data.mixing import LABELLED_SHARE, Mixing, in_turn
from diglm.objectives import JointObjective
from diglm.training.loop import epochs
from diglm.training.settings import Settings
from diglm.types import Batch


def rows_of(n=200, n_labelled=6):
    rng = np.random.default_rng(0)
    labelled = np.zeros(n, bool)
    labelled[rng.choice(n, n_labelled, replace=False)] = True
    return Batch(rng.normal(size=(n, 2)), labelled.astype(np.int32), labelled, np.ones(n))


def test_rows_are_kept_apart_only_where_few_have_a_label():
    assert Mixing.of(0, 100, 32) == Mixing.of(100, 0, 32) == Mixing(0, 32)
    assert Mixing.of(30, 70, 32) == Mixing(0, 32)
    few = Mixing.of(6, 94, 32)
    assert (few.n_labelled, few.n_others, few.batch_size) == (8, 24, 32)
    assert few.repeats == pytest.approx((8 / 6) / (24 / 94))
    assert Mixing.of(6, 94, 60, multiple=8).n_labelled == 16
    places = few.places()
    assert len(np.unique(places)) == 8 and np.all(np.diff(places) == 4)


def test_labelled_rows_come_in_turn():
    rng = np.random.default_rng(0)
    turns = in_turn(np.arange(5), 12, rng)
    assert sorted(turns[:5]) == sorted(turns[5:10]) == list(range(5)) and len(turns) == 12


@pytest.mark.parametrize("way", ["memory", "chunks"])
def test_each_batch_holds_labels_each_row_passes_once_and_all_count_alike(way):
    rows = rows_of()
    if way == "memory":
        common, turns = epochs(_Plain(), rows, JointObjective(), None, Settings(batch_size=32), 0)
        turn = next(turns)[1]
        order = np.asarray(turn.order)[: int(turn.n_steps) * 32].reshape(-1, 32)
        weight = np.asarray(common.rows.weight)
    else:
        plan = ArrayPlan(rows, 32, 3, 0)
        order = plan._order(0)
        weight = plan.mixture.counted(rows.weight, rows.labelled)
        with plan.read(shards=range(32), stop_epoch=1) as chunks:
            chunk = next(chunks)
        assert np.array_equal(chunk.rows.x, rows.x[order[:3]])
        assert np.allclose(chunk.rows.weight, weight[order[:3]])
        again = ArrayPlan(rows, 32, 3, 0)
        assert np.array_equal(again._order(1), plan._order(1))
        assert not np.array_equal(plan._order(0), plan._order(1))
    labels = rows.labelled[order].sum(axis=1)
    assert np.all(labels == round(LABELLED_SHARE * 32))
    others = order[~rows.labelled[order]]
    times = np.bincount(others, minlength=200)[~rows.labelled]
    assert np.sum(times == 0) <= 24 and np.max(times) <= 2
    # What is averaged over a batch is as much of labelled rows as there are of them.
    share = np.sum(weight[order] * rows.labelled[order]) / np.sum(weight[order])
    assert share == pytest.approx(6 / 200, rel=1e-6)


class _Flow:
    class bijection:
        in_shape = (2,)


class _Plain:
    """What `epochs` asks of a model before anything is trained."""

    completion, flow = None, _Flow


def test_with_all_labels_the_order_is_what_it_always_was():
    rows = rows_of(n_labelled=200)
    rng = np.random.default_rng(5)
    common, turns = epochs(_Plain(), rows, JointObjective(), None, Settings(batch_size=32), 5)
    turn = next(turns)[1]
    expected = np.resize(rng.permutation(np.arange(200)), 7 * 32)
    assert np.array_equal(np.asarray(turn.order)[: 7 * 32], expected)
    assert np.all(np.asarray(common.rows.weight)[:200] == 1)
