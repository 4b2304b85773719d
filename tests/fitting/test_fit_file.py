"""Fitting from files: as good as fitting the same rows in memory, and clear about what is wrong."""

import gzip
import shutil

import numpy as np
import pandas as pd
import polars as pl
import pytest

from diglm import HybridClassifier, HybridRegressor, load

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N_ROWS, GROUP_ROWS = 2400, 300
FEATURES = ["size", "count", "colour"]
QUICK = dict(n_blocks=2, width=8, depth=1, batch_size=50, random_state=0, verbose=False)


def rows(n: int, seed: int = 0) -> pd.DataFrame:
    """Numbers with gaps, whole numbers and text; a number and a class to predict, some unknown."""
    random = np.random.default_rng(seed)
    size, count = random.normal(size=n), random.poisson(3, n)
    colour = random.choice(["red", "green", "blue"], n)
    shift = np.select([colour == "red", colour == "blue"], [1.6, 0.8], 0.0)
    value = size + 0.4 * count + shift + 0.3 * random.normal(size=n)
    grade = np.select([value < 1.5, value < 2.5], ["low", "middle"], "high").astype(object)
    return pd.DataFrame(
        {
            "size": np.where(random.random(n) < 0.03, np.nan, size),
            "count": count,
            "colour": colour,
            "value": np.where(random.random(n) < 0.1, np.nan, value),
            "grade": np.where(random.random(n) < 0.1, None, grade),
            "weight": random.choice([0.5, 1.0, 2.0], n),
        }
    )


def parquet(frame: pd.DataFrame, path):
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, GROUP_ROWS)
    return path


