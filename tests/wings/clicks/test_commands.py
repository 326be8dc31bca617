"""Commands of click logs: from a log to a decision, and what is refused on the way."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.cli.running import refused, run

NAMES = ("--document", "sku", "--position", "rank", "--system", "arm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A log of three rankers, features, and production's run."""
    folder: Path = tmp_path_factory.mktemp("clicks")
    data = rw.synthetic(n_queries=60, n_docs=8, seed=3)
    ids = [f"d{number}" for number in range(data.n_docs)]
    data = data.with_(query_ids=[f"q{number}" for number in range(60)], document_ids=ids)
    arms = {name: data.features[:, number] for number, name in enumerate(("old", "second", "third"))}
    log = rw.clicks.simulate(data, rankers=arms, curve=[1.0, 0.6, 0.4, 0.3], impressions=60, seed=1)
    sessions: Any = log.sessions
    lengths = np.diff(sessions.offsets)
    rows = {
        "query": np.repeat(log.query_ids, np.diff(log.offsets))[sessions.pairs],
        "sku": log.document_ids[sessions.pairs],
        "impression": np.repeat(np.arange(lengths.size), lengths),
        "rank": sessions.positions,
        "clicked": sessions.clicked,
        "arm": np.array(log.ranker_names)[np.repeat(sessions.rankers, lengths)],
        "half": np.where(np.repeat(np.arange(lengths.size) % 2, lengths) == 1, "phone", "desktop"),
        "when": np.array(["2024-05-01T12:00:00Z", "2024-05-02T01:00:00+02:00"])[
            np.repeat(np.arange(lengths.size) % 2, lengths)
        ],
    }
    pl.DataFrame(rows).write_parquet(folder / "log.parquet")
    rw.data.to_frame(data).drop("label").rename({"qid": "query", "document": "sku"}).write_parquet(
        folder / "features.parquet"
    )
    rw.trec.write_run(arms["old"], data, folder / "old.run")
    return folder


def test_from_a_log_to_a_decision(folder):
    log, features, bias, model = (folder / name for name in ("log.parquet", "features.parquet", "bias.json", "model"))
    page = run("clicks", "info", log, *NAMES, "--plot", folder / "log.png").stdout
    assert "click-through" in page
    assert (folder / "log.png").stat().st_size > 0

    printed = run("clicks", "propensities", log, *NAMES, "-o", bias).stdout
    assert "alpha" in printed
    assert "observed over predicted" in printed
    read = rw.clicks.read(
        log, query="query", document="sku", impression="impression", position="rank", clicked="clicked", ranker="arm"
    )
    assert np.array_equal(rw.clicks.read_bias(bias).alpha, rw.clicks.propensities(read).alpha)
    assert "exists already" in refused("clicks", "propensities", log, *NAMES, "-o", bias)
    daily = run(
        "clicks", "propensities", log, *NAMES, "--time", "when", "--period", "1", "-o", folder / "1.json"
    ).stdout
    assert "documents were compared within periods of 1 day" in " ".join(daily.split())

    words = (log, features, *NAMES, "--bias", bias)
    expression = "lightgbm(plrank(samples=20), rounds=5, leaves=4)"
    told = json.loads(
        run("clicks", "train", *words, "--ranker", expression, "-o", model, "--threads", "1", "--json").stdout
    )
    ranker = rw.load(model)
    assert told["queries"] < 60  # the others are held out
    assert told["stopped"] == "rounds"
    hurried = ("--ranker", expression, "-o", folder / "hurried", "--minutes", "0.0001", "--progress")
    done = run("clicks", "train", *words, *hurried)
    assert "best round 1 (stopped: minutes)" in done.stdout
    assert "Estimating relevance from clicks on" in done.stderr
    assert "minutes must be" in refused("clicks", "train", *words, "-o", folder / "odd", "--minutes", "0")

    document = json.loads(
        run(
            "clicks", "compare", log, features, f"new={model}", f"production={folder / 'old.run'}", *words[2:], "--json"
        ).stdout
    )
    assert document["verdict"] in ("ship", "do not ship", "cannot tell")
    code = {"ship": 0, "do not ship": 3, "cannot tell": 4}[document["verdict"]]
    systems = (f"new={model}", f"production={folder / 'old.run'}")
    run("clicks", "compare", log, features, *systems, *words[2:], "--strict", code=code)
    by_half = run("clicks", "compare", log, features, *systems, *words[2:], "--segment", "half", "--json").stdout
    assert [one["value"] for one in json.loads(by_half)["segments"]] == ["desktop", "phone"]
    assert len(document["blends"]) >= 3
    assert "segments" not in document
    assert document["left_out"] == 0
    assert document["assumptions"][0]["sentence"] == "Whether production learned from these clicks is not known."
    said = refused(
        "clicks",
        "compare",
        log,
        features,
        f"new={model}",
        f"production={folder / 'old.run'}",
        *words[2:],
        "--holdout",
        "1",
    )
    assert f"got {60 - told['queries']} of 60 queries, of at least 30" in said
    assert "clicks train --holdout" in said
    several = (
        "clicks",
        "compare",
        log,
        features,
        f"a={model}",
        *(f"{name}={folder / 'old.run'}" for name in ("b", "c")),
    )
    several += (*words[2:], "--plot", folder / "several.png", "--force")
    assert "Levels are Holm's for 2 candidates" in run(*several).stdout
    candidates = json.loads(run(*several, "--json").stdout)["candidates"]
    assert {name: one["level"] for name, one in candidates.items()} == {"a": 0.975, "b": 0.975}
    assert {one["name"] for one in candidates["a"]["assumptions"]} >= {"the click model", "production's own clicks"}
    assert repr(ranker).startswith("lightgbm(plrank(samples=20)")


