"""Engines: SQLite, which every Python has, and servers behind HTTP, whose answers are recorded."""

import contextlib
import math
import sqlite3
import traceback
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.text import engines
from rankwise.wings.text.engines import engine as shared
from tests.refusals import refusal, refuses
from tests.wings.text.recorded import give, recorded

TEXTS = {
    "a": {"title": "Mean", "text": "the mean of an array, or the mean of its parts"},
    "b": {"title": "Median", "text": "the middle; not the mean"},
    "c": {"title": "", "text": "naïve NaN x_1 sum"},
    "d": {"title": "Sum of it", "text": "sum sum sum"},
    "e": {"title": "Trace", "text": ""},
}
HOSTILE = [
    'the "mean" OR',
    "mean*",
    "title:mean",
    "^mean NEAR(mean, 2)",
    "-mean",
    "'; DROP TABLE documents; --",
    "%s \\ \0 mean",
]


@pytest.fixture(scope="module")
def pages() -> rw.text.Documents:
    return rw.text.Documents(TEXTS)


@pytest.fixture(scope="module")
def sqlite(pages, tmp_path_factory) -> engines.SQLite:
    return engines.SQLite.index(pages, tmp_path_factory.mktemp("sqlite") / "pages.db")


def fts5(query: str, document: str, fields=("title", "text")) -> float:
    """BM25 as the manual of FTS5 has it."""
    read = rw.text.Analyzer()
    words = {one: {field: read(text) for field, text in row.items()} for one, row in TEXTS.items()}
    lengths = {one: sum(map(len, row.values())) for one, row in words.items()}
    mean, total = sum(lengths.values()) / len(words), 0.0
    for word in read(query):
        df = sum(any(word in row[field] for field in fields) for row in words.values())
        idf = max(math.log((len(words) - df + 0.5) / (df + 0.5)), 1e-6)
        tf = sum(words[document][field].count(word) for field in fields)
        total += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * lengths[document] / mean))
    return total


# --- SQLite ----------------------------------------------------------------------------------------------------------


def test_sqlite_finds_and_scores_as_its_manual_says(sqlite):
    run = sqlite.search({"q": "sum of the mean mean", "none": "zebra", "empty": "…"}, k=10)
    assert run.columns == ["query", "document", "score"]
    assert set(run["query"]) == {"q"}
    assert set(run["document"]) == {"a", "b", "c", "d"}
    assert run["score"].is_sorted(descending=True)
    np.testing.assert_allclose(run["score"], [fts5("sum of the mean mean", one) for one in run["document"]])
    assert sqlite.search(["sum of the mean mean"], k=2)["document"].to_list() == run["document"].to_list()[:2]


def test_scores_of_fields_for_pairs(sqlite):
    queries = {"p": "mean sum", "q": "nan", "unused": "x"}
    pairs = pl.DataFrame({"query": ["p", "p", "q", "p", "q"], "document": ["d", "a", "c", "e", "gone"]})
    scores = sqlite.scores(queries, pairs)
    assert scores.columns == ["query", "document", "score(title)", "score(text)"]
    assert scores.select("query", "document").equals(pairs)
    for query, document, title, text in scores.rows():
        if document == "gone":
            assert (title, text) == (0.0, 0.0)
        else:
            expected = [fts5(queries[query], document, (field,)) for field in ("title", "text")]
            np.testing.assert_allclose([title, text], expected)
    as_run = sqlite.scores(queries, {"p": {"a": 3.0}, "q": {"c": 1.0}})
    assert as_run.rows()[0] == scores.filter(pl.col("document") == "a").rows()[0]
    refuses(
        lambda: sqlite.scores({"p": "x"}, pairs), what="a query of the pairs is not among the queries", got="'q'"
    )  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE)
def test_words_of_a_query_are_words_and_nothing_else(query, sqlite, tmp_path):
    plain = " ".join(rw.text.Analyzer()(query))
    assert sqlite.search([query]).equals(sqlite.search([plain]))
    assert sqlite.search(["mean"]).height == 2
    path = tmp_path / "own.db"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("""CREATE VIRTUAL TABLE "my ""pages" USING fts5("the key" UNINDEXED, "a ""b", tokenize = porter)""")
        db.executemany("""INSERT INTO "my ""pages" VALUES (?, ?)""", [(1, "Means"), (2, "x"), (3, "y"), (4, "z")])
    own = engines.SQLite(path, table='my "pages', id="the key", fields=['a "b'])
    assert own.analyzer is None
    assert own.search([query])["document"].to_list() == (["1"] if "mean" in query else [])
    if "mean" in query:  # ids are text, whatever they are there
        assert own.scores({"q": query}, {"q": {"1": 0.0, "2": 0.0}})['score(a "b)'].to_list()[0] > 0


