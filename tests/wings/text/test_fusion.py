"""Fusion of runs: every method by its formula in plain Python, ties, what is missing, and what does not matter."""

import math
import random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import rankwise as rw
from rankwise.wings.text import METHODS, SCALES
from tests.cli.running import refused, run
from tests.refusals import refuses

Runs = dict[str, dict[str, dict[str, float]]]
fuse: Any = rw.fuse
BM25 = {"q1": {"a": 9.0, "b": 5.0, "c": 1.0}, "q2": {"x": 2.0}}
VECTORS = {"q1": {"b": -0.1, "d": -0.5}, "q3": {"y": -0.3, "z": -0.9}}
RUNS = {"bm25": BM25, "vectors": VECTORS}
SHARES = [0.5, 2.0, 1.0]

SCORES = some.one_of(some.integers(-3, 3).map(float), some.floats(-1e300, 1e300))
DOCUMENTS = some.dictionaries(some.sampled_from("abcdefgh"), SCORES, min_size=1)
RUNS_OF_ANY_KIND = some.lists(
    some.dictionaries(some.sampled_from(["q1", "q2", "q3"]), DOCUMENTS, min_size=1), min_size=1, max_size=3
).map(lambda runs: {f"run {number}": found for number, found in enumerate(runs)})


def scaled(scores: dict[str, float], scale: str, minimum: float) -> dict[str, float]:
    low, high = min(scores.values()), max(scores.values())
    if low == high:
        return dict.fromkeys(scores, 1.0)
    units = {one: (score / 2 - low / 2) / (high / 2 - low / 2) for one, score in scores.items()}
    mean = math.fsum(units.values()) / len(units)
    deviation = math.sqrt(math.fsum((unit - mean) ** 2 for unit in units.values()) / len(units))
    share = (high / 2 - low / 2) / (high / 2 - minimum / 2) if scale == "minimum" else 1.0
    return {one: unit * share / (deviation if scale == "z" else 1.0) for one, unit in units.items()}


def plain(
    runs: Runs, method: str, weights: list[float], k: float = 60.0, scale: str = "min-max", minimum: float = 0.0
) -> dict[str, dict[str, float]]:
    """The formulas, one document after another."""
    fused: dict[str, dict[str, float]] = {}
    for query in {query for found in runs.values() for query in found}:
        parts: dict[str, list[float]] = {}
        for weight, found in zip(weights, runs.values(), strict=False):
            scores = found.get(query, {})
            for document, score in scores.items():
                above = sum(other > score for other in scores.values())
                rank = above + (sum(other == score for other in scores.values()) + 1) / 2
                part = {"rrf": 1 / (k + rank), "isr": rank**-2}.get(method)
                part = scaled(scores, scale, minimum)[document] if part is None else part
                parts.setdefault(document, []).append(weight * part)
        times = 1 / sum(weights[: len(runs)]) if method == "convex" else 1.0
        counted = method in ("isr", "combmnz")
        fused[query] = {
            document: math.fsum(each) * times * (len(each) if counted else 1) for document, each in parts.items()
        }
    return fused


def as_dictionary(frame: pl.DataFrame) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for query, document, score in frame.rows():
        found.setdefault(query, {})[document] = score
    return found


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40)
@given(runs=RUNS_OF_ANY_KIND)
def test_methods_are_their_formulas(method: str, scale: str, runs: Runs):
    least = min(score for found in runs.values() for scores in found.values() for score in scores.values())
    frame = fuse(runs, method, weights=SHARES[: len(runs)], k=3.0, scale=scale, minimum=least)
    expected = plain(runs, method, SHARES, 3.0, scale, least)
    found = as_dictionary(frame)
    assert found.keys() == expected.keys()
    for query, scores in expected.items():
        assert found[query] == pytest.approx(scores, rel=1e-9, abs=1e-12)
    ordered = frame.sort("query", "score", "document", descending=[False, True, True])
    assert frame.equals(ordered)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40)
