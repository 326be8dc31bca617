"""Categories go by their values: in tables, on disk, in models and in files, whatever order a table lists them in."""

import gc
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import rankwise as rw
from rankwise.data.io.disk import mapped as disk
from rankwise.models.schema import Schema
from tests.refusals import refusal, refuses

# A colour tells the label here, so that it shows whether a model knows colours.
pytestmark = pytest.mark.filterwarnings("ignore:features with one value for each label")

TREES = (rw.LightGBMRanker, rw.XGBoostRanker, rw.CatBoostRanker)
SMALL: dict[str, Any] = {"rounds": 8, "leaves": 8, "min_documents": 2, "threads": 1, "learning_rate": 0.3}
# LightGBM's defaults want a hundred documents of a category.
OWN: dict[Any, dict[str, Any]] = {rw.LightGBMRanker: {"min_data_per_group": 1, "cat_smooth": 1.0}}
WORTH = {"red": 0, "green": 3, "blue": 1, "grey": 2}
COLOURS = list(WORTH)


def ranker(kind, **changes):
    return kind("xendcg", **SMALL | OWN.get(kind, {}) | changes)


def rows(n_queries=30, seed=0):
    """Documents whose relevance is told by their colour, and by nothing else."""
    draw = np.random.default_rng(seed)
    colours = draw.choice(COLOURS, (n_queries, 8))
    return pl.DataFrame(
        {
            "qid": np.repeat([f"q{seed}-{n}" for n in range(n_queries)], 8),
            "label": [WORTH[colour] for colour in colours.ravel().tolist()],
            "noise": draw.normal(size=n_queries * 8).astype(np.float32),
            "colour": colours.ravel().tolist(),
        }
    )


def enum(frame, order):
    return frame.with_columns(pl.col("colour").cast(pl.Enum(order)))


def pandas(frame, order, values=None):
    found = frame.to_pandas()
    column = found["colour"] if values is None else found["colour"].map(dict(zip(COLOURS, values, strict=True)))
    found["colour"] = pd.Categorical(column, categories=order)
    return found


FORMS = {
    "an Enum in another order": lambda frame: enum(frame, COLOURS[::-1]),
    "an Enum with more": lambda frame: enum(frame, ["violet", *COLOURS]),
    "pandas in another order": lambda frame: pandas(frame, COLOURS[::-1]),
    "pandas with those that occur": lambda frame: pandas(frame, None),
    "a Categorical": lambda frame: frame.with_columns(pl.col("colour").cast(pl.Categorical)),
    "text": lambda frame: frame,
    "Arrow": lambda frame: enum(frame, COLOURS[::-1]).to_arrow(),
}


@pytest.fixture(scope="module")
def train():
    return rw.RankingDataset.from_frame(enum(rows(), COLOURS))


@pytest.fixture(scope="module", params=TREES, ids=lambda kind: kind.__name__)
def model(request, train):
    return ranker(request.param).fit(train)


def test_the_models_learn_what_colours_mean(model):
    test = rw.RankingDataset.from_frame(enum(rows(seed=1), COLOURS))
    assert rw.evaluate(model, test, ["ndcg@10"]).mean["ndcg@10"] > 0.98
    assert model.categories_ == {"colour": tuple(COLOURS)}


@pytest.mark.parametrize("form", FORMS)
def test_categories_are_found_by_value_in_every_table(model, form):
    frame = rows(seed=1)
    expected = model.predict(rw.RankingDataset.from_frame(enum(frame, COLOURS)))
    other = FORMS[form](frame)
    np.testing.assert_array_equal(model.predict(other), expected)
    np.testing.assert_array_equal(model.scorer()(other), expected)
    np.testing.assert_array_equal(model.rank(other)["score"].sort(), np.sort(expected))
    assert model.score(other) > 0.98
    data = rw.RankingDataset.from_frame(other, categorical=["colour"])
    np.testing.assert_array_equal(model.predict(data), expected)
    np.testing.assert_allclose(model.explain(data).sum(axis=1), expected, atol=1e-5)
    assert rw.evaluate(model, data, ["ndcg@10"]).mean["ndcg@10"] > 0.98