def test_an_index_keeps_the_analyzer_and_long_queries_work(tmp_path):
    analyzer = rw.text.Analyzer(split=False, stop="english", ngrams=2)
    pages = rw.text.Documents({"a": "東京都 x_1", "b": "京", "c": "zz"}, fields=("text",), analyzer=analyzer)
    engine = engines.SQLite.index(pages, tmp_path / "pages.db")
    assert engine.analyzer == analyzer
    assert engine.search(["京都"])["document"].to_list() == ["a"]
    assert engine.search(["the X_1"])["document"].to_list() == ["a"]
    assert engine.search([" ".join(f"zz w{number}" for number in range(2_000))])["document"].to_list() == ["c"]


def test_an_engine_is_a_retriever(sqlite, pages):
    queries, qrels = {"q": "mean sum"}, {"q": {"a": 1}}
    runs = {"fts5": sqlite.search(queries, k=3), "bm25": pages.search(queries)}
    data = rw.text.dataset(pages, queries, runs, qrels)
    assert {"score(fts5)", "reciprocal(bm25)"} <= {*(data.feature_names or ())}
    assert data.n_docs == 4
    assert {*rw.fuse(runs)["document"]} == {*np.asarray(data.document_ids).tolist()}
    queries |= {"p": "nan trace", "r": "median"}
    qrels |= {"p": {"c": 1}, "r": {"b": 1}}
    data = rw.text.dataset(pages, queries, {"fts5": sqlite.search(queries)}, qrels, unjudged="irrelevant")
    model = rw.LightGBMRanker("xendcg", rounds=2, leaves=2, min_documents=1, threads=1).fit(data)
    search = rw.text.Search(pages, model, {"fts5": sqlite})
    assert {*search.search({"q": "mean sum"})["document"]} == {*sqlite.search(["mean sum"])["document"]}
    assert rw.evaluate(sqlite.search(queries), qrels, ["ndcg@10"])["ndcg@10"][0] > 0


def test_more_hits_than_documents(sqlite):
    assert sqlite.search(["mean sum the of it nan"], k=10**6).height == 4


def test_searching_shows_progress(sqlite, pages, tmp_path, capsys):
    sqlite.search(["mean", "sum"], progress=True)
    assert "SQLite: 2 of 2 queries" in capsys.readouterr().err
    engines.SQLite.index(pages, tmp_path / "pages.db", progress=True)
    assert "SQLite: 5 documents" in capsys.readouterr().err


def test_what_sqlite_refuses(sqlite, pages, tmp_path):
    what, make = "SQLite failed", engines.SQLite
    gone = tmp_path / "gone.db"
    refuses(lambda: make(gone), what=what, got="unable to open…", where=str(gone), hint="check the path…")
    assert not gone.exists()
    (tmp_path / "other.db").write_bytes(b"no data base" * 100)
    refuses(lambda: make(tmp_path / "other.db"), what=what, got="file is not a database", hint="index the documents…")
    needed = "SQLite needs an index of this version"
    refuses(lambda: make(sqlite.where, table="x"), what=needed, got="an index that does not name…", hint="…fields=(…)")
    lost = make(sqlite.where, table="x", fields=["text"])
    refuses(lambda: lost.search(["mean"]), what=what, got="no such table: x")
    refuses(lambda: sqlite.search(["mean"], k=0), what="k must be …")
    refuses(lambda: make(sqlite.where, timeout=-1), what="timeout must be …")
    copy = make.index(pages, tmp_path / "pages.db")
    with contextlib.closing(sqlite3.connect(copy.where)) as db, db:
        db.execute("UPDATE rankwise SET about = json_set(about, '$.format', 2)")
    refuses(lambda: make(copy.where), what=needed, got="format 2")
    Path(copy.where).unlink()
    refuses(lambda: copy.search(["mean"]), what=what, got="unable to open…")


def test_a_locked_file_says_who_must_wait(pages, tmp_path):
    engine = engines.SQLite.index(pages, tmp_path / "pages.db")
    engine.timeout = 0.01
    with contextlib.closing(sqlite3.connect(engine.where, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        refuses(lambda: engine.search(["mean"]), what="SQLite failed", got="database is locked", hint="let the other…")
    assert engine.search(["mean"]).height == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, sqlite3.OperationalError])
