"""Preferences as a table: parts, words, what comparisons cannot tell, and their use as labels and as evidence."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.judging import Preferences, preferences
from tests.refusals import refuses

COLUMNS = ["query", "first", "second", "preferred"]


def table(*rows: tuple[object, ...]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def drawn(queries: int, documents: int, number: int, seed: int = 0) -> tuple[pl.DataFrame, Any]:
    """Return pairs in both orders, of documents with planted strengths, and these."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(queries, documents))
    rows = []
    for query in range(queries):
        for _ in range(number):
            pair = rng.choice(documents, 2, replace=False)
            for a, b in (pair, pair[::-1]):
                won = rng.random() < 1.0 / (1.0 + np.exp(truth[query, b] - truth[query, a] - 0.5))
                rows.append((f"q{query}", f"d{a}", f"d{b}", f"d{a}" if won else f"d{b}"))
    return table(*rows), truth


def strength(found: Preferences, query: str = "q") -> dict[str, float]:
    rows = found.to_frame().filter(pl.col("query") == query)
    return dict(zip(rows["document"], rows["strength"], strict=True))


def test_words_ids_files_and_the_order_of_rows_give_the_same(tmp_path: Path):
    rows = [
        ("q", "007", "b", "007"),
        ("q", "b", "007", "tie"),
        ("q", "b", "c", "c"),
        ("r", "x", "y", "x"),
        ("q", "c", "b", "c"),
    ]
    words = {"007": "first", "tie": "tie", "x": "first"}
    named = table(*((*row[:3], words.get(row[3], "first" if row[3] == row[1] else "second")) for row in rows))
    found = preferences(table(*rows))
    assert preferences(named).to_frame().equals(found.to_frame())
    assert strength(preferences(table(*rows[::-1]))) == pytest.approx(strength(found), abs=1e-9)
    table(*rows, ("q", "c", "b", None)).write_csv(tmp_path / "pairs.csv")
    read = preferences(tmp_path / "pairs.csv")
    assert read.to_frame().equals(found.to_frame())
    assert "Left out: 1 row without a preference." in read.notes
    numbers = preferences(table((1, 10, 11, 10), (1, 11, 10, 10)))
    assert numbers.to_frame()["document"].to_list() == ["10", "11"]


def test_showing_the_others_first_turns_the_bias_round():
    pairs, _ = drawn(5, 4, 8)
    turned = pairs.rename({"first": "second", "second": "first"})
    one, other = preferences(pairs), preferences(turned)
    assert one.bias == pytest.approx(-other.bias, abs=1e-9)
    assert one.bias > 0.2
    assert one.bias_interval[0] == pytest.approx(-other.bias_interval[1], abs=1e-9)
    assert strength(one, "q1") == pytest.approx(strength(other, "q1"), abs=1e-9)


def test_parts_that_were_never_compared_are_apart():
    found = preferences(table(*[("q", a, b, a) for a, b in ("ab", "ba", "cd", "de", "ed")], ("r", "x", "y", "tie")))
    parts = found.to_frame().group_by("query", "part").agg("document").sort("query", "part")
    assert [sorted(row) for row in parts["document"]] == [["c", "d", "e"], ["a", "b"], ["x", "y"]]
    assert parts["part"].to_list() == [0, 1, 0]
    means = found.to_frame().group_by("query", "part").agg(pl.col("strength").mean())["strength"]
    assert means.to_numpy() == pytest.approx(0.0, abs=1e-9)
    assert any(note.startswith("1 query has parts that were never compared") for note in found.notes)
    assert found.labels().filter(pl.col("query") == "q")["document"].sort().to_list() == ["c", "d", "e"]
    assert "part" in repr(found).splitlines()[0]
    assert "part" not in repr(preferences(table(("q", "a", "b", "a")))).splitlines()[0]


def test_notes_say_what_comparisons_cannot_tell():
    cycle = [("q", "a", "b", "a"), ("q", "b", "c", "b"), ("q", "c", "a", "c")]
    assert preferences(table(*cycle)).notes == (
        "No pair was shown in both orders: the position bias is hard to tell from strengths.",
    )
    both = [(query, b, a, won) for query, a, b, won in cycle]
    assert preferences(table(*cycle, *both)).notes == ()
    tied = preferences(table(("q", "a", "b", "tie"), ("q", "b", "a", "tie")))
    assert tied.notes == ()
    assert strength(tied) == pytest.approx({"a": 0.0, "b": 0.0})
    assert tied.bias == pytest.approx(0.0)  # neither the first nor the second has won
    won = preferences(table(*cycle, *both, ("q", "a", "d", "a"), ("q", "d", "a", "a"), ("q", "d", "a", "a")))
    assert any(note.startswith("In 1 query some documents won all") for note in won.notes)
    assert any(note.startswith("1 row repeats a pair in the same order") for note in won.notes)