def test_a_saved_model_knows_its_categories(model, tmp_path):
    path = model.save(tmp_path / "model")
    assert json.loads((path / "rankwise.json").read_text())["features"]["categories"] == {"1": COLOURS}
    few = rows(seed=1).filter(pl.col("colour").is_in(["blue", "green"]))
    few.write_parquet(tmp_path / "few.parquet")
    code = (
        "import polars as pl, rankwise as rw, sys\n"
        "frame = pl.read_parquet(sys.argv[2]).with_columns(pl.col('colour').cast(pl.Enum(['blue', 'green'])))\n"
        "print(*rw.load(sys.argv[1]).predict(frame).tolist())"
    )
    run = [sys.executable, "-c", code, str(path), str(tmp_path / "few.parquet")]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    expected = model.predict(rw.RankingDataset.from_frame(enum(few, COLOURS)))
    np.testing.assert_array_equal(np.array(printed.split(), float), expected)
    green = (few["colour"] == "green").to_numpy()
    assert expected[green].min() > expected[~green].max()


def test_a_value_that_training_did_not_see_is_missing(model):
    frame = rows(n_queries=2, seed=3).with_columns(colour=pl.lit("violet"))
    missing = frame.with_columns(colour=pl.lit(None, pl.String))
    np.testing.assert_array_equal(model.predict(frame), model.predict(missing))
    mixed = frame.with_columns(colour=pl.when(pl.col("noise") > 0).then(pl.lit("red")).otherwise(pl.col("colour")))
    codes = np.where(frame["noise"].to_numpy() > 0, np.float32(0), np.float32(np.nan))
    expected = model.predict(np.column_stack([frame["noise"].to_numpy(), codes]).astype(np.float32))
    np.testing.assert_array_equal(model.predict(mixed), expected)


def test_codes_of_another_list_become_missing_where_the_value_is_not_in_it_and_stay_missing(train, model):
    # A data set that was made beforehand has its own codes, which are translated; a table is matched when it is read.
    frame = rows(n_queries=2, seed=3)
    part = frame.with_columns(
        colour=pl.when(pl.col("noise") > 0.5)
        .then(pl.lit("violet"))
        .when(pl.col("noise") < 0)
        .then(None)
        .otherwise("colour")
    )
    ready = rw.RankingDataset.from_frame(enum(part, ["violet", *COLOURS[::-1]]))
    assert np.isnan(ready.features[:, 1]).any()
    kept = (part["colour"].is_in(COLOURS)).fill_null(False).to_numpy()
    codes = np.where(kept, frame["colour"].replace_strict(COLOURS, [0.0, 1.0, 2.0, 3.0]).to_numpy(), np.nan)
    plain = np.column_stack([part["noise"].to_numpy(), codes]).astype(np.float32)
    np.testing.assert_array_equal(model.predict(ready), model.predict(plain))


@pytest.mark.parametrize("kind", TREES)
def test_validation_data_are_matched_by_value(kind, train):
    held_out = rows(seed=1)
    right = ranker(kind).fit(train, rw.RankingDataset.from_frame(enum(held_out, COLOURS)))
    other = rw.RankingDataset.from_frame(enum(held_out, COLOURS[::-1]).select("qid", "label", "colour", "noise"))
    found = ranker(kind).fit(train, other)
    assert found.history_ == right.history_
    assert max(found.history_["ndcg@10"]) > 0.98


@pytest.mark.parametrize("kind", TREES)
def test_numbers_as_categories_go_by_value_too(kind, tmp_path):
    values = [40, 10, 30, 20]
    model = ranker(kind).fit(rw.RankingDataset.from_frame(pandas(rows(), values, values)))
    assert model.categories_ == {"colour": tuple(values)}
    frame = pandas(rows(seed=1), sorted(values), values)
    expected = model.predict(pandas(rows(seed=1), values, values))
    assert model.score(frame) > 0.98
    for form in (
        frame,
        frame.assign(colour=frame["colour"].astype(int)),
        frame.assign(colour=frame["colour"].astype(float)),
    ):
        np.testing.assert_array_equal(model.predict(form), expected)
    stored = rw.data.write_parquet(rw.RankingDataset.from_frame(frame), tmp_path / "numbers.parquet")
    np.testing.assert_array_equal(model.predict(rw.read_parquet(stored)), expected)
    np.testing.assert_array_equal(model.predict(rw.open_data(stored)), expected)
    plain = rw.RankingDataset.from_frame(frame.assign(colour=frame["colour"].astype(int)))
    with refusal(what="…went by the values of categories, and these data have plain numbers", where="column 'colour…"):
        model.predict(plain)
    with refusal(what="a column whose categories are numbers must hold numbers", got="String…first category is 40"):
        model.predict(rows(seed=1))