def test_what_is_wrong_with_a_log_is_a_sentence(folder, tmp_path):
    said = refused("clicks", "info", folder / "log.parquet")
    assert "unknown columns (document=, position=): got 'document', 'position'" in said
    assert "did you mean --document sku, --position rank" in said
    broken = tmp_path / "log.csv"
    broken.write_text("query,document,impression,position,clicked\nq,d,1,1,maybe\n")
    assert "line 2" in refused("clicks", "info", broken)
    one = tmp_path / "one.csv"
    one.write_text("query,document,impression,position,clicked\n" + "q,a,1,1,1\nq,b,1,2,0\nq,a,2,1,0\nq,b,2,2,1\n")
    assert "position bias is not identified" in refused("clicks", "propensities", one, "-o", tmp_path / "bias.json")
    assert not (tmp_path / "bias.json").exists()


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_scores_of_a_table_with_the_logs_columns(folder, tmp_path, ending):
    """Queries are texts with blanks, which no run can hold."""
    for name in ("log", "features"):
        table = pl.read_parquet(folder / f"{name}.parquet")
        table.with_columns(pl.col("query").str.replace("q", "the query ")).write_parquet(tmp_path / f"{name}.parquet")
    old = rw.trec.read_run(folder / "old.run").select(
        pl.col("query").str.replace("q", "the query "), "score", sku="document"
    )
    systems = {"new": old.with_columns(pl.col("score").sort().over("query")), "production": old}
    nested: dict[str, Any] = {name: {} for name in systems}
    for name, table in systems.items():
        for query, score, document in table.iter_rows():
            nested[name].setdefault(query, {})[document] = score
        if ending == "parquet":
            table.write_parquet(tmp_path / f"{name}.parquet")
        else:
            table.write_csv(tmp_path / f"{name}.{ending}", separator="\t" if ending == "tsv" else ",")
    rw.clicks.Bias.known([1.0, 0.6, 0.4, 0.3]).save(tmp_path / "bias.json")
    roles: Any = {
        "query": "query",
        "document": "sku",
        "impression": "impression",
        "position": "rank",
        "clicked": "clicked",
    }
    log = rw.clicks.read(tmp_path / "log.parquet", **roles, ranker="arm")
    features = pl.read_parquet(tmp_path / "features.parquet")
    expected = rw.clicks.compare(nested, log, rw.clicks.read_bias(tmp_path / "bias.json"), features)
    files = [tmp_path / "log.parquet", tmp_path / "features.parquet"]
    files += [f"{name}={tmp_path / name}.{ending}" for name in systems]
    options = (*NAMES, "--bias", tmp_path / "bias.json", "--holdout", "1", "--json")
    assert json.loads(run("clicks", "compare", *files, *options).stdout)["blends"] == expected.to_frame().to_dicts()


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        (
            "new.csv",
            "query,sku,value\nq1,d1,2\n",
            ["new.csv", "unknown column (score=)", "choose one of query, sku, value"],
        ),
        ("new.csv", "query,sku,score\nq1,d1,2\nq1,d2,much\n", ["new.csv", "document 'd2' of query 'q1'"]),
        ("new.csv", "query,sku,score\nq1,,2\n", ["new.csv, line 2", "the document must be known"]),
        (
            "new.run",
            "a good tv\tQ0\td1\t1\t2.0\tx\n",
            ["line 1 of", "ids with blanks need a table", "query, sku, score"],
        ),
    ],
)
def test_scores_that_cannot_be_read_are_named(folder, tmp_path, name, content, named):
    (tmp_path / name).write_text(content)
    rw.clicks.Bias.known([1.0, 0.6, 0.4, 0.3]).save(bias := tmp_path / "bias.json")
    files = folder / "log.parquet", folder / "features.parquet", f"new={tmp_path / name}", f"old={folder / 'old.run'}"
    said = refused("clicks", "compare", *files, *NAMES, "--bias", bias)
    for words in named:
        assert words in said.replace("- ", "-"), said
