"""RankingDataset: what it accepts, what it refuses and in which words, and what stays shared in memory."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankwise as rw
from rankwise import RankingDataset, concatenate
from rankwise.data.summary import summary
from tests.refusals import refusal, refuses

FEATURES = np.arange(12, dtype=np.float32).reshape(6, 2)
LABELS = np.array([0.0, 1.0, 2.0, 0.0, 0.0, 4.0])
OFFSETS = np.array([0, 2, 3, 6])


def make(**changes):
    columns: dict[str, Any] = {"features": FEATURES, "labels": LABELS, "offsets": OFFSETS, "query_ids": ["a", "b", "c"]}
    return RankingDataset(**(columns | changes))


def everything():
    return make(
        weights=[1.0, 2.0, 0.0],
        document_ids=["d0", "d1", "d2", "d3", "d4", "d5"],
        feature_names=("one", "two"),
        categorical=(1,),
        propensities=[1.0, 0.5, 1.0, 1.0, 0.5, 0.25],
        positions=[1, 2, 1, 1, 2, 3],
    )


def changed(position, value):
    labels = LABELS.copy()
    labels[position] = value
    return {"labels": labels}


REFUSED: list[tuple[dict, str]] = [
    ({"features": LABELS}, r"features must be a matrix of numbers, one row per document: got shape \(6,\) of float64"),
    ({"features": LABELS}, r"Hint: reshape one feature to a column with \[:, None\]"),
    ({"features": [["x"]] * 6}, "features must be a matrix of numbers.* of <U1.*encode text as category codes"),
    ({"offsets": [[0, 6]]}, r"offsets must be a one-dimensional array of integers, one more.*: got shape \(1, 2\)"),
    ({"offsets": [0.0, 6.0]}, "offsets must be a one-dim.*got .*float64. Hint: pass the row where each query starts"),
    ({"offsets": np.array([], int)}, r"offsets must be a one-dimensional array of integers.*shape \(0,\)"),
    ({"offsets": [1, 2, 3, 6]}, "offsets must cover every row: begin with 0 and end with the number of rows"),
    ({"offsets": [1, 2, 3, 6]}, "got 1 to 6 for 6 rows. Hint: pass cumulative counts"),
    ({"offsets": [0, 2, 3, 5]}, "offsets must cover every row.*got 0 to 5 for 6 rows"),
    ({"offsets": [2, 1, 3]}, "offsets must cover every row.*got 2 to 3 for 6 rows.*from_sizes"),
    (
        {"offsets": [0, 2, 2, 6]},
        "every query needs at least one document: got 0 documents at query number 1. Hint: leav",
    ),
    ({"offsets": [0, 4, 3, 6]}, "every query needs at least one document: got -1 documents at query number 1"),
    ({"labels": [0, 1]}, r"labels must be one number per document: got shape \(2,\) of int64 for 6 documents"),
    ({"labels": list("abcdef")}, "labels must be one number per document.*<U1"),
    ({"labels": None}, "labels must be one number per document: got None. Hint: give documents that nobody judged"),
    (
        changed(4, np.nan),
        r"labels must be finite: got nan at row 4 \(query 'c'\). Hint: give every document a grade of 0",
    ),
    (changed(2, np.inf), r"labels must be finite: got inf at row 2 \(query 'b'\)"),
    (
        changed(1, -1),
        r"labels must be at least 0: got -1 at row 1 \(query 'a'\). Hint: .*qrels use -1 for 'not judged'",
    ),
    (changed(5, -2) | {"query_ids": None}, r"labels must be at least 0: got -2 at row 5 \(query number 2\)"),
    ({"query_ids": ["a"]}, r"query ids must be one integer or string per query: got shape \(1,\) of <U1 for 3"),
    ({"query_ids": [1.0, 2.0, 3.0]}, "query ids must be one integer or string per query.*float64"),
    (
        {"query_ids": np.array(["a", 2, None], object)},
        "query ids must be known for every query: got None at query number 2",
    ),
    (
        {"query_ids": ["a", "b", "a"]},
        "query ids must all be different: got 'a' again at query number 2. Hint: join the",
    ),
    ({"query_ids": [7, 7, 8]}, "query ids must all be different: got 7 again at query number 1"),
    (
        {"weights": np.ones(6)},
        r"weights must be one number per query: got one per document. Hint: set document_weights=",
    ),
    ({"weights": [1, -1, 1]}, "weights must be finite and not negative: got -1.0 at query number 1"),
    ({"weights": [1, 1, np.nan]}, "weights must be finite and not negative: got nan at query number 2"),
    ({"weights": [0, 0, 0]}, "weights must not all be zero. Hint: leave weights out"),
    (
        {"weights": [1, 1e31, 1]},
        r"weights must be at most 1e\+30.*got 1e\+31 at query number 1. Hint: divide all weights",
    ),
    (
        {"document_ids": ["x"]},
        r"document ids must be one integer or string per document: got shape \(1,\) of <U1 for 6",
    ),
    (
        {"feature_names": ["x"]},
        "feature names must be as many as there are features, and all different: got 1 different",
    ),
    ({"feature_names": ["x", "x"]}, "feature names must be as many.*got 1 different names for 2 features"),
    ({"categorical": [2]}, "a column in categorical must be smaller than the number of features: got 2 of 2"),
    ({"categorical": [-1]}, "a column in categorical must be a whole number of at least 0: got -1"),
    (
        {"judged": [1, 1, 0.5, 1, 1, 1]},
        r"judged must be 1, 0 or -1: got 0.5 at row 2 \(query ",
    ),
    (
        {"propensities": [1, 1, 1, 0, 1, 1]},
        r"propensities must be greater than 0: got 0 at row 3 \(query 'c'\). Hint: ",
    ),
    ({"propensities": [1, 1, 1, 1, 1, np.nan]}, r"propensities must be finite: got nan at row 5"),
    (
        {"positions": [1, 2, 1, 0, 1, 2]},
        r"positions must be at least 1: got 0 at row 3 \(query 'c'\). Hint: count displ",
    ),
]


@pytest.mark.parametrize(("changes", "sentence"), REFUSED)
def test_errors_name_the_place_and_a_hint(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(**changes)


def test_nan_features_are_legal_and_mean_missing():
    features = FEATURES.copy()
    features[1, 1] = np.nan
    assert np.isnan(make(features=features).features[1, 1])


def test_labels_may_be_real_numbers_and_features_any_numbers():
    data = make(features=[[1, 2]] * 6, labels=[0.5, 0.25, 1.75, 0, 3, 2])
    assert data.features.dtype == np.float32
    assert data.features.flags.c_contiguous
    assert data.labels.tolist() == [0.5, 0.25, 1.75, 0, 3, 2]


def test_fields_cannot_be_replaced_and_arrays_cannot_be_written():
    data = everything()
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.labels = LABELS
    for name in ("features", "labels", "offsets", "query_ids", "weights", "document_ids", "propensities", "positions"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(data, name)[...] = getattr(data, name)


def test_the_callers_arrays_are_shared_and_stay_writable():
    features, labels = FEATURES.copy(), LABELS.copy()
    data = make(features=features, labels=labels)
    assert np.shares_memory(data.features, features)
    assert np.shares_memory(data.labels, labels)
    features[0, 0] = 99.0
    assert data.features[0, 0] == 99.0


def test_memory_mapped_features_are_not_copied(tmp_path: Path):
    np.save(tmp_path / "features.npy", FEATURES)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    data = make(features=mapped)
    assert np.shares_memory(data.features, mapped)
    assert np.shares_memory(data.take(slice(1, 3)).features, mapped)


def test_counts_and_text():
    data = make()
    assert (data.n_queries, data.n_docs, data.n_features, len(data)) == (3, 6, 2, 3)
    assert data.sizes.tolist() == [2, 1, 3]
    assert data.qids().tolist() == ["a", "a", "b", "c", "c", "c"]
    assert make(query_ids=None).qids().tolist() == [0, 0, 1, 2, 2, 2]
    assert repr(data) == "RankingDataset(3 queries, 6 documents, 2 features, labels 0 to 4)"
    assert repr(data.take([1])) == "RankingDataset(1 query, 1 document, 2 features, labels 2 to 2)"


def test_no_queries_at_all_are_legal():
    data = RankingDataset.from_sizes(np.zeros((0, 3)), [], np.array([], int))
    assert repr(data) == "RankingDataset(0 queries, 0 documents, 3 features)"
    assert make().take(slice(0, 0)).n_queries == 0
    assert make().take(np.array([], int)).n_docs == 0


# --- other ways to say where queries start -------------------------------------------------------------------------


def test_from_sizes():
    data = RankingDataset.from_sizes(FEATURES, LABELS, [2, 1, 3], query_ids=["a", "b", "c"])
    assert data.offsets.tolist() == [0, 2, 3, 6]
    assert data.query_ids is not None


@pytest.mark.parametrize(
    ("sizes", "fields"),
    [
        (
            [2, 1, 2],
            {
                "what": "sizes must add up to the number of rows",
                "got": "a sum of 5 for 6 rows",
                "hint": "pass the number of documents…",
            },
        ),
        ([2, 0, 4], {"what": "sizes must be a one-dimensional array of positive integers", "got": "array([2, 0, 4])"}),
        ([2.0, 4.0], {"what": "sizes must be a one-dimensional array of positive integers"}),
        ([[2, 4]], {"what": "sizes must be a one-dimensional array of positive integers"}),
    ],
)
def test_from_sizes_refuses(sizes, fields):
    refuses(lambda: RankingDataset.from_sizes(FEATURES, LABELS, sizes), **fields)


@pytest.mark.parametrize("qids", [[5, 5, 3, 9, 9, 9], ["x", "x", "w", "z", "z", "z"]])
def test_from_qids(qids):
    data = RankingDataset.from_qids(FEATURES, LABELS, qids)
    assert data.offsets.tolist() == [0, 2, 3, 6]
    assert data.query_ids is not None
    assert data.query_ids.tolist() == [qids[0], qids[2], qids[3]]
    assert data.qids().tolist() == qids


def test_a_query_that_comes_back_is_rejected():
    sentence = "the rows of a query must lie together: got query .*'a'.* again after another query at row 3. Hint: sort"
    with pytest.raises(ValueError, match=sentence):
        RankingDataset.from_qids(FEATURES, LABELS, ["a", "a", "b", "a", "c", "c"])


def test_one_qid_per_query_is_rejected():
    sentence = (
        "qids must be one query id per document: got 3 ids for 6 documents. Hint: for one number per query use fro"
    )
    with pytest.raises(ValueError, match=sentence):
        RankingDataset.from_qids(FEATURES, LABELS, [2, 1, 3])
    with refusal(what="qids must be a one-dimensional column", got="shape (6, 1)"):
        RankingDataset.from_qids(FEATURES, LABELS, np.zeros((6, 1), int))


def test_no_rows_at_all_from_qids():
    assert RankingDataset.from_qids(np.zeros((0, 2)), [], np.array([], int)).n_queries == 0


# --- parts -----------------------------------------------------------------------------------------------------------


def same(one, other):
    for field in dataclasses.fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(left, np.ndarray):
            assert left.tolist() == right.tolist(), field.name
        else:
            assert left == right, field.name


@pytest.mark.parametrize("queries", [slice(1, 3), [1, 2], np.array([False, True, True]), slice(-2, None), [-2, -1]])
def test_take_of_neighbours_shares_memory(queries):
    data = everything()
    part = data.take(queries)
    for name in ("features", "labels", "document_ids", "propensities"):
        assert np.shares_memory(getattr(part, name), getattr(data, name)), name
    assert part.offsets.tolist() == [0, 1, 4]
    assert part.labels.tolist() == [2, 0, 0, 4]
    assert part.query_ids is not None
    assert part.query_ids.tolist() == ["b", "c"]
    assert part.feature_names == ("one", "two")
    assert part.categorical == (1,)


def test_take_in_another_order():
    part = everything().take([2, 0])
    assert part.offsets.tolist() == [0, 3, 5]
    assert part.features.tolist() == [[6, 7], [8, 9], [10, 11], [0, 1], [2, 3]]
    assert part.weights is not None
    assert part.weights.tolist() == [0.0, 1.0]
    assert part.document_ids is not None
    assert part.document_ids.tolist() == ["d3", "d4", "d5", "d0", "d1"]
    assert part.positions is not None
    assert part.positions.tolist() == [1, 2, 3, 1, 2]


def test_take_of_a_query_without_id_keeps_its_number_and_so_its_randomness():
    part = make(query_ids=None).take([2, 1])
    assert part.query_ids is not None
    assert part.query_ids.tolist() == [2, 1]


def test_take_refuses_what_is_not_there_and_what_comes_twice():
    with refusal(what="queries must be a slice, a mask or numbers of the 3 queries", got="…out of bounds…"):
        make().take([3])
    with refusal(what="queries must be a slice, a mask or numbers of the 3 queries", got="…boolean…"):
        make().take([True, False])
    refuses(lambda: make().take([1, 1]), what="query ids must all be different", got="'b' again")


@st.composite
def ragged(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    order = draw(st.permutations(range(len(sizes))))
    return sizes, list(order)


@settings(max_examples=40, deadline=None)
@given(ragged())
def test_take_is_taking_each_query_and_joining_them_again(case):
    sizes, order = case
    n_docs = sum(sizes)
    data = RankingDataset.from_sizes(
        np.arange(n_docs)[:, None], np.arange(n_docs), sizes, query_ids=np.arange(len(sizes))
    )
    taken = data.take(order)
    rows = [list(range(data.offsets[query], data.offsets[query + 1])) for query in order]
    assert taken.labels.tolist() == [row for each in rows for row in each]
    same(taken, concatenate([data.take([query]) for query in order]))
    same(taken.take(np.argsort(order)), data)


def test_concatenate_puts_parts_together_again():
    data = everything()
    joined = concatenate([data.take([0]), data.take(slice(1, 3))])
    same(joined, data)


def test_concatenate_refuses():
    data = make()
    refuses(lambda: concatenate([]), what="concatenate needs at least one data set")
    with refusal(what="data sets to be joined must agree in their feature_names"):
        concatenate([data.take([0]), data.take([1]).with_(feature_names=("x", "y"))])
    with refusal(what="data sets to be joined must agree in their categorical"):
        concatenate([data.take([0]), data.take([1]).with_(categorical=(0,))])
    with refusal(what="of data sets to be joined, all or none must have weights", got="number 1 of 2 without"):
        concatenate([data.take([0]), data.take([1]).with_(weights=[1.0])])
    with refusal(what="query ids must all be different", got="'a' again", where="query number 1"):
        concatenate([data.take([0]), data.take([0])])


def test_with_changes_a_column_checks_it_and_shares_the_rest():
    data = make()
    other = data.with_(labels=np.ones(6))
    assert other.labels.tolist() == [1.0] * 6
    assert data.labels.tolist() == LABELS.tolist()
    assert np.shares_memory(other.features, data.features)
    refuses(lambda: data.with_(labels=np.full(6, np.nan)), what="labels must be finite")


# --- summary ---------------------------------------------------------------------------------------------------------


def test_summary_agrees_with_counting_by_hand():
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 9, 50)
    n_docs = int(sizes.sum())
    features = rng.normal(size=(n_docs, 7)).astype(np.float32)
    features[rng.random(features.shape) < 0.1] = np.nan
    features[:, 2] = 3.5
    features[:, 3] = np.nan
    features[:, 4] = 0.0
    features[-1, 4] = np.nan  # a value that is missing once does tell documents apart
    features[:, 5] = 1.0
    features[-1, 5] = 2.0
    features[:, 6] = np.inf
    labels = rng.integers(0, 3, n_docs)
    labels[: sizes[0]] = 0
    data = RankingDataset.from_sizes(features, labels, sizes)
    got = summary(data)
    queries = np.split(labels, data.offsets[1:-1])
    assert got["queries"] == 50
    assert got["documents"] == n_docs
    assert got["features"] == 7
    assert got["labels"] == {str(grade): int((labels == grade).sum()) for grade in range(3)}
    lengths = sorted(sizes.tolist())
    assert got["list_lengths"]["min"] == lengths[0]
    assert got["list_lengths"]["max"] == lengths[-1]
    assert got["list_lengths"]["median"] == (lengths[24] + lengths[25]) / 2
    assert got["list_lengths"]["mean"] == pytest.approx(n_docs / 50)
    assert got["list_lengths"]["90%"] == pytest.approx(lengths[44] + 0.1 * (lengths[45] - lengths[44]))
    assert got["queries_without_relevant"] == sum(not query.any() for query in queries)
    assert got["queries_without_relevant"] >= 1
    assert got["missing"] == np.isnan(features).mean()
    assert got["features_with_missing"] == int(np.isnan(features).any(axis=0).sum())
    assert got["constant_features"] == ["3", "4", "7"]
    assert json.loads(json.dumps(got)) == got


def test_summary_of_real_labels_counts_intervals():
    labels = np.linspace(0.0, 10.0, 101)
    data = RankingDataset.from_sizes(np.zeros((101, 1)), labels, [101], feature_names=["only"])
    got = summary(data)
    assert list(got["labels"])[:2] == ["0 to 1", "1 to 2"]
    assert sum(got["labels"].values()) == 101
    assert got["constant_features"] == ["only"]


def test_summary_of_nothing():
    got = summary(RankingDataset.from_sizes(np.zeros((0, 2)), [], np.array([], int)))
    assert (got["queries"], got["documents"], got["labels"], got["list_lengths"]) == (0, 0, {}, {})
    assert got["missing"] == 0.0


def test_take_nothing_and_take_badly():
    data = RankingDataset(np.zeros((3, 1)), [0, 1, 2], [0, 1, 3])
    assert data.take([]).n_queries == 0
    refuses(lambda: data.take(1), what="queries must be a slice, a mask or numbers of the 2 queries", got="shape ()…")
    with refusal(what="queries must be a slice, a mask or numbers of the 2 queries", got="index 2 is out of bounds…"):
        data.take([2])


def test_positions_are_whole_numbers():
    with refusal(what="positions must be whole numbers", got="2.5", where="row 1…"):
        RankingDataset(np.zeros((2, 1)), [0, 1], [0, 2], positions=[1.0, 2.5])
    shown = np.array([1, 2])
    assert np.shares_memory(RankingDataset(np.zeros((2, 1)), [0, 1], [0, 2], positions=shown).positions, shown)


def test_ids_that_differ_by_their_type_alone_are_rejected():
    pd = pytest.importorskip("pandas")
    features, labels = [[1.0], [2.0]], [0, 1]
    both: Any = [1, "1"]
    for make in (
        lambda: rw.RankingDataset(features, labels, [0, 2], document_ids=both),
        lambda: rw.RankingDataset(features, labels, [0, 1, 2], query_ids=both),
        lambda: rw.RankingDataset.from_qids(features, labels, both),
        lambda: rw.LightGBMRanker().fit(features, labels, qid=both),
        lambda: rw.RankingDataset.from_frame(pd.DataFrame({"qid": both, "label": labels, "f": [0.5, 0.1]})),
        lambda: rw.trec.join({1: {"d": 1.0}, "1": {"e": 2.0}}, {"1": {"d": 1}}),  # type: ignore[dict-item]
    ):
        with refusal(what="…must not differ by their type alone", got="1 and '1'"):
            make()


def test_a_format_is_not_written_under_the_name_of_another(tmp_path):
    data = rw.synthetic(n_queries=2, n_docs=3, seed=0)
    for name in ("a.csv", "a.tsv.gz", "a.parquet"):
        with refusal(what="LETOR text is read by names of text"):
            rw.data.write_letor(data, tmp_path / name)
    for name in ("a.csv", "a.txt", "a.svm.gz"):
        with refusal(what="Parquet is read by its name"):
            rw.data.write_parquet(data, tmp_path / name)
    assert not list(tmp_path.iterdir())