@pytest.fixture(scope="module", autouse=True)
def short_chunks():
    """Several chunks an epoch, though the table is small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("diglm.fitting.files.CHUNK_ROWS", 500)
        yield


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return rows(N_ROWS)


@pytest.fixture(scope="module")
def unseen() -> pd.DataFrame:
    return rows(600, seed=1).dropna(subset=["value", "grade"])


@pytest.fixture(scope="module")
def table(frame, tmp_path_factory):
    return parquet(frame, tmp_path_factory.mktemp("table") / "rows.parquet")


@pytest.fixture(scope="module")
def regressor(table) -> HybridRegressor:
    return HybridRegressor(head="gaussian", n_epochs=6, **QUICK).fit_file(
        table, "value", features=FEATURES
    )


@pytest.fixture(scope="module")
def classifier(frame, tmp_path_factory) -> HybridClassifier:
    path = tmp_path_factory.mktemp("csv") / "rows.csv.gz"
    with gzip.open(path, "wt") as file:
        frame.drop(columns="value").to_csv(file, index=False)
    model = HybridClassifier(n_epochs=6, class_weight="balanced", **QUICK)
    return model.fit_file(path, "grade", sample_weight="weight")


# What comes out


@pytest.mark.slow
def test_a_regressor_from_a_file_is_as_good_as_one_from_memory(regressor, frame, unseen):
    in_memory = HybridRegressor(head="gaussian", n_epochs=6, **QUICK).fit(
        frame[FEATURES], frame["value"]
    )
    from_file, expected = (
        m.score(unseen[FEATURES], unseen["value"]) for m in (regressor, in_memory)
    )
    assert expected > 0.8
    assert from_file == pytest.approx(expected, abs=0.03)
    np.testing.assert_allclose(
        np.mean(regressor.score_samples(unseen[FEATURES])),
        np.mean(in_memory.score_samples(unseen[FEATURES])),
        atol=0.3,
    )
    assert np.mean(regressor.rejects(unseen[FEATURES])) < 0.05
    assert regressor.rejects(pd.DataFrame({"size": [50.0], "count": [90], "colour": ["red"]})).all()


@pytest.mark.slow
def test_a_classifier_from_a_file_is_as_good_as_one_from_memory(classifier, frame, unseen):
    known = frame.dropna(subset="grade")
    in_memory = HybridClassifier(n_epochs=6, class_weight="balanced", **QUICK).fit(
        known[FEATURES], known["grade"], sample_weight=known["weight"]
    )
    assert list(classifier.classes_) == ["high", "low", "middle"]
    from_file, expected = (
        m.score(unseen[FEATURES], unseen["grade"]) for m in (classifier, in_memory)
    )
    assert expected > 0.7
    assert from_file == pytest.approx(expected, abs=0.04)
    np.testing.assert_allclose(classifier.class_prior_, in_memory.class_prior_, atol=0.02)


def test_what_is_learned_of_a_file_is_told(regressor):
    assert list(regressor.feature_names_in_) == FEATURES
    assert regressor.n_features_in_ == 3
    assert regressor.n_epochs_ == len(regressor.history_) == 6
    assert [record["epoch"] for record in regressor.history_] == list(range(6))
    assert all(np.isfinite(record["val_loss"]) for record in regressor.history_)
    assert 0 <= regressor.wait_seconds_ <= regressor.fit_seconds_


def test_any_container_gives_the_same_answers_by_name(regressor, classifier, unseen):
    some = unseen[FEATURES][:50]
    polars, arrow = pl.from_pandas(some), pa.Table.from_pandas(some, preserve_index=False)
    expected = regressor.predict(some)
    np.testing.assert_array_equal(regressor.predict(polars), expected)
    np.testing.assert_array_equal(regressor.predict(arrow), expected)
    np.testing.assert_array_equal(classifier.predict(polars), classifier.predict(some))
    np.testing.assert_array_equal(classifier.predict(arrow), classifier.predict(some))
    with pytest.raises(ValueError, match="colour"):
        regressor.predict(some.drop(columns="colour"))


def test_a_model_from_a_file_is_saved_and_loaded(regressor, classifier, unseen, tmp_path):
    some = unseen[FEATURES][:50]
    for model in (regressor, classifier):
        model.save(tmp_path / "model")
        again = load(tmp_path / "model")
        np.testing.assert_array_equal(again.predict(some), model.predict(some))
        np.testing.assert_array_equal(again.score_samples(some), model.score_samples(some))
        np.testing.assert_array_equal(again.rejects(some), model.rejects(some))


def test_an_arrow_folder_in_another_container_of_rows_gives_the_same_model(
    regressor, frame, unseen, tmp_path
):
    folder = tmp_path / "parts"
    folder.mkdir()
    for i in range(3):  # the same row groups, in three files
        part = pa.Table.from_pandas(frame[800 * i : 800 * (i + 1)], preserve_index=False)
        with pa.ipc.new_file(folder / f"part-{i}.arrow", part.schema) as file:
            file.write_table(part, max_chunksize=GROUP_ROWS)
    again = HybridRegressor(head="gaussian", n_epochs=6, **QUICK).fit_file(
        folder, "value", features=FEATURES
    )
    some = unseen[FEATURES][:50]
    np.testing.assert_array_equal(again.predict(some), regressor.predict(some))


def test_a_class_seen_once_in_a_large_file_is_known(frame, tmp_path, monkeypatch):
    monkeypatch.setattr("diglm.fitting.files.SAMPLE_ROWS", 200)
    changed = frame.drop(columns="value").replace({"grade": {"middle": "low"}})
    changed["grade"] = changed["grade"].astype(object)
    changed.loc[1234, "grade"] = "once"
    path = parquet(changed, tmp_path / "rare.parquet")
    model = HybridClassifier(n_epochs=1, **QUICK).fit_file(path, "grade", sample_weight="weight")
    assert list(model.classes_) == ["high", "low", "once"]
    assert model.class_prior_[2] > 0


# What is refused


def refused(path, target="value", error=ValueError, *, match, **options):
    model = HybridRegressor(n_epochs=1, **QUICK)
    with pytest.raises(error, match=match):
        model.fit_file(path, target, **options)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_columns_that_cannot_be_what_they_are_asked_to_be(table):
    refused(table, "valeu", match="Did you mean 'value'")
    refused(table, sample_weight="wieght", match="Did you mean 'weight'")
    refused(table, features=["size", "cuont"], match="Did you mean 'count'")
    refused(table, features=["size", "value"], match="'value' is named twice")
    refused(table, features=["size", "size"], match="'size' is named twice")
    refused(table, features=["weight"], sample_weight="weight", match="'weight' is named twice")
    refused(table, features=[], match="No feature is left")
    refused(table, features="size", error=TypeError, match="list of names")
    refused(table, "colour", match="HybridClassifier")
    refused(table, save_every=0, match="save_every")


def test_a_flow_that_is_fitted_exactly_is_sent_to_fit(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"size": random.normal(size=100), "value": random.normal(size=100)})
    path = parquet(frame, tmp_path / "plain.parquet")
    with pytest.raises(ValueError, match=r"use\s+fit\(\)"):
        HybridRegressor(flow="identity", head="gaussian").fit_file(path, "value")


def test_files_without_rows_to_learn_from(tmp_path, frame):
    from diglm.data.files.opening import TableFileError

    empty = parquet(frame[:0], tmp_path / "empty.parquet")
    refused(empty, error=TableFileError, match="holds no rows")
    (tmp_path / "nothing.csv").touch()
    refused(tmp_path / "nothing.csv", error=TableFileError, match="0 bytes")
    refused(tmp_path / "absent.parquet", error=TableFileError, match="does not exist")
    unlabelled = parquet(frame.assign(value=np.nan), tmp_path / "unlabelled.parquet")
    refused(unlabelled, error=TableFileError, match="missing in all 2400 rows")


def test_weights_that_are_none(tmp_path, frame):
    idle = parquet(frame.assign(weight=0.0), tmp_path / "idle.parquet")
    refused(idle, sample_weight="weight", match="No row has a positive weight")
    negative = parquet(frame.assign(weight=-1.0), tmp_path / "negative.parquet")
    refused(negative, sample_weight="weight", match="finite and not negative")


def test_csv_that_breaks_off_or_changes_its_mind(tmp_path, monkeypatch):
    from diglm.data.files import spool
    from diglm.data.files.opening import TableFileError

    monkeypatch.setattr(spool, "BLOCK_BYTES", 200)
    lines = ["size,value", *(f"{i},{i / 2}" for i in range(100))]
    broken = tmp_path / "broken.csv"
    broken.write_text("\n".join([*lines[:60], "1,2,3", *lines[60:]]))
    refused(broken, error=TableFileError, match="expected 2 fields, got 3")
    changing = tmp_path / "changing.csv"
    changing.write_text("\n".join([*lines, "many,1.5"]))
    refused(changing, error=TableFileError, match="column 'size': expected .* found 'many'")


def test_parquet_files_whose_types_differ(tmp_path, frame):
    from diglm.data.files.opening import TableFileError

    parquet(frame[:100], tmp_path / "a.parquet")
    parquet(frame[:100].assign(count="three"), tmp_path / "b.parquet")
    refused(tmp_path, error=TableFileError, match="differs from .* in column 'count'")


def test_a_file_lost_in_training_leaves_the_earlier_model(table, unseen, tmp_path, monkeypatch):
    from diglm.data.files.opening import TableFileError
    from diglm.training import ProgressBar

    folder, some = tmp_path / "rows", unseen[FEATURES][:20]
    folder.mkdir()
    shutil.copy(table, folder)
    model = HybridRegressor(head="gaussian", n_epochs=6, **QUICK)
    model.fit_file(folder, "value", features=FEATURES, shuffle=False)
    kept, predicted = vars(model).copy(), model.predict(some)
    model.save(tmp_path / "model")
    saved = (tmp_path / "model").read_bytes()

    def lose(_, record):
        if record["epoch"] == 1:
            shutil.rmtree(folder, ignore_errors=True)

    monkeypatch.setattr(ProgressBar, "__call__", lose)
    with pytest.raises(TableFileError, match="moved, replaced or cut short"):
        model.fit_file(folder, "value", features=FEATURES, shuffle=False)
    assert vars(model).keys() == kept.keys()
    assert all(vars(model)[name] is kept[name] for name in kept)
    np.testing.assert_array_equal(model.predict(some), predicted)
    assert (tmp_path / "model").read_bytes() == saved