@given(runs=RUNS_OF_ANY_KIND, seed=some.integers(0, 9))
def test_the_order_of_rows_queries_and_runs_does_not_matter(method: str, runs: Runs, seed: int):
    chance = random.Random(seed)  # noqa: S311

    def shuffled(one: dict[str, Any]) -> dict[str, Any]:
        return dict(chance.sample(sorted(one.items(), key=lambda item: item[0]), len(one)))

    again = shuffled(
        {name: shuffled({q: shuffled(scores) for q, scores in found.items()}) for name, found in runs.items()}
    )
    for scale in SCALES[:2]:
        assert fuse(again, method, scale=scale).equals(fuse(runs, method, scale=scale))


@pytest.mark.parametrize("method", ["rrf", "isr"])
@settings(max_examples=40)
@given(runs=RUNS_OF_ANY_KIND)
def test_ranks_are_all_that_fusion_of_ranks_sees(method: str, runs: Runs):
    places = sorted({score for found in runs.values() for scores in found.values() for score in scores.values()})
    again = {
        name: {q: {one: places.index(score) - 7.5 for one, score in scores.items()} for q, scores in found.items()}
        for name, found in runs.items()
    }
    assert fuse(again, method).equals(fuse(runs, method))


@settings(max_examples=40)
@given(runs=RUNS_OF_ANY_KIND, scale=some.sampled_from(["min-max", "z"]))
def test_a_document_that_one_run_finds_last_is_below_all_others_of_it(runs: Runs, scale: str):
    """However low its score is, it gets no less than nothing, which is what a document gets that is missing."""
    name, found = next(iter(runs.items()))
    more = {query: {**scores, "new": -1e301} for query, scores in found.items()}
    for method in METHODS:
        fused = as_dictionary(fuse({**runs, name: more}, method, scale=scale))
        for query, scores in found.items():
            assert 0.0 <= fused[query]["new"] <= min(fused[query][one] for one in scores)


def test_a_document_that_a_run_lacks_is_never_above_those_that_it_has():
    """Of cosines below 0, and of z-scores, 0 is not the lowest."""
    for scale in ("min-max", "z"):
        found = as_dictionary(fuse(RUNS, "convex", scale=scale, weights=[0, 1]))
        assert found["q1"]["b"] > found["q1"]["d"] == found["q1"]["a"] == 0.0
        assert found["q3"]["y"] > found["q3"]["z"]
    low = as_dictionary(fuse(RUNS, "convex", scale="minimum", minimum={"vectors": -1.0}, weights=[0, 1]))
    assert low["q1"]["b"] == pytest.approx(0.4 / 0.9)
    assert low["q2"] == {"x": 0.0}


def test_weights_count_in_every_method():
    for method in METHODS:
        first = fuse(RUNS, method, weights={"vectors": 0, "bm25": 1})
        assert first.filter(pl.col("query") == "q1")["document"].to_list()[:1] == ["a"]
        assert first.filter(pl.col("score") > 0)["document"].to_list()[:2] == ["a", "b"]
        last = fuse(RUNS, method, weights=(0.1, 5))
        assert last.filter(pl.col("query") == "q1")["document"].to_list()[0] == "b"


def test_tied_documents_share_their_ranks():
    found = as_dictionary(fuse({"one": {"q": {"a": 1.0, "b": 1.0, "c": 0.0}}}, k=0))
    assert found["q"] == {"b": 1 / 1.5, "a": 1 / 1.5, "c": 1 / 3}
    assert list(found["q"]) == ["b", "a", "c"]
    three = {name: {"q": {one: -float(rank) for rank, one in enumerate(name)}} for name in ("abc", "bca", "cab")}
    assert len(set(as_dictionary(fuse(three))["q"].values())) == 1


def test_depth_takes_the_first_of_each_run_and_those_that_tie():
    run_of = {"q": {"a": 3.0, "b": 2.0, "c": 2.0, "d": 1.0}}
    assert set(as_dictionary(fuse({"one": run_of}, depth=2))["q"]) == {"a", "b", "c"}
    assert as_dictionary(fuse({"one": run_of}, "convex", depth=2))["q"] == {"a": 1.0, "c": 0.0, "b": 0.0}


