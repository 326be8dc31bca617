"""Leakage: features that tell the answer, and queries that two parts share, are told; honest data are not blamed."""

import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import rankwise as rw
from rankwise.models import storage
from rankwise.quality import leakage
from rankwise.quality import parts as parts_of_data
from tests.refusals import refusal

QUICK: dict[str, Any] = {"rounds": 2, "leaves": 3, "min_documents": 2, "threads": 1}


def frame(seed: int = 0, n_queries: int = 12) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    n = 5 * n_queries
    return pl.DataFrame(
        {
            "qid": np.repeat([f"{seed}-{number}" for number in range(n_queries)], 5),
            "label": draw.integers(0, 3, n),
            "bm25": draw.random(n),
            "price": draw.integers(1, 99, n),
        }
    )


def warned(call: Any, *arguments: Any, **options: Any) -> list[str]:
    """Call something that works, and give what it warns of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call(*arguments, **options)
    return [str(one.message) for one in said]


# --- features --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["position", "Position", "display_position", "rank", "clicks", "is_clicked", "clicked", "label_2", "relevance"],
)
def test_a_name_that_tells_the_answer_or_the_display_is_warned_of(name: str):
    rows = frame().with_columns(pl.Series(name, np.arange(60) % 7))
    (said,) = warned(rw.RankingDataset.from_frame, rows)
    assert said.startswith(f"features whose names suggest the answer, or how documents were displayed: {name}. Hint: ")
    assert f"features=['!{name}']" in said
    assert not warned(rw.RankingDataset.from_frame, rows, features=["!" + name])
    assert not warned(rw.RankingDataset.from_frame, rows, features=["bm25", name])  # it was asked for
    assert warned(rw.RankingDataset.from_frame, rows, features=["!bm25"])  # and here it was not


@pytest.mark.parametrize("name", ["pagerank", "clicks_last_month", "price", "weight", "ctr", "rating", "click_model"])
def test_what_a_search_engine_knows_before_it_ranks_is_not_warned_of(name: str):
    rows = frame().with_columns(pl.Series(name, np.arange(60) % 7))
    assert not warned(rw.RankingDataset.from_frame, rows)


@pytest.mark.parametrize("copied", [pl.col("label"), 7 - 2 * pl.col("label"), (4 * pl.col("label") + 5) % 13])
def test_a_feature_that_is_the_label_in_other_words_is_warned_of(copied: pl.Expr):
    rows = frame().with_columns(gain=copied)
    (said,) = warned(rw.RankingDataset.from_frame, rows)
    assert said.startswith("features with one value for each label: gain. Hint: ")
    one_other = rows.with_columns(gain=pl.when(pl.int_range(60) == 41).then(9).otherwise("gain"))
    assert not warned(rw.RankingDataset.from_frame, one_other)


def test_labels_that_do_not_repeat_have_copies_only_where_both_rise_or_fall():
    draw = np.random.default_rng(0)
    rows = frame().with_columns(label=pl.Series(draw.random(60)), other=pl.Series(draw.random(60)), empty=np.nan)
    assert not warned(rw.RankingDataset.from_frame, rows)
    for copied in (2 * pl.col("label"), 1 - pl.col("label")):
        (said,) = warned(rw.RankingDataset.from_frame, rows.with_columns(gain=copied))
        assert "one value for each label: gain" in said


def test_a_category_for_each_label_is_the_label_in_other_words():
    rows = frame().with_columns(esci=pl.col("label").replace_strict({0: "I", 1: "S", 2: "E"}))
    (said,) = warned(rw.RankingDataset.from_frame, rows, categorical="esci")
    assert "one value for each label: esci" in said


def test_every_way_in_warns_alike(tmp_path):
    rows = frame().with_columns(clicks=np.arange(60) % 7, gain=2 * pl.col("label"))
    rows.write_csv(tmp_path / "rows.csv")
    rows.write_parquet(tmp_path / "rows.parquet")
    expected = warned(rw.RankingDataset.from_frame, rows)
    assert len(expected) == 2
    assert warned(rw.read_csv, tmp_path / "rows.csv") == expected
    assert warned(rw.read_parquet, tmp_path / "rows.parquet") == expected
    assert warned(rw.open_data, tmp_path / "rows.parquet") == expected[:1]
    matrix, labels, qids = rows.drop("qid", "label"), rows["label"].to_numpy(), rows["qid"].to_numpy()
    of_fit = warned(rw.LightGBMRanker(**QUICK).fit, matrix, labels, qid=qids)
    assert [one.partition(". Hint: ")[0] for one in of_fit] == [one.partition(". Hint: ")[0] for one in expected]
    assert all("leave out of X" in one for one in of_fit)


def test_features_without_names_are_never_warned_of(tmp_path):
    labels = np.arange(60) % 3
    data = rw.RankingDataset.from_sizes(np.column_stack([labels, labels]), labels, [5] * 12)
    path = rw.data.write_letor(data, tmp_path / "rows.txt")
    assert not warned(rw.read_letor, path)
    assert not warned(rw.LightGBMRanker(**QUICK).fit, data.features, labels, group=[5] * 12)


# --- queries ---------------------------------------------------------------------------------------------------------


def parts(n_shared: int) -> tuple[rw.RankingDataset, rw.RankingDataset]:
    train, valid = (rw.RankingDataset.from_frame(frame(seed)) for seed in (1, 2))
    return train, rw.concatenate([train.take(slice(0, n_shared)), valid.take(slice(0, 8 - n_shared))])


def told(train: rw.RankingDataset, valid: rw.RankingDataset) -> str:
    return "; ".join(warned(rw.LightGBMRanker(**QUICK).fit, train, valid))


def test_queries_in_training_and_validation_data_are_counted():
    assert told(*parts(0)) == ""
    what = "3 of 8 queries of valid have the features of training queries. 3 of 8 queries of valid have ids of training"
    assert told(*parts(3)).startswith(f"{what} queries, 3 of these with the same features. Hint: ")


def test_ids_and_features_are_compared_separately():
    train, valid = parts(4)
    features = np.array(valid.features)
    features[: valid.offsets[3]] += 1.0
    said = told(train, valid.with_(features=features))
    assert said.startswith(
        "1 of 8 queries of valid have the features of training queries. "
        "4 of 8 queries of valid have ids of training queries, 1 of these with the same features. Hint: "
    )
    renamed = valid.with_(query_ids=[f"other {number}" for number in range(8)])
    assert told(train, renamed).startswith(
        "4 of 8 queries of valid have the features of training queries, 4 of these with other ids. Hint: "
    )


def test_the_order_of_documents_and_of_columns_does_not_matter():
    train, valid = parts(4)
    order = np.concatenate([np.arange(a, b)[::-1] for a, b in zip(valid.offsets, valid.offsets[1:], strict=False)])
    turned = valid.with_(
        features=valid.features[order][:, ::-1],
        labels=valid.labels[order],
        feature_names=["price", "bm25"],
        query_ids=[f"other {number}" for number in range(8)],
    )
    assert told(train, turned).startswith("4 of 8 queries of valid have the features of training queries")


def test_sparse_features_are_compared_as_dense_ones():
    train, valid = parts(4)
    thin, thick = (part.with_(features=sparse.csr_array(part.features)) for part in (train, valid))
    assert told(thin, thick) == told(train, valid) != ""


def test_files_whose_queries_are_numbered_apart_are_no_reason_to_warn():
    one, two, again = (rw.synthetic(n_queries=12, n_docs=6, seed=seed).with_(feature_names=None) for seed in (1, 2, 1))
    assert one.query_ids is not None
    assert told(one, two) == ""
    assert told(one, two.take(slice(0, 5))) == ""
    assert "12 of 12 queries of valid have the features of training queries" in told(one, again)


def test_what_is_cut_from_one_data_set_is_not_compared(monkeypatch):
    whole = rw.synthetic(n_queries=30, n_docs=6, seed=1)
    train, valid = rw.split(whole, (0.6, 0.4), seed=1)
    calls = []

    def count(*_: object, **__: object) -> list[Any]:
        calls.append(1)
        return []

    monkeypatch.setattr(parts_of_data, "shared_queries", count)
    rw.cross_validate(rw.LightGBMRanker(**QUICK), whole, folds=2)
    rw.bagged(rw.LightGBMRanker(**QUICK), 2).fit(whole)
    assert not calls
    fixed = {name: QUICK[name] for name in ("rounds", "min_documents")}
    rw.tune(train, valid, trials=3, space="none", search={"leaves": "whole(3, 5)"}, fixed=fixed, threads=1)
    assert len(calls) == 1
    rw.LightGBMRanker(**QUICK).fit(train, valid)
    assert len(calls) == 2


def test_a_search_tells_once_what_its_parts_share():
    fixed = {"rounds": 2, "min_documents": 2}
    settings: dict[str, Any] = {"space": "none", "search": {"leaves": "whole(3, 5)"}, "fixed": fixed, "threads": 1}
    (said,) = warned(rw.tune, *parts(2), trials=3, **settings)
    assert said.startswith("2 of 8 queries of valid")


# --- training queries ------------------------------------------------------------------------------------------------


def ranker() -> Any:
    return rw.LightGBMRanker(**QUICK)


def first_and_last() -> tuple[rw.RankingDataset, rw.RankingDataset, rw.RankingDataset]:
    whole = rw.synthetic(n_queries=30, n_docs=8, seed=1)
    return whole, whole.take(slice(0, 12)), whole.take(slice(12, 24))


def continued(first: rw.RankingDataset, last: rw.RankingDataset) -> Any:
    return ranker().fit(last, init_model=ranker().fit(first))


def taught(first: rw.RankingDataset, last: rw.RankingDataset) -> Any:
    return rw.distilled(ranker().fit(first), ranker()).fit(last)


def calibrated(first: rw.RankingDataset, last: rw.RankingDataset) -> Any:
    return rw.calibrate(rw.LightGBMRanker(**QUICK | {"rounds": 20}).fit(first), last)


def searched(first: rw.RankingDataset, last: rw.RankingDataset) -> Any:
    return rw.AutoRanker(minutes=None, recipes=[ranker()], folds=2, progress=False).fit(first, last)


@pytest.mark.parametrize("train", [continued, taught, calibrated, searched])
def test_a_model_made_of_others_has_seen_what_they_saw(train: Any, tmp_path):
    whole, first, last = first_and_last()
    model = train(first, last)
    for one in (model, rw.load(model.save(tmp_path / "model"))):
        np.testing.assert_array_equal(one.seen_in_training(whole), np.arange(30) < 24)


def test_models_trained_on_targets_recognise_queries_of_the_log_by_their_ids(tmp_path):
    _, first, last = first_and_last()
    rewards = first.with_(document_rewards=first.labels, query_ids=np.arange(100, 112))
    trained: Any = rw.LightGBMRanker("plrank(samples=2)", **QUICK).fit(rewards)
    model: Any
    for model in (trained, rw.load(trained.save(tmp_path / "model"))):
        assert model.seen_in_training(["100", "12", "111"]).tolist() == [True, False, True]  # 100 and "100" are alike
        assert model.seen_in_training(first).all()
        assert not model.seen_in_training(last).any()
    both: Any = rw.blended([rw.LightGBMRanker("plrank(samples=2)", **QUICK), 0], folds=2).fit(rewards)
    assert both.seen_in_training(range(100, 112)).all()


def test_hashes_of_sparse_features_look_at_stored_values_alone(monkeypatch):
    monkeypatch.setattr(leakage, "dense", None)  # a wide matrix would be too large
    matrix = sparse.random(60, 9, density=0.2, format="csr", dtype=np.float32, random_state=0)
    matrix.data[:3] = np.nan, -0.0, 0.0
    for few in (matrix, sparse.csr_array((60, 9), dtype=np.float32)):
        thin, thick = (rw.RankingDataset(one, np.zeros(60), [0, 60]) for one in (few, few.toarray()))
        assert leakage.document_hashes(thin).tolist() == leakage.document_hashes(thick).tolist()


def test_training_queries_are_hashed_once(monkeypatch):
    calls: list[int] = []
    hashes = leakage.document_hashes

    def counted(data: rw.RankingDataset) -> Any:
        calls.append(data.n_queries)
        return hashes(data)

    monkeypatch.setattr(leakage, "document_hashes", counted)
    _, train, valid = first_and_last()
    ranker().fit(train, valid)
    assert calls == [12, 12]


def test_what_cannot_be_known_is_none(tmp_path):
    whole, train, _ = first_and_last()
    trained = ranker().fit(train)
    on_disk = rw.open_data(rw.data.write_parquet(train, tmp_path / "data.parquet"))
    foreign, stored = rw.wrap(trained.model_.booster), ranker().fit(on_disk)
    for model in (foreign, stored, ranker().fit(train, init_model=stored)):
        assert model.trained_queries_ is None
        assert model.seen_in_training(whole) is None
        assert rw.load(model.save(tmp_path / "model", force=True)).trained_queries_ is None
    assert trained.seen_in_training(on_disk) is None


@pytest.mark.parametrize("content", [b"1234567", np.array([2, 1], "<u8").tobytes(), np.array([2, 2], "<u8").tobytes()])
def test_forged_hashes_of_training_queries_are_refused(content: bytes, tmp_path):
    model = ranker().fit(first_and_last()[1])
    description, files = model.saved()
    storage.write(tmp_path / "odd", description, files | {"training_queries.bin": content})
    with refusal(what="the model is damaged", got="hashes of training queries that are not sorted"):
        rw.load(tmp_path / "odd")