@pytest.mark.parametrize("kind", TREES)
def test_plain_codes_stay_codes_and_do_not_mix_with_values(kind):
    coded = rows().with_columns(colour=pl.col("colour").replace_strict(COLOURS, range(4), return_dtype=pl.Int64))
    data = rw.RankingDataset.from_frame(coded, categorical=["colour"])
    assert data.categories == {}
    model = ranker(kind).fit(data)
    assert model.categories_ == {}
    assert model.score(coded) > 0.98  # a table of plain numbers
    np.testing.assert_array_equal(model.predict(data.features), model.predict(data))
    with refusal(what="…knew only codes of categories…", got="'red', 'green' …", where="column 'colour'"):
        model.predict(enum(rows(), COLOURS))
    with refusal(what="training knew only codes of categories, and these data have values"):
        ranker(kind).fit(data, rw.RankingDataset.from_frame(enum(rows(seed=1), COLOURS)))
    numbers = ranker(kind).fit(rw.RankingDataset.from_frame(coded))
    with refusal(what="training knew only numbers, and these data have categories", got="'red'…"):
        numbers.predict(enum(rows(), COLOURS))


def test_a_matrix_holds_codes_of_the_models_list(model, train):
    np.testing.assert_array_equal(model.predict(np.asarray(train.features)), model.predict(train))
    without_names = rw.RankingDataset(train.features, train.labels, train.offsets)
    np.testing.assert_array_equal(model.predict(without_names), model.predict(train))
    with refusal(what="…plain numbers", where="column 'colour'", hint="build them from a table…"):
        model.predict(train.with_(categorical=()))


BAD_CODES = (1.2, np.inf, -np.inf, 2.0**25)


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("code", [*BAD_CODES, -3.0])
@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_invalid_codes_are_rejected_in_training_and_scoring(kind, code, train):
    if kind is rw.CatBoostRanker and code == -3.0:
        pytest.skip("CatBoost takes negative codes")
    plain = train.with_(categories={})
    features = np.array(plain.features)
    features[5, 1] = code
    message = "codes of a categorical column must be whole numbers.*at row 5, column 1"
    with pytest.raises(ValueError, match=message):
        ranker(kind).fit(plain.with_(features=features))
    with pytest.raises(ValueError, match=message):
        ranker(kind).fit(plain, plain.with_(features=features))
    model = ranker(kind, rounds=1).fit(plain)
    for score in (model.predict, model.scorer(), model.explain):
        with pytest.raises(ValueError, match=message):
            score(features)
    with pytest.raises(ValueError, match=message):
        model.predict(plain.with_(features=features))


def test_a_code_beyond_the_list_is_rejected(model, train):
    features = np.array(train.features)
    features[3, 1] = 4
    refuses(lambda: model.predict(features), what="…below its 4 categories", got="4", where="row 3, column 1")
    refuses(lambda: ranker(type(model)).fit(train.with_(features=features)), what="…below its 4 categories", got="4")
    other = train.with_(features=features, categories={1: COLOURS[::-1]})
    with refusal(what="a code must be one of the 4 categories", got="4", where="column 'colour'"):
        model.predict(other)


@pytest.mark.parametrize("kind", [rw.LightGBMRanker, rw.XGBoostRanker])
def test_a_model_is_continued_in_its_own_columns_and_categories(kind):
    first, second = rows(), rows(seed=2)
    new = second.with_columns(
        pl.when(pl.col("colour") == "grey").then(pl.lit("violet")).otherwise("colour").alias("colour")
    )
    order = ["violet", "blue", "green", "red"]
    one = ranker(kind).fit(rw.RankingDataset.from_frame(enum(first, COLOURS)))
    more = ranker(kind).fit(
        rw.RankingDataset.from_frame(enum(new, order).select("qid", "label", "colour", "noise")), init_model=one
    )
    assert more.categories_ == {"colour": (*COLOURS, "violet")}
    assert more.feature_names_in_.tolist() == ["noise", "colour"]
    again = ranker(kind).fit(rw.RankingDataset.from_frame(enum(new, [*COLOURS, "violet"])), init_model=one)
    np.testing.assert_array_equal(more.predict(new), again.predict(new))
    np.testing.assert_array_equal(more.model_.cut(SMALL["rounds"]).scores(one.model_.matrix(first)), one.predict(first))