def test_runs_are_tables_dictionaries_and_files(tmp_path):
    expected = fuse(RUNS)
    rows = [(query, one, score) for query, scores in BM25.items() for one, score in scores.items()]
    frame = pl.DataFrame(rows, schema=["query", "document", "score"], orient="row")
    (tmp_path / "bm25.run").write_text("".join(f"{q} Q0 {one} 0 {score} tag\n" for q, one, score in rows[::-1]))
    for one in (frame, frame.to_pandas(), tmp_path / "bm25.run", pd.DataFrame(frame.to_dict(as_series=False))):
        assert fuse({"bm25": one, "vectors": VECTORS}).equals(expected)


def test_many_queries():
    rng = np.random.default_rng(0)
    query, count = np.repeat(np.arange(3000), 100).astype(str), 300_000
    runs = {
        name: pl.DataFrame(
            {"query": query, "document": np.tile(rng.permutation(150)[:100], 3000).astype(str), "score": scores}
        )
        for name, scores in {"one": rng.normal(size=count), "two": rng.exponential(size=count)}.items()
    }
    fused = fuse(runs, "convex", weights=[1, 3])
    assert fused["query"].n_unique() == 3000
    some_query = {
        name: {"7": dict(found.filter(pl.col("query") == "7").select("document", "score").rows())}
        for name, found in runs.items()
    }
    expected = plain(some_query, "convex", [1, 3])
    assert as_dictionary(fused.filter(pl.col("query") == "7"))["7"] == pytest.approx(expected["7"])


def test_refusals():
    refuses(lambda: fuse([BM25]), what="fusion takes runs by name", got="list")
    refuses(lambda: fuse({}), what="fusion takes runs by name")
    refuses(lambda: fuse({"empty": {"q": {}}}), what="the runs hold no documents")
    refuses(lambda: fuse({1: BM25, "1": BM25}), what="names of runs must not differ by their type alone")
    refuses(lambda: fuse(RUNS, "rff"), got="'rff'", hint="did you mean 'rrf'")
    refuses(lambda: fuse(RUNS, scale="max"), got="'max'")
    refuses(lambda: fuse(RUNS, k=-1), what="k must be…")
    refuses(lambda: fuse(RUNS, depth=0), what="depth must be…")
    refuses(lambda: fuse(RUNS, weights={"bm25": 1}), what="every run needs a weight", got="none for 'vectors'")
    refuses(lambda: fuse(RUNS, weights={"bm25": 1, "vector": 1}), got="'vector'")
    refuses(lambda: fuse(RUNS, weights=[1, 2, 3]), what="each run has a weight…", got="3 for 2 runs")
    refuses(lambda: fuse(RUNS, weights=[0, 0]), got="0 for all")
    refuses(lambda: fuse(RUNS, weights=[1, -1]), what="a weight must be…")
    refuses(lambda: fuse(RUNS, weights=[1, math.nan]), what="a weight must be…")
    refuses(lambda: fuse(RUNS, "convex", scale="minimum"), got="-0.9, below 0", where="run 'vectors'")
    refuses(lambda: fuse(RUNS, "convex", minimum={"vector": -1}), got="'vector'")
    refuses(lambda: fuse({"one": {"q": {"a": math.nan}}}), what="every score must be finite")


def test_the_command(tmp_path):
    for name, found in RUNS.items():
        lines = [f"{q} Q0 {one} 1 {score} {name}\n" for q, scores in found.items() for one, score in scores.items()]
        (tmp_path / f"{name}.run").write_text("".join(lines))
    paths = [str(tmp_path / "bm25.run"), str(tmp_path / "vectors.run")]
    run("fuse", *paths, "-o", str(tmp_path / "fused.run"))
    written = rw.trec.read_run(tmp_path / "fused.run")
    expected = fuse(RUNS)
    assert written.select("query", "document").equals(expected.select("query", "document"))
    assert np.allclose(written["score"], expected["score"])
    options = ("--method", "convex", "--share", "bm25=1", "--share", "vectors=3")
    run("fuse", *paths, *options, "-o", str(tmp_path / "fused.csv"))
    table = pl.read_csv(tmp_path / "fused.csv")
    assert np.allclose(table["score"], fuse(RUNS, "convex", weights=[1, 3])["score"])
    assert "every run needs a weight" in refused("fuse", *paths, "--share", "bm25=1")
