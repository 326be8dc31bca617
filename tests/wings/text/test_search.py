"""Search: the features of training to the bit, folders, runs of others, reasons, passages, and what is refused."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.evaluation import ranked, run_frame
from rankwise.wings.text import features, passages, result
from tests.processes import environment
from tests.refusals import refusal, refuses

SETTINGS: Any = {"rounds": 8, "leaves": 4, "min_documents": 1, "threads": 1}
WORDS = ("mean", "median", "sum", "sort", "norm", "array", "values", "axis")


def rows(count: int) -> list[dict[str, Any]]:
    """Documents of words drawn at random."""
    draws = np.random.default_rng(1)
    return [
        {
            "id": f"d{n}",
            "title": " ".join(draws.choice(WORDS, 3)),
            "text": " ".join(draws.choice(WORDS, n % 17)),
            "price": None if n % 5 == 0 else float(draws.uniform()),
        }
        for n in range(count)
    ]


QUERIES = {
    f"q{n}": text for n, text in enumerate(["median of values", "sort array", "norm axis axis", "the sum", "zzz"])
}
QRELS = {query: {f"d{n}": n % 3 for n in range(60)} for query in QUERIES}
DEPTH = 12


@pytest.fixture(scope="module")
def pages() -> rw.text.Documents:
    return rw.text.Documents(rows(60), columns=("price",))


@pytest.fixture(scope="module")
def names() -> rw.text.Documents:
    """Another index, of pieces of titles."""
    texts = [{"id": row["id"], "title": row["title"]} for row in rows(60)]
    return rw.text.Documents(texts, fields=("title",), analyzer=rw.text.Analyzer(ngrams=3))


class Engine:
    """An engine with scores below zero, which lacks some queries."""

    def __init__(self, pages: rw.text.Documents) -> None:
        self.pages = pages

    def search(self, queries: Any, k: int) -> dict[str, dict[str, float]]:
        run = self.pages.search({name: text for name, text in queries.items() if "sum" not in text}, k)
        return {
            name: dict(zip(one["document"], one["score"] - 9.0, strict=True)) for (name,), one in run.group_by("query")
        }


@pytest.fixture(scope="module")
def runs(pages, names) -> dict[str, Any]:
    return {"bm25": pages, "names": names, "engine": Engine(pages)}


@pytest.fixture(scope="module")
def data(pages, runs) -> rw.RankingDataset:
    found = {name: one.search(QUERIES, DEPTH) for name, one in runs.items()}
    return rw.text.dataset(pages, QUERIES, found, QRELS, depth=DEPTH, unjudged="irrelevant")


@pytest.fixture(scope="module")
def search(pages, runs, data) -> rw.text.Search:
    chosen = [3, 1, *range(20, data.n_features)]  # other features, in another order
    part = data.with_(features=data.features[:, chosen], feature_names=[data.feature_names[j] for j in chosen])
    return rw.text.Search(pages, rw.LightGBMRanker("xendcg", **SETTINGS).fit(part), runs, depth=DEPTH)


# --- skew ------------------------------------------------------------------------------------------------------------


def by_document(search: rw.text.Search, query: str) -> dict[str, bytes]:
    found = search(query)
    return {one: found.matrix[place].tobytes() for place, one in enumerate(found.documents)}


def trained_on(data: Any, search: rw.text.Search, query: str) -> dict[str, bytes]:
    one = data.take([data.query_ids.tolist().index(query)])
    columns = [data.feature_names.index(name) for name in search.features]
    return {name: one.features[row][columns].tobytes() for row, name in enumerate(one.document_ids.tolist())}


def test_search_computes_the_features_of_training_to_the_bit(search, data):
    assert data.query_ids.tolist() == ["q0", "q1", "q2", "q3"]
    for query in data.query_ids.tolist():
        assert by_document(search, QUERIES[query]) == trained_on(data, search, query)


def test_so_does_a_saved_one_in_another_process(pages, data, tmp_path):
    found = pages.search(QUERIES, DEPTH)
    data = rw.text.dataset(pages, QUERIES, {"bm25": found}, QRELS, depth=DEPTH)
    search = rw.text.Search(pages, rw.LightGBMRanker("lambdarank", **SETTINGS).fit(data), depth=DEPTH)
    search.save(tmp_path / "search")
    code = (
        "import rankwise as rw, sys, json\n"
        f"search = rw.text.Search.load({str(tmp_path / 'search')!r})\n"
        f"found = [search(query) for query in {list(QUERIES.values())!r}]\n"
        "rows = [zip(one.documents, one.matrix, one.scores) for one in found]\n"
        "print(json.dumps([{d: [m.tobytes().hex(), s.hex()] for d, m, s in one} for one in rows]))"
    )
    environ = environment(RANKWISE_THREADS="1")
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environ)
    for (query, text), answer in zip(QUERIES.items(), json.loads(ran.stdout), strict=True):
        here = search(text)
        assert {name: bytes.fromhex(one[0]) for name, one in answer.items()} == by_document(search, text)
        assert [one[1] for one in answer.values()] == [float(one).hex() for one in here.scores]
        assert list(answer) == here.documents.tolist()
        if query in data.query_ids:
            assert by_document(search, text) == trained_on(data, search, query)


def test_scores_are_those_of_the_model(search, data):
    found = search(QUERIES["q1"])
    columns = [data.feature_names.index(name) for name in search.features]
    one = data.take([1])
    expected = dict(zip(one.document_ids.tolist(), search.model.predict(one.features[:, columns]), strict=True))
    assert dict(zip(found.documents, found.scores, strict=True)) == expected
    assert (np.diff(found.scores) <= 0).all()


# --- results ---------------------------------------------------------------------------------------------------------


def test_ranks_in_the_runs_are_theirs(search):
    found = search(QUERIES["q0"], k=5)
    for name, one in search.runs.items():
        run = ranked(run_frame(one.search({"0": QUERIES["q0"]}, DEPTH)))
        expected = {document: rank for rank, document in enumerate(run["document"], 1)}
        shown = dict(zip(found.documents, found.run_ranks[name].tolist(), strict=True))
        assert {document: rank for document, rank in shown.items() if rank} == expected
    assert len(found) == 5
    frame = found.to_frame()
    assert frame.columns == [
        "rank", "document", "score", "rank(bm25)", "rank(names)", "rank(engine)", "text(title)", "text(text)"
    ]  # fmt: skip
    assert frame["text(title)"][0] == search.pages.text(frame["document"][0])["title"]
    assert str(found).count("\n") == 5


def test_several_queries_are_a_run_as_retrievers_return(search):
    run = search.search(QUERIES, 4)
    assert run.columns == ["query", "document", "score"]
    for name, text in QUERIES.items():
        found = search(text)
        part = run.filter(pl.col("query") == name)
        assert part["document"].to_list() == found.documents[:4].tolist()
        assert part["score"].to_list() == found.scores[:4].tolist()
    again = rw.text.Search(
        search.pages, search.model, {**search.runs, "engine": search.runs["engine"].search}, depth=DEPTH
    )
    assert again.search(QUERIES, 4).equals(run)


def test_the_batches_of_a_run_are_one_run(search, monkeypatch):
    expected = search.search(QUERIES)
    monkeypatch.setattr("rankwise.wings.text.search._AT_ONCE", 2)
    assert search.search(QUERIES).equals(expected)


@pytest.mark.parametrize("query", ["zzz", "", "the \U0001f600"])
def test_words_that_no_document_has_find_nothing(search, query):
    found = search(query)
    assert (len(found), found.to_dict()["documents"], found.to_frame().height) == (0, [], 0)
    assert search.search([query]).is_empty()
    refuses(lambda: found.explain("d1", "d2"), what="there is no such document")


def test_a_long_query_is_answered(search):
    assert len(search("median array " * 5_000)) == 10


# --- reasons ---------------------------------------------------------------------------------------------------------


def test_reasons_and_the_rest_add_up_to_the_difference(search):
    found = search(QUERIES["q0"])
    first, last = found.documents[0], found.documents[-1]
    why = found.explain(last, first)  # in either order
    assert (why.above, why.below) == (first, last)
    added = sum(one.adds for one in why.reasons) + why.rest
    assert added == pytest.approx(found.scores[0] - found.scores[-1])
    parts = search.model.explain(found.matrix)
    words = features.in_words(search.pages, list(search.runs))
    assert len(why.reasons) >= 2
    for one in why.reasons:  # all features of a field together, and the one that says so most
        columns = [place for place, name in enumerate(search.features) if words[name][0] == one.of]
        assert one.adds == pytest.approx((parts[0, columns] - parts[-1, columns]).sum())
        assert search.features.index(one.feature) in columns
    largest, groups = max(abs(one.adds) for one in why.reasons), {of for of, _ in words.values()}
    assert abs(why.rest) <= 0.1 * largest * len(groups)  # nothing large is left unsaid
    apart = f"{found.scores[0] - found.scores[-1]:.4f}"
    said = f"{first} is at rank 1 and {last} at {found.places.size}: its score is {apart} higher"
    assert why.sentence == f"{said}."
    assert str(why).startswith(f"{said}, the sum of\n")
    assert json.loads(json.dumps(why.to_dict()))["reasons"][0]["of"] == why.reasons[0].of


@pytest.mark.parametrize(
    ("feature", "values", "texts", "ranks", "said"),
    [
        ("scaled(names)", ["0", "1"], ["", ""], [0, 3], "not found, the other rank 3"),
        ("score(names)", ["0", "1"], ["", ""], [24, 2], "rank 24, not rank 2"),
        ("tfidf(title)", ["0.1", "0.2"], ["numpy", "numpy.ma"], [], "“numpy”, not “numpy.ma”"),
        ("length(title)", ["1", "0"], ["numpy", ""], [], "“numpy”, not empty"),
        ("length(title)", ["1", "1234"], ["numpy", "x" * 99], [], "length 1, not 1,234"),
        ("found(text)", ["0.714", "0.857"], ["x" * 99] * 2, [], "71% of the query's words, not 86%"),
        ("phrase(text)", ["0", "1"], ["x" * 99] * 2, [], "the query word by word: no, not yes"),
        ("window(text)", [None, "1"], ["x" * 99] * 2, [], "no words of the query, the other some"),
        ("price", [None, "2.5"], ["", ""], [], "none, not 2.5"),
    ],
)
def test_reasons_are_in_words(search, feature, values, texts, ranks, said):
    words = features.in_words(search.pages, list(search.runs))[feature][1]
    assert result._differ(words, feature, values, texts, ranks) == said


def test_every_feature_has_words(search):
    names = list(search.runs)
    assert features.in_words(search.pages, names).keys() == {*features.all_names(search.pages, names)}


# --- passages --------------------------------------------------------------------------------------------------------


def shown(text: str, query: str, **settings: Any) -> list[str]:
    pages = rw.text.Documents({"a": text}, fields=("text",), analyzer=rw.text.Analyzer(**settings))
    title, passage = passages.shown(pages, pages.text("a"), frozenset(pages.analyzer(query)))
    assert title == []
    return passage


def test_words_of_the_query_are_marked():
    assert shown("The nanMedian of\n an array", "median of") == ["The ", "nanMedian", " of an array"]
    assert shown("Ｍean", "mean") == ["", "Mean", ""]
    assert shown("東京都の人", "京都 の", ngrams=2) == ["東", "京都", "の人"]
    assert shown("東京都", "東京都", ngrams=2) == ["", "東京", "", "都", ""]
    assert shown("a <b>bold</b> word", "bold", html=True) == ["a ", "bold", " word"]
    assert shown("nothing of it", "median") == ["nothing of it"]
    assert shown("is it", "is it") == ["", "is", " ", "it", ""]  # common words where there are no others


def test_the_passage_with_most_words_is_shown():
    filler = "word " * 200
    pieces = shown(f"median {filler} median of sorted values {filler}", "sorted median values")
    assert pieces[1::2] == ["median", "sorted", "values"]
    assert pieces[0].startswith("… word")
    assert pieces[-1].endswith(" …")
    assert len("".join(pieces)) < 250
    assert len("".join(shown("x" * 10_000, "x" * 10_000))) < 250
    assert len("".join(shown("x" * 10_000 + " median", "median"))) < 300


def test_title_and_passage_come_from_the_fields():
    rows = [{"id": "a", "title": "The median", "module": "median", "text": "Of a median, all that is told is here."}]
    pages = rw.text.Documents(rows, fields=("title", "module", "text"))
    title, passage = passages.shown(pages, pages.text("a"), {"median"})
    assert title == ["The ", "median", ""]
    assert "".join(passage) == rows[0]["text"]  # a word alone tells less


# --- folders ---------------------------------------------------------------------------------------------------------


def test_a_folder_holds_all_but_the_engines(search, runs, tmp_path):
    search.save(tmp_path / "search")
    refuses(
        lambda: rw.text.Search.load(tmp_path / "search"),
        got="engine",
        hint="pass what finds them: …runs={'engine': …}…",
    )
    given = {"engine": runs["engine"]}
    again = rw.text.Search.load(tmp_path / "search", runs=given)
    assert list(again.runs) == ["bm25", "names", "engine"]
    assert again.runs["bm25"] is again.pages
    assert again.search(QUERIES).equals(search.search(QUERIES))
    refuses(lambda: rw.text.Search.load(tmp_path / "search", runs={**given, "engin": print}), got="'engin'")
    again.save(tmp_path / "search", force=True)
    fast = rw.text.Search.load(tmp_path / "search", runs=given, verify=False)
    assert fast.search(QUERIES).equals(search.search(QUERIES))
    assert not list(tmp_path.rglob("*.pkl"))


@pytest.fixture
def folder(pages, tmp_path) -> Path:
    data = rw.text.dataset(pages, QUERIES, {"bm25": pages.search(QUERIES)}, QRELS)
    return rw.text.Search(pages, rw.LightGBMRanker("xendcg", **SETTINGS).fit(data)).save(tmp_path / "search")


def test_every_damaged_file_is_refused(folder, tmp_path):
    for file in sorted(one for one in folder.rglob("*") if one.is_file()):
        copy = shutil.copytree(folder, tmp_path / "copy")
        path = copy / file.relative_to(folder)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        refuses(lambda: rw.text.Search.load(tmp_path / "copy"), what="the model is damaged")
        path.unlink()
        refuses(lambda: rw.text.Search.load(tmp_path / "copy"))
        shutil.rmtree(copy)


def test_other_folders_and_versions_are_refused(folder, pages, tmp_path, monkeypatch):
    refuses(lambda: rw.load(folder), what="the folder holds no ranker", hint="open it with rw.text.Search.load")
    refuses(lambda: rw.text.Search.load(folder / "model"), what="the folder holds no search", got="'model'")
    pages.save(tmp_path / "pages")
    refuses(lambda: rw.text.Search.load(tmp_path / "pages"), what="the folder holds no search", got="'documents'")
    refuses(lambda: rw.text.Documents.load(folder), what="the folder holds no documents", got="'search'")
    refuses(lambda: rw.text.Search.load(tmp_path / "absent"), FileNotFoundError)
    monkeypatch.setattr("rankwise.wings.text.search._FORMAT", 2)
    refuses(lambda: rw.text.Search.load(folder), what="the search was saved by another rankwise", got="format 1…")


def test_a_search_that_cannot_be_saved_leaves_nothing(folder, tmp_path, monkeypatch):
    search = rw.text.Search.load(folder)
    before = {one: one.read_bytes() for one in folder.rglob("*") if one.is_file()}
    monkeypatch.setattr(type(search.model), "save", lambda *_: 1 / 0)
    for place in (folder, tmp_path / "new"):
        with pytest.raises(ZeroDivisionError):
            search.save(place, force=True)
    assert {one: one.read_bytes() for one in folder.rglob("*") if one.is_file()} == before
    assert [one.name for one in tmp_path.iterdir()] == ["search"]
    refuses(lambda: search.save(folder), FileExistsError)


# --- what is refused -------------------------------------------------------------------------------------------------


def test_what_does_not_fit_the_training_is_refused(search, pages, names, data):
    make, model, runs = rw.text.Search, search.model, search.runs
    what = "the model has features that the search cannot compute"
    refuses(lambda: make(pages, model), what=what, hint="pass the run of the training data: runs={…, 'names': …}")
    refuses(lambda: make(names, model, runs), what=what, hint="index the documents with the fields and columns …")
    refuses(
        lambda: make(pages, model, runs, depth=2),
        what="the model was trained on longer lists of candidates",
        got="…at most 6",
    )
    bare = rw.LightGBMRanker("xendcg", **SETTINGS).fit(rw.synthetic(n_queries=20, seed=0).with_(feature_names=None))
    refuses(lambda: make(pages, bare), got="features without names")
    refuses(lambda: make(pages, print), what="the model must be a trained ranker")  # type: ignore[arg-type]
    with pytest.raises(Exception, match="not .*(fitted|trained)"):
        make(pages, rw.LightGBMRanker())


READ: Any = {"analyzer": rw.text.Analyzer(html=True, stop=("sum", "axis")), "bm25": rw.text.Bm25(k1=0.9)}
"""How the texts of a training are read, other than by default."""


@pytest.fixture(scope="module")
def read_otherwise(tmp_path_factory) -> Any:
    """A bag trained on texts that are read as :data:`READ` says, where data and model have been in files."""
    folder, pages = tmp_path_factory.mktemp("otherwise"), rw.text.Documents(rows(60), **READ)
    data = rw.text.dataset(pages, QUERIES, {"bm25": pages.search(QUERIES, DEPTH)}, QRELS, depth=DEPTH)
    rw.write_data(data, folder / "texts.parquet")
    kept = rw.open_data(folder / "texts.parquet", folder=folder / "copy")
    assert kept.feature_origin == data.feature_origin == rw.read_data(folder / "texts.parquet").feature_origin
    parts: Any = rw.split(kept, (0.5, 0.5), seed=1)
    assert rw.concatenate([parts[0], parts[1].with_(feature_origin=None)]).feature_origin is None
    refuses(lambda: rw.concatenate([parts[0], parts[1].with_(feature_origin="another")]), got="2 origins")
    model = rw.bagged(rw.LightGBMRanker("xendcg", **SETTINGS), folds=2).fit(rw.concatenate(parts))
    return rw.load(model.save(folder / "model"))


@pytest.mark.parametrize(
    ("changed", "got", "hint"),
    [
        ({"analyzer": None}, "stop=[]…; html=False, in training True", "…Analyzer(stop=['sum', 'axis'], html=True)"),
        ({"bm25": None}, "k1=1.2, in training 0.9", "index them with bm25=rw.text.Bm25(k1=0.9)"),
        (
            {"fields": ("title", "text", "id2")},
            "fields=['title', 'text', 'id2'], in training ['title', 'text']",
            "index them with fields=('title', 'text')",
        ),
    ],
)
def test_documents_that_are_read_otherwise_than_in_training_are_refused(read_otherwise, changed, got, hint):
    pages = rw.text.Documents(rows(60), **READ | changed)
    what = "the documents are read otherwise than those of the training"
    refuses(lambda: rw.text.Search(pages, read_otherwise, depth=DEPTH), what=what, got=got, hint=hint)
    refuses(lambda: rw.text.LearnedFusion(read_otherwise, pages), what=what)


def test_documents_that_are_read_alike_are_not(read_otherwise, monkeypatch):
    alike = rw.text.Analyzer(html=True, stop=("axis", "sum"))
    pages = rw.text.Documents(rows(60), **READ | {"fields": ("text", "title"), "analyzer": alike})
    assert rw.text.Search(pages, read_otherwise, depth=DEPTH)("sort array").documents.size
    with monkeypatch.context() as newer:
        newer.setattr(features, "_FORMULAS", 2)
        hint = "train the model anew with this version"
        refuses(lambda: rw.text.Search(pages, read_otherwise, depth=DEPTH), got="rw.text=2, in training 1", hint=hint)
    for unsaid in (None, "our own pipeline", "[1]"):  # older models; features of others
        monkeypatch.setitem(read_otherwise.trained_on_, "feature_origin", unsaid)
        rw.text.Search(rw.text.Documents(rows(60)), read_otherwise, depth=DEPTH)


def test_the_command_names_the_options_of_the_training():
    ways = {"stem": "english", "html": True, "split": False, "ngrams": 1, "stop": ["a", "b"], "fields": ["x", "y"]}
    said = " ".join(features._option(name, value) for name, value in ways.items())
    assert said == "--stem english --html --no-split --ngrams 1 --stop a,b --field x --field y"
    assert [features._option(name, None) for name in ("stem", "ngrams")] == ["no --stem", "no --ngrams"]


def test_what_is_no_retriever_is_refused(search, pages):
    make, model = rw.text.Search, search.model
    nothing: Any = ("bm25", (), {})
    for runs in nothing:
        with refusal(what="runs must be several names"):
            make(pages, model, runs)
    refuses(lambda: make(pages, model, ("bm25", "engine")), got="'engine'", hint="…; pass others by name: …")
    fixed: Any = {"bm25": pages.search(QUERIES)}
    refuses(lambda: make(pages, model, fixed), what="the run bm25 must be what finds candidates of any query")
    unknown = make(pages, model, {**search.runs, "names": lambda *_: {"0": {"d1": 1.0, "gone": 2.0}}}, depth=DEPTH)
    refuses(lambda: unknown("sum"), what="a document is not among those indexed", got="'gone'")
    refuses(lambda: search(7), what="a query must be a text")
    refuses(lambda: search("sum", k=0), what="k must be …")
    refuses(lambda: search("sum").explain("nowhere", "d1"), got="'nowhere'")