def test_resuming_needs_the_same_categories(train, tmp_path):
    kept = {"checkpoint": tmp_path / "kept", "checkpoint_every": 2}
    ranker(rw.LightGBMRanker, rounds=4, **kept).fit(train)
    assert rw.load(tmp_path / "kept").categories_ == {"colour": tuple(COLOURS)}
    with refusal(what="the checkpoint belongs to another training (data: train differs)"):
        ranker(rw.LightGBMRanker, rounds=6, **kept).fit(train.with_(categories={1: COLOURS[::-1]}), resume=True)
    ranker(rw.LightGBMRanker, rounds=6, **kept).fit(train, resume=True)


def test_arguments_of_scikit_learn_match_categories_by_value():
    first, second = pandas(rows(), COLOURS), pandas(rows(seed=1), COLOURS[::-1])
    columns = ["noise", "colour"]
    model = ranker(rw.LightGBMRanker).fit(
        first[columns], first["label"], qid=first["qid"], valid=(second[columns], second["label"], second["qid"])
    )
    assert max(model.history_["ndcg@10"]) > 0.98
    assert model.score(second[columns], second["label"], qid=second["qid"]) > 0.98


def test_nets_refuse_categories_in_training_and_scoring(train):
    pytest.importorskip("torch")
    settings: Any = {"epochs": 1, "hidden": (4,), "device": "cpu", "threads": 1}
    with refusal(what="NeuralRanker takes numbers, and no categories"):
        rw.NeuralRanker("softmax_ce", **settings).fit(train)
    net = rw.NeuralRanker("softmax_ce", **settings).fit(train.with_(categorical=()))
    refuses(lambda: net.predict(train), what="training knew only numbers, and these data have categories")


def test_a_search_matches_validation_data_by_value(train):
    pytest.importorskip("optuna")
    other = rw.RankingDataset.from_frame(enum(rows(seed=1), COLOURS[::-1]))
    fixed = {
        name: value
        for name, value in (SMALL | OWN[rw.LightGBMRanker]).items()
        if name not in ("threads", "learning_rate")
    }
    found = rw.tune(
        train,
        other,
        "xendcg",
        trials=1,
        space="none",
        search={"learning_rate": "log(0.2, 0.4)"},
        fixed=fixed,
        progress=False,
    )
    assert found.value > 0.98


# Data sets.


def test_parts_keep_their_categories(train):
    for part in (*rw.split(train, (0.5, 0.5)), train.take([3, 1]), next(iter(rw.folds(train, 3)))[1]):
        assert part.categories == {1: tuple(COLOURS)}
    assert rw.clicks.simulate_clicks(train).categories == {1: tuple(COLOURS)}
    assert train.with_(categorical=()).categories == {}


def test_joining_matches_categories_by_value(train):
    other = rw.RankingDataset.from_frame(enum(rows(seed=1), ["violet", *COLOURS[::-1]]))
    both = rw.concatenate([train, other])
    assert both.categories == {1: (*COLOURS, "violet")}
    assert rw.data.to_frame(both)["colour"].to_list() == [*rows()["colour"], *rows(seed=1)["colour"]]
    with refusal(what="data sets to be joined must all know their categories, or none", where="column 'colour'"):
        rw.concatenate([train, other.with_(categories={})])
    numbers = rw.RankingDataset.from_frame(pandas(rows(seed=1), [1, 2, 3, 4], [1, 2, 3, 4]))
    with refusal(what="…must be text on both sides, or numbers on both", got="'red' and 1", where="column 'colour…"):
        rw.concatenate([train, numbers])


def test_categories_are_checked():
    features, lists = [[0.0], [1.0]], ([1, 0], [0, 2])
    data = rw.RankingDataset(features, *lists, categorical=[0], categories={0: ["b", "a"]})
    assert data.categories == {0: ("b", "a")}
    for categories, message in (
        ({0: ["a", "a"]}, "categories must all be different: got 'a' again at column 0"),
        ({1: ["a"]}, "categories belong to categorical columns: got those of column 1"),
    ):
        with pytest.raises(ValueError, match=message):
            rw.RankingDataset(features, *lists, categorical=[0], categories=categories)
    beyond = rw.RankingDataset([[0.0], [7.0]], *lists, categorical=[0], categories={0: ["b", "a"]})
    with refusal(what="a code must be one of the 2 categories", got="7", where="column 'f1'"):
        rw.data.to_frame(beyond)


