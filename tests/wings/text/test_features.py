"""Features: every formula as in a slow reference, BM25 as others have it, the same bits for one query and for many."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankwise as rw
from rankwise.base import threads
from rankwise.wings.text import features as of_texts
from rankwise.wings.text import kernels
from tests.refusals import refuses
from tests.wings.text import reference

dataset: Any = rw.text.dataset
WORDS = st.lists(st.sampled_from("abcdef"), max_size=9)
COLLECTIONS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6)
TEXTS = [
    "the mean of an array",
    "the median of the array of numbers",
    "sum of numbers",
    "",
    "the the the median filter of an image along an axis",
]
QUERIES = ["median of array", "the the mean", "numbers absent sum"]
BM25S = [[0.400795, 0.675365, 0.061421, 0, 0.28285], [0.962363, 0.436402, 0, 0, 0.44371], [0, 0.305455, 1.105944, 0, 0]]
"""Scores of bm25s 0.3.16, method lucene, k1 1.2, b 0.75, of the four texts that have words."""


def everything(pages: rw.text.Documents, queries: list[str], *, exact: bool = False) -> np.ndarray:
    """The features of every query with every document."""
    n, ids = len(queries), [str(number) for number in range(len(queries))]
    pairs = np.tile(np.arange(len(pages)), n)
    chosen = of_texts.Candidates(tuple(ids), np.arange(n + 1) * len(pages), pairs, {})
    names = of_texts.all_names(pages, ())
    return of_texts.matrix(pages, pages.numbers_of(queries), chosen, names).reshape(n, len(pages), -1)


@given(COLLECTIONS, st.lists(st.lists(st.sampled_from("abcdefxy"), max_size=8), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_features_are_those_of_the_reference(collection, queries):
    fields = {"title": [list(title) for title, _ in collection], "body": [list(body) for _, body in collection]}
    pages = rw.text.Documents(
        {str(i): {"title": " ".join(t), "body": " ".join(b)} for i, (t, b) in enumerate(collection)},
        fields=("title", "body"), progress=False,
    )  # fmt: skip
    found = everything(pages, [" ".join(query) for query in queries])
    names = of_texts.all_names(pages, ())
    for number, said in enumerate(queries):
        for document in range(len(pages)):
            expected = reference.features(fields, said, document)
            assert tuple(expected) == names
            values = np.array(list(expected.values()))
            np.testing.assert_allclose(found[number, document], values.astype(np.float32), rtol=2e-7, atol=1e-9)


def test_formulas_are_exact_before_they_become_float32():
    fields = {"text": [text.split() for text in TEXTS]}
    pages = rw.text.Documents({str(i): text for i, text in enumerate(TEXTS)}, fields=("text",))
    words, n = pages.numbers_of(QUERIES), len(TEXTS)
    out, a = np.empty((len(QUERIES) * n, len(kernels.PER_FIELD))), pages.arrays
    threads.over_queries(
        kernels.features, words.distinct_offsets, words.distinct, words.counts, np.arange(4) * n,
        np.tile(np.arange(n), 3), words.offsets, words.numbers, a["tokens"], a["bounds"], a["idf"], a["share"],
        a["norms"], a["means"], 1.2, 0.75, 2000.0, out,
    )  # fmt: skip
    for row, (query, document) in enumerate((q, d) for q in QUERIES for d in range(n)):
        expected = list(reference.features(fields, query.split(), document).values())[: len(kernels.PER_FIELD)]
        np.testing.assert_allclose(out[row], expected, rtol=1e-9, atol=1e-12)


def test_bm25_is_that_of_an_independent_implementation():
    # bm25s leaves the factor k1 + 1 out, as Lucene does, and counts documents without words, as Lucene does not.
    pages = rw.text.Documents({str(i): text for i, text in enumerate(TEXTS)}, fields=("text",))
    feature = everything(pages, QUERIES)[:, :, 0]
    np.testing.assert_allclose(feature / 2.2, BM25S, atol=1e-6)
    run = pages.search(QUERIES)
    for (query, document), score in zip(run.select("query", "document").iter_rows(), run["score"], strict=True):
        assert score / 2.2 == pytest.approx(BM25S[int(query)][int(document)], abs=1e-6)
    assert len(run) == np.count_nonzero(BM25S)


def test_bm25_is_that_of_bm25s_where_it_is_installed():
    bm25s = pytest.importorskip("bm25s")
    draws = np.random.default_rng(0)
    texts = [[f"w{int(word)}" for word in draws.zipf(1.5, 30) % 200] for _ in range(200)]
    pages = rw.text.Documents({str(i): " ".join(text) for i, text in enumerate(texts)}, fields=("text",))
    peer = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    peer.index(texts, show_progress=False)
    for query in (["w1", "w2", "w7"], ["w3"], ["w1", "w1", "w100"]):
        np.testing.assert_allclose(
            everything(pages, [" ".join(query)])[0, :, 0] / 2.2, peer.get_scores(query), rtol=1e-5
        )


def test_search_is_the_weighted_sum_over_fields_with_ties_in_order():
    draws = np.random.default_rng(1)
    rows = {
        f"d{i}": {"title": " ".join(draws.choice(list("abcd"), 2)), "text": " ".join(draws.choice(list("abcd"), 4))}
        for i in range(300)
    }
    pages = rw.text.Documents(rows)
    names = of_texts.all_names(pages, ())
    run = pages.search(["a b", "zz", "c"], k=7, weights={"title": 2.0, "text": 0.5})
    scores = everything(pages, ["a b", "zz", "c"]).astype(np.float64)
    total = 2.0 * scores[:, :, names.index("bm25(title)")] + 0.5 * scores[:, :, names.index("bm25(text)")]
    for number in (0, 2):
        best = np.argsort(-total[number].round(5), kind="stable")[:7]
        found = run.filter(pl.col("query") == str(number))
        np.testing.assert_allclose(found["score"], total[number][best], rtol=1e-5)
        assert found["document"].to_list() == pages.ids[best].tolist()
    assert run.filter(pl.col("query") == "1").is_empty()


@pytest.fixture(scope="module")
def pages() -> rw.text.Documents:
    draws = np.random.default_rng(2)
    words = np.array([f"w{i}" for i in range(50)])
    titles, texts = draws.zipf(1.4, (400, 3)) % 50, draws.zipf(1.4, (400, 40)) % 50
    rows = [
        {"id": f"d{i}", "title": " ".join(words[titles[i]]), "text": " ".join(words[texts[i]]), "price": i}
        for i in range(400)
    ]
    return rw.text.Documents(rows, columns=("price",))


def test_one_query_gives_the_bits_of_many(pages):
    queries = {f"q{i}": " ".join(f"w{(i * k) % 60}" for k in range(1, 5)) for i in range(40)}
    runs = {"bm25": pages.search(queries, k=20), "title": pages.search(queries, k=10, weights={"text": 0.0})}
    with rw.use_threads(2):
        together = dataset(pages, queries, runs)
    assert together.features.dtype == np.float32
    for number, (name, text) in enumerate(queries.items()):
        one = {
            "bm25": pages.search({name: text}, k=20),
            "title": pages.search({name: text}, k=10, weights={"text": 0.0}),
        }
        alone = dataset(pages, {name: text}, one)
        rows = slice(*together.offsets[number : number + 2].tolist())
        assert alone.features.tobytes() == together.features[rows].tobytes()
        assert alone.document_ids.tolist() == together.document_ids[rows].tolist()


def test_a_query_of_ten_thousand_words(pages):
    query = " ".join(f"w{i % 70}" for i in range(10_000))
    data = dataset(pages, [query], {"bm25": pages.search([query], k=5)})
    assert data.n_docs == 5
    assert set(data.features[:, data.feature_names.index("query_words")]) == {50.0}


def test_features_of_runs(pages):
    # A document that a run lacks is below all that it has: neither missing, which would tell relevant documents apart
    # in any data set of several runs, nor 0, which may be the best score.
    runs = {"one": {"q": {"d1": -3.0, "d2": -5.0, "d3": -4.0}}, "two": {"q": {"d3": 5.0, "d4": 5.0}, "p": {"d0": 1.0}}}
    names = [f"{kind}({run})" for run in runs for kind in of_texts.OF_RUN]
    data = dataset(pages, {"q": "w1", "p": "w2"}, runs, features=names)
    assert data.document_ids.tolist() == ["d1", "d2", "d3", "d4", "d0"]
    one: list[list[float]] = [[-3, 1 / 61, 1], [-5, 1 / 63, 0], [-4, 1 / 62, 0.5], [-5, 0, 0], [np.nan, 0, 0]]
    # Of equal scores the last id is first, as in TREC.
    two = [[5, 0, 0], [5, 0, 0], [5, 1 / 62, 1], [5, 1 / 61, 1], [1, 1 / 61, 1]]
    np.testing.assert_array_equal(data.features, np.hstack((np.array(one), np.array(two))).astype(np.float32))


def test_features_are_chosen_by_name(pages):
    run = {"bm25": pages.search(["w1"], k=3)}
    data = dataset(pages, ["w1"], run, features=["price", "length(text)"])
    assert data.feature_names == ("price", "length(text)")
    assert data.features[:, 0].tolist() == [float(one[1:]) for one in data.document_ids]
    refuses(lambda: dataset(pages, ["w1"], run, features=["bm25(txt)"]), got="'bm25(txt)'", hint="…bm25(text)…")
    refuses(lambda: dataset(pages, ["w1"], run, features=[]), what="there must be at least one feature")