def test_labels_order_documents_as_strengths_do():
    pairs, truth = drawn(30, 6, 25)
    found = preferences(pairs)
    joined = found.to_frame().join(found.labels(), on=["query", "document"])
    above = pl.col("strength") - pl.col("strength").min().over("query")
    assert joined.select((above - pl.col("grade")).abs().max()).item() == 0.0
    graded = found.labels(grades=4)
    assert graded["grade"].unique().sort().to_list() == [0.0, 1.0, 2.0, 3.0]
    assert graded["grade"].value_counts()["count"].to_list() == pytest.approx([45] * 4, abs=1)
    ordered = graded.join(found.to_frame(), on=["query", "document"]).sort("strength")["grade"]
    assert ordered.is_sorted()
    estimated = np.array([[strength(found, f"q{q}")[f"d{d}"] for d in range(6)] for q in range(30)])
    assert np.corrcoef(estimated.ravel(), (truth - truth.mean(1, keepdims=True)).ravel())[0, 1] > 0.8


def test_labels_train_a_ranker_and_serve_as_a_judge():
    pairs, truth = drawn(40, 6, 25)
    found = preferences(pairs)
    rng = np.random.default_rng(1)
    ids = [(f"q{q}", f"d{d}") for q in range(40) for d in range(6)]
    features = pl.DataFrame(ids, schema=["query", "document"], orient="row")
    features = features.with_columns(x=pl.Series(truth.ravel()), noise=pl.Series(rng.normal(size=240)))
    rows = features.join(found.labels(), on=["query", "document"], maintain_order="left")
    data = rw.RankingDataset.from_frame(
        rows, query="query", label="grade", document="document", features=["x", "noise"]
    )
    assert (data.labels != np.round(data.labels)).any()  # real numbers
    ranker = rw.LightGBMRanker("xendcg", rounds=20, leaves=4, min_documents=5, threads=1).fit(data)
    assert np.corrcoef(ranker.predict(data), truth.ravel())[0, 1] > 0.8
    # As a judge, with people's grades of half of the queries.
    people = {
        q: {f"d{d}": round(max(truth[int(q[1:]), d] + 1.0, 0.0)) for d in range(6)}
        for q in [f"q{n}" for n in range(30)]
    }
    runs = {name: {q: {f"d{d}": float(truth[int(q[1:]), d] + noise * rng.normal()) for d in range(6)}
                   for q in [f"q{n}" for n in range(40)]} for name, noise in (("new", 0.2), ("old", 3.0))}  # fmt: skip
    compared = rw.compare(runs, people, "ndcg@3", judge=found.labels(grades=4))
    (mean,) = compared.means
    assert (mean.system, mean.against) == ("old", "new")
    assert mean.judge < 0.0
    assert mean.high < 0.0


def test_results_print_are_saved_and_drawn(tmp_path: Path):
    found = preferences(drawn(3, 9, 12)[0])
    assert "7 more documents: see to_frame()." in repr(found)
    assert (
        found.save(tmp_path / "strengths.csv")
        .read_text()
        .startswith("query,document,part,comparisons,strength,low,high")
    )
    assert found.to_dict()["bias"] == found.bias
    found.plot(tmp_path / "strengths.png", query="q1")
    assert "<script>" not in preferences(table(("q", "<script>", "b", "first"))).to_html()
    refuses(lambda: found.plot(query="none"), what="no documents of this query were compared", got="'none'")


def test_bad_preferences_are_refused():
    refuses(
        lambda: preferences(table(("q", "a", "b", "c"))),
        what="preferred must be 'a', 'b', first, second or tie",
        got="'c'",
    )
    refuses(lambda: preferences(table(("q", "a", "a", "a"))), what="a document is not compared with itself", got="'a'")
    refuses(lambda: preferences(table(("q", "a", "b", None))), what="there are no preferences")
    refuses(lambda: preferences(table(("q", None, "b", "b"))), what="the first must be known…")
    refuses(
        lambda: preferences(table(("q", "a", "b", "a")).drop("second")),
        what="preferences need columns…",
        got="no second",
    )
    refuses(lambda: preferences(table(("q", "a", "b", "a")), level=1.0), what="level must be…")
    refuses(lambda: preferences(table(("q", "a", "b", "a")), ridge=0.0), what="ridge must be…")
    refuses(lambda: preferences(table(("q", "a", "b", "a"))).labels(grades=1), what="grades must be…")