@pytest.mark.parametrize("form", FORMS)
def test_parquet_keeps_categories(form, tmp_path):
    data = rw.RankingDataset.from_frame(FORMS[form](rows()), categorical=["colour"])
    stored = rw.data.write_parquet(data, tmp_path / "rows.parquet")
    for read in (rw.read_parquet(stored), rw.open_data(stored), rw.open_data(stored)):
        assert read.categories == data.categories
        assert read.categorical == (1,)
        np.testing.assert_array_equal(read.features, data.features)
    assert pl.read_parquet(stored)["colour"].to_list() == rows()["colour"].to_list()
    chosen = rw.read_parquet(stored, features=["colour"], label="label")
    assert chosen.categories == {0: data.categories[1]}


def test_files_that_list_different_categories_are_put_together(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "BLOCK", 4 * 2 * 50)
    one, two = rows(), rows(seed=1).filter(pl.col("colour") != "red")
    enum(one, COLOURS).write_parquet(tmp_path / "1.parquet")
    enum(two, ["grey", "violet", "blue", "green"]).write_parquet(tmp_path / "2.parquet")
    for data in (rw.read_parquet(tmp_path), rw.open_data(tmp_path)):
        assert data.categories == {1: (*COLOURS, "violet")}
        assert rw.data.to_frame(data)["colour"].to_list() == [*one["colour"], *two["colour"]]
    two.write_parquet(tmp_path / "2.parquet")
    mixed = rw.read_parquet(tmp_path)
    assert mixed.categories == {1: tuple(sorted(COLOURS))}
    for name, part in (("1", one), ("2", two)):
        values = [40, 10, 30, 20]
        part = pandas(part, values if name == "1" else values[1:], values)
        rw.data.write_parquet(rw.RankingDataset.from_frame(part), tmp_path / f"{name}.parquet", force=True)
    assert rw.read_parquet(tmp_path).categories == {1: (40, 10, 30, 20)}


def test_wanted_lists_leave_other_values_missing():
    data = rw.RankingDataset.from_frame(rows(), categories={"colour": ["blue", "red"]})
    assert data.categories == {1: ("blue", "red")}
    expected = rows()["colour"].replace_strict(["blue", "red"], [0.0, 1.0], default=np.nan)
    np.testing.assert_array_equal(data.features[:, 1], expected.to_numpy())
    with refusal(what="a categorical column must be one of the features", got="'size'"):
        rw.RankingDataset.from_frame(rows(), categories={"size": ["s"]})
    with refusal(what="a feature must be a column of numbers", got="String in column 'colour'", hint="name…"):
        rw.RankingDataset.from_frame(rows())


@pytest.mark.parametrize("kind", [rw.LightGBMRanker, rw.XGBoostRanker])
def test_features_on_disk_are_matched_by_value_and_stay_there(kind, train, tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "BLOCK", 4 * 2 * 50)
    frame = rows(seed=1)
    enum(frame, COLOURS[::-1]).write_parquet(tmp_path / "rows.parquet")
    opened = rw.open_data(tmp_path / "rows.parquet")
    model = ranker(kind).fit(train, opened)
    assert max(model.history_["ndcg@10"]) > 0.98
    np.testing.assert_array_equal(model.predict(opened), model.predict(enum(frame, COLOURS)))
    aligned = model.model_.schema.align(opened)
    file = disk.MappedRows.of(aligned.features)
    assert file is not None
    assert "features on disk" in repr(aligned)
    folder = tmp_path / ".rankwise-cache"
    gc.collect()  # of what the library had of them
    assert len(list(folder.rglob("rankwise-*"))) == 1
    del aligned, file
    assert not list(folder.rglob("rankwise-*"))


def test_ids_of_pandas_categories_are_their_values():
    frame = pandas(rows(), COLOURS)
    frame["qid"] = frame["qid"].astype("category").cat.reorder_categories(sorted(set(frame["qid"]), reverse=True))
    ids: Any = rw.RankingDataset.from_frame(frame).query_ids
    assert ids.tolist() == rows()["qid"].unique(maintain_order=True).to_list()


@pytest.mark.parametrize(
    "change",
    [
        {"count": -1},
        {"names": ["one"]},
        {"categorical": [7]},
        {"categories": {"0": ["a"]}},  # of a column that is not categorical
        {"categories": {"one": ["a"]}},
        {"categories": {"1": ["a", "a"]}},
    ],
    ids=str,
)
def test_the_description_of_columns_in_a_model_file_is_checked(change, train):
    written = Schema.of(train).to_dict()
    assert Schema.read(written) == Schema.of(train)
    with pytest.raises(ValueError):
        Schema.read(written | change)