def test_nothing_is_written_half(error, pages, tmp_path, monkeypatch):
    path = tmp_path / "pages.db"
    before = engines.SQLite.index(pages, path).search(["mean"])
    with pytest.raises(FileExistsError, match="exists already"):
        engines.SQLite.index(pages, path)

    def broken(*arguments):
        yield [("z", "", "")]
        raise error("disk full")

    monkeypatch.setattr("rankwise.wings.text.engines.sqlite.batches", broken)
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else rw.errors.InputError):
        engines.SQLite.index(pages, path, force=True)
    assert [one.name for one in tmp_path.iterdir()] == ["pages.db"]
    assert engines.SQLite(path).search(["mean"]).equals(before)


def test_batches_are_the_words_of_documents(pages, monkeypatch):
    monkeypatch.setattr(shared, "_BATCH", 2)
    rows = [row for part in shared.batches(pages, False, "x") for row in part]
    read = rw.text.Analyzer()
    assert rows == [(one, *(" ".join(read(text)) for text in row.values())) for one, row in TEXTS.items()]


def test_a_mistake_of_ours_is_not_called_one_of_the_engine(sqlite, monkeypatch):
    monkeypatch.setattr(sqlite, "_hits", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sqlite.search(["mean"])


# --- servers behind HTTP ---------------------------------------------------------------------------------------------


def hits_of(*pairs, **more):
    return {"timed_out": False, "hits": {"hits": [{"_id": one, "_score": score} for one, score in pairs]}, **more}


MAPPING = {"pages-1": {"mappings": {"properties": {"title": {"type": "text"}}}}}


@pytest.mark.parametrize("kind", [engines.Elasticsearch, engines.OpenSearch])
def test_elasticsearch_and_opensearch(kind):
    with recorded(MAPPING, hits_of(("a", 2.5), ("b", 1)), hits_of(("a", 2)), hits_of()) as server:
        engine = kind(server.address, "my pages", fields=("title", "text"))
        run = engine.search({"q": 'The "mean" OR *'}, k=7)
        scores = engine.scores({"q": "mean"}, run)
    assert run.rows() == [("q", "a", 2.5), ("q", "b", 1.0)]
    assert scores.rows() == [("q", "a", 2.0, 0.0), ("q", "b", 0.0, 0.0)]
    mapping, search, title, text = server.asked
    assert (mapping.method, mapping.path) == ("GET", "/my%20pages/_mapping")
    assert (search.method, search.path) == ("POST", "/my%20pages/_search?allow_partial_search_results=false")
    asked = search.body["query"]["bool"]
    assert asked["should"] == [{"match": {field: {"query": 'The "mean" OR *'}}} for field in ("title", "text")]
    assert (search.body["size"], search.body["_source"], asked["minimum_should_match"]) == (7, False, 1)
    assert title.body["query"]["bool"]["should"] == [{"match": {"title": {"query": "mean"}}}]
    assert text.body["query"]["bool"]["filter"] == {"ids": {"values": ["a", "b"]}}
    assert repr(engine) == f"{kind.name}({server.address}/my pages, fields title, text)"


def test_an_index_of_elasticsearch_gets_its_name_when_it_is_complete(pages, monkeypatch):
    monkeypatch.setattr(shared, "_BATCH", 3)
    mapping = {"mappings": {"_meta": {"rankwise": shared.about(pages)}}}
    done = [{"acknowledged": True}, {"errors": False}, {"errors": False}, {}, {}, {"pages-2": mapping}, hits_of()]
    with recorded((404, {"status": 404}), *done) as server:
        engine = engines.Elasticsearch.index(pages, server.address, "pages")
        engine.search(["The nanMean"])
    assert (engine.fields, engine.analyzer) == (("title", "text"), pages.analyzer)
    _, made, bulk, _, refresh, alias, _, search = server.asked
    new = made.path[1:]
    assert made.method == "PUT"
    assert new.startswith("pages-")
    assert made.body["mappings"]["properties"]["text"] == {"type": "text", "analyzer": "whitespace"}
    assert bulk.body[:2] == [
        {"index": {"_id": "a"}},
        {"title": "mean", "text": "the mean of an array or the mean of its parts"},
    ]
    assert len(bulk.body) == 6
    assert refresh.path == f"/{new}/_refresh"
    assert alias.body == {"actions": [{"add": {"index": new, "alias": "pages"}}]}
    assert search.body["query"]["bool"]["should"][0] == {"match": {"title": {"query": "the nan mean"}}}

    with recorded({"pages-1": {}}) as server:
        refuses(lambda: engines.Elasticsearch.index(pages, server.address, "pages"), what="the index is there…")
    answers = [{"pages-1": {}}, {}, {"errors": False}, {"errors": False}, {}, {}, {"pages-2": mapping}]
    with recorded(*answers) as server:
        engines.Elasticsearch.index(pages, server.address, "pages", force=True)
    assert server.asked[5].body["actions"][0] == {"remove_index": {"index": "pages-1"}}
    with recorded((404, {"status": 404}), {}, {"errors": True}, {}) as server:
        refuses(lambda: engines.Elasticsearch.index(pages, server.address), what="Elasticsearch refused documents")
    assert (server.asked[3].method, server.asked[3].path) == ("DELETE", server.asked[1].path)


def test_solr():
    docs = [{"sku": "a", "score": 2.5}, {"sku": "b,c", "score": 1}]
    answer = {"responseHeader": {"status": 0}, "response": {"docs": docs}}
    with recorded(answer, answer) as server:
        engine = engines.Solr(f"{server.address}/solr", "pages", id="sku", fields=["title"])
        run = engine.search({"q": "the {!x} mean)"}, k=7)
        engine.scores({"q": "mean"}, run)
    assert run.rows() == [("q", "a", 2.5), ("q", "b,c", 1.0)]
    search, scores = server.asked
    assert search.path == "/solr/pages/query"
    words = [{"field": {"f": "title", "query": word}} for word in ("the", "x", "mean")]
    assert search.body == {"query": {"bool": {"should": words}}, "fields": ["sku", "score"], "limit": 7}
    assert scores.body["filter"] == [{"terms": {"f": "sku", "separator": "\n", "query": "a\nb,c"}}]
    with recorded({**answer, "responseHeader": {"partialResults": True}}) as server:
        engine = engines.Solr(server.address, "pages", id="sku", fields=["title"])
        refuses(lambda: engine.search(["x"]), what="Solr failed", got="the answer has a part…", hint="raise timeout=…")


def test_vespa():
    children = [{"id": "id:x:pages::a", "relevance": 2.5, "fields": {"id": "a"}}]
    with recorded({"root": {"children": children, "coverage": {"full": True}}}, {"root": {}}) as server:
        engine = engines.Vespa(server.address, "pages", fields=["title", "text"], ranking="bm25", timeout=2)
        run = engine.search({"q": 'mean" or true'}, k=7)
        engine = engines.Vespa(server.address, "pages", fields=["title"])
        assert engine.scores({"q": "mean"}, {"q": {'a"\\': 1.0}}).rows() == [("q", 'a"\\', 0.0)]
    assert run.rows() == [("q", "a", 2.5)]
    search, scores = server.asked
    words = " or ".join(f'{field} contains "{word}"' for field in ("title", "text") for word in ("mean", "or", "true"))
    expected = {"yql": f"select id from pages where ({words})", "hits": 7, "ranking": "bm25", "timeout": "2.0s"}  # noqa: S608
    assert (search.path, search.body) == ("/search/", expected)
    assert scores.body["yql"] == r'select id from pages where (title contains "mean") and id in ("a\"\\")'
    with recorded({"root": {"errors": [{"code": 12}]}}) as server:
        refuses(lambda: engines.Vespa(server.address, "pages", fields=["title"]).search(["x"]), what="Vespa failed")


def breaks(handler):
    give(handler, 200, b'{"timed_out": fal', length=900)


def silent(handler):
    handler.connection.recv(1)  # until the other side gives up


def moved(handler):
    give(handler, 302, b"{}", Location="http://127.0.0.1:1/")


@pytest.mark.parametrize(
    ("answer", "got", "hint"),
    [
        ((401, {"error": "no"}), 'HTTP 401 Unauthorized: {"error": "no"}', "check user and password…"),
        ((403, {}), "HTTP 403…", "give this user the right…"),
        ((404, {}), "HTTP 404…", "check address and name…"),
        (moved, "HTTP 302…", "give the address that…"),
        ((400, {"reason": "Result window is too large"}), "HTTP 400…", "ask for 10,000 documents at most…"),
        ((400, {"message": "200000 hits requested, configured maxHits is 400"}), "HTTP 400…", "…raise maxHits…"),
        ((503, b"<html>\x1b[2Jbusy</html>"), "HTTP 503 Service Unavailable: …\\x1b[2J…", "check that the server runs…"),
        ((200, b"<html>login</html>"), "Expecting value…", "check that the server runs…"),
        ((200, {"took": 3}), "an answer of another form", "check that the server runs…"),
        ((200, hits_of() | {"timed_out": True}), "the answer has a part…", "raise timeout=…"),
        (breaks, "IncompleteRead…", "check that the server runs…"),
        (silent, "timed out", "raise timeout=…"),
        (lambda handler: handler.connection.close(), "…", "check that the server runs…"),
    ],
)
def test_what_a_server_refuses(answer, got, hint):
    with recorded(MAPPING, answer) as server:
        address = server.address.replace("http://", "http://me:geheim%21@")
        engine = engines.Elasticsearch(address, fields=["title"])
        engine._server.timeout = 0.1 if answer is silent else 60.0
        fields = {"what": "Elasticsearch failed", "got": got, "where": f"{server.address}…", "hint": hint}
        refuses(lambda: engine.search({"one": "mean"}, k=10**6), **fields)
    assert server.asked[1].headers["Authorization"] == "Basic bWU6Z2VoZWltIQ=="
    assert server.asked[1].body["size"] == 10**6


def test_what_is_secret_is_shown_nowhere():
    echo = {"error": "no user me:geheim!, geheim%21, Basic bWU6Z2VoZWltIQ==, ApiKey c2VjcmV0"}
    with recorded((401, echo), (401, echo)) as server:
        address = server.address.replace("http://", "http://me:geheim%21@")
        for headers in ({}, {"X-Key": "ApiKey c2VjcmV0"}):
            with refusal(what="Elasticsearch failed", where=server.address) as raised:
                engines.Elasticsearch(address, fields=["title"], headers=headers)
            shown = "".join(traceback.format_exception(raised.value)) + repr(raised.value)
            assert (raised.value.__context__, raised.value.__cause__) == (None, None)
            assert not [word for word in ("geheim", "bWU6") if word in shown]
            assert ("c2VjcmV0" in shown) == (not headers)
    with recorded((401, {"error": 'no password ge"heim'})) as server:  # in JSON a backslash stands in it
        address, got = (
            server.address.replace("//", "//me:ge%22heim@"),
            'HTTP 401 Unauthorized: {"error": "no password …"}',
        )
        refuses(lambda: engines.Elasticsearch(address, fields=["title"]), what="Elasticsearch failed", got=got)
    with recorded(MAPPING) as server:
        engine = engines.OpenSearch(server.address.replace("http://", "http://me:geheim%21@"), fields=["title"])
    assert "geheim" not in repr(engine) + repr(vars(engine))


@pytest.mark.parametrize("password", ["ge/heim", "ge#heim", "ge?heim", "ge[heim"])
def test_a_password_that_breaks_the_address_is_not_shown(password):
    with refusal(what="OpenSearch needs an address", hint="write https://host:9200; in a password / is %2F…") as raised:
        engines.OpenSearch(f"http://me:{password}@127.0.0.1:1", fields=["title"])
    shown = "".join(traceback.format_exception(raised.value))
    assert not [part for part in ("ge", "heim", "ge/") if f"'{part}'" in shown or f":{part}" in shown]
    assert (raised.value.__context__, raised.value.__cause__) == (None, None)


@pytest.mark.parametrize("key", ["ApiKey geheim\n", "ApiKey geheim…", b"geheim", None])
def test_a_key_that_is_no_header_is_not_shown(key):
    with refusal(what="a header must be one line of ASCII", where="headers['Authorization']") as raised:
        engines.OpenSearch("http://127.0.0.1:1", fields=["title"], headers={"Authorization": key})
    assert "geheim" not in "".join(traceback.format_exception(raised.value)) + repr(raised.value)


@pytest.mark.parametrize("status", [401, 403, 500])
def test_an_index_that_may_not_be_looked_at_is_not_replaced(status, pages):
    answer = (status, {"error": {"type": "security_exception"}, "status": status})
    with recorded(answer) as server:
        refuses(
            lambda: engines.OpenSearch.index(pages, server.address, force=True), what="OpenSearch failed", got="HTTP …"
        )
    assert len(server.asked) == 1


def test_addresses_that_are_refused():
    for kind in (engines.Elasticsearch, engines.OpenSearch, engines.Solr, engines.Vespa):
        with refusal(what=f"{kind.name} needs an address"):
            kind("localhost:9200", "x", fields=["a"])
    refuses(lambda: engines.Solr("http://localhost:1", "x", fields=["a"], timeout=0), what="timeout must be …")
    engine = engines.Solr("http://127.0.0.1:1", "x", fields=["a"])
    refuses(lambda: engine.search(["mean"]), what="Solr failed", got="…refused…", hint="check that the server runs…")
    needed = "Vespa needs an index of this version"
    refuses(lambda: engines.Vespa("http://localhost:1", "x"), what=needed, hint="check that the server runs…")
