"""Commands with a judge: a plan of what to judge, estimates from it, and from few labelled queries."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.cli.running import refused, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two runs, human labels of every third query, and a judge."""
    folder: Path = tmp_path_factory.mktemp("judge")
    rng = np.random.default_rng(1)
    data = rw.synthetic(n_queries=90, n_docs=12, seed=3)
    data = data.with_(query_ids=[f"q{n}" for n in range(90)], document_ids=[f"d{n}" for n in range(data.n_docs)])
    for name, noise in {"old": 2.0, "new": 1.0}.items():
        rw.trec.write_run(data.labels + noise * rng.normal(size=data.n_docs), data, folder / f"{name}.run")
    rw.trec.write_qrels(data, folder / "all.txt")
    rw.trec.write_qrels(data.take(np.arange(0, 90, 3)), folder / "human.txt")
    wrong = rng.random(data.n_docs) < 0.2
    rw.trec.write_qrels(data.with_(labels=np.where(wrong, 1.0, data.labels)), folder / "llm.txt")
    return folder


def test_few_labelled_queries_and_a_judge(folder):
    runs, files = (folder / "old.run", folder / "new.run"), ("--judge", folder / "llm.txt", "-m", "ndcg@10,ap")
    document = json.loads(run("evaluate", "--qrels", folder / "human.txt", *runs, *files, "--json").stdout)
    assert [one["system"] for one in document["means"]] == ["old", "new", "old", "new"]
    output = folder / "compared.csv"
    text = run("compare", "--qrels", folder / "human.txt", *runs, *files, "-o", output).stdout
    assert "labelled queries" in text
    systems = {"old": runs[0], "new": runs[1]}
    expected = rw.compare(systems, folder / "human.txt", ["ndcg@10", "ap"], judge=folder / "llm.txt")
    assert pl.read_csv(output)["value"].to_list() == pytest.approx([one.value for one in expected.means])


def test_from_a_plan_to_a_difference(folder):
    words = ("judge", "plan", f"old={folder / 'old.run'}", f"new={folder / 'new.run'}", "--judge", folder / "llm.txt")
    first, second = folder / "pilot.csv", folder / "second.csv"
    assert "60 documents of" in run(*words, "--judgements", "60", "-o", first).stdout
    truth = rw.trec.read_qrels(folder / "all.txt").cast({"grade": pl.Float64})
    for path, more in ((first, ("--judgements", "150", "--previous", first, "-o", second)), (second, None)):
        plan = pl.read_csv(path, infer_schema_length=None)
        plan.drop("grade").join(truth, on=["query", "document"], maintain_order="left").write_csv(path)
        if more:
            assert "60 were judged before" in run(*words, *more).stdout
    sampled = ("--judge", folder / "llm.txt", "--sampled", "probability", "-m", "dcg@10")
    runs = words[2:4]
    text = run("compare", "--qrels", second, *runs, *sampled).stdout
    assert "210 judgements" in " ".join(text.split())
    mean = json.loads(run("compare", "--qrels", second, *runs, *sampled, "--json").stdout)["means"][0]
    whole = json.loads(run("compare", "--qrels", folder / "all.txt", *runs, "-m", "dcg@10", "--json").stdout)
    assert mean["fixed_low"] < whole["pairs"][0]["difference"] < mean["fixed_high"]
    assert "exists already" in refused(*words, "-o", first)


def test_a_plan_without_a_judge_fills_holes(folder):
    runs, output = (f"old={folder / 'old.run'}", f"new={folder / 'new.run'}"), folder / "holes.csv"
    text = run("judge", "plan", *runs, "--previous", folder / "human.txt", "--judgements", "40", "-o", output).stdout
    assert "40 documents of" in text
    assert "the most informative first" in text
    plan, human = pl.read_csv(output), rw.trec.read_qrels(folder / "human.txt")
    assert plan["importance"].is_sorted(descending=True)
    assert plan.join(human, on=["query", "document"], how="semi").is_empty()


def test_what_does_not_go_with_a_judge_is_refused(folder):
    words = (folder / "old.run", folder / "new.run", "--judge", folder / "llm.txt")
    assert "no --qrels" in refused("compare", *words)
    assert "--titles" in refused("compare", "--qrels", folder / "human.txt", *words, "--titles", "a,b")
    assert "--paired-test" in refused("compare", "--qrels", folder / "human.txt", *words, "--paired-test", "t")
    assert "--all-topics" in refused("evaluate", "--qrels", folder / "human.txt", *words, "--all-topics")
    assert "--judge" in refused("compare", "--qrels", folder / "human.txt", *words[:2], "--sampled", "probability")
    without = refused("compare", "--qrels", folder / "human.txt", *words, "--sampled", "probability", "-m", "dcg@10")
    assert "needs the probability" in without


def test_judges_agree_merge_and_prefer(folder, tmp_path):
    truth = rw.trec.read_qrels(folder / "all.txt")
    judged = truth.with_columns(judge=pl.lit("ann"), time=pl.lit("2026-01-01T00:00:00.000Z"))
    judged.write_csv(tmp_path / "judged.csv")
    files = (tmp_path / "judged.csv", f"llm={folder / 'llm.txt'}")
    shown = json.loads(run("judge", "agreement", *files, "--weights", "linear", "--json").stdout)
    assert [(row["judge"], row["other"], row["documents"]) for row in shown["rows"]] == [("ann", "llm", truth.height)]
    assert (
        "κ with linear weights"
        in run("judge", "agreement", *files, "--weights", "linear", "-o", tmp_path / "a.csv").stdout
    )
    assert pl.read_csv(tmp_path / "a.csv")["kappa"].to_list() == pytest.approx([shown["rows"][0]["kappa"]])
    for order, expected in (("ann,llm", "all.txt"), ("llm,*", "llm.txt")):
        run("judge", "merge", *files, "--precedence", order, "-o", tmp_path / "merged.txt", "--force")
        merged, alone = (
            rw.trec.read_qrels(path).sort("query", "document") for path in (tmp_path / "merged.txt", folder / expected)
        )
        assert merged.equals(alone)
    assert "every judge" in refused("judge", "merge", *files, "--precedence", "ann", "-o", tmp_path / "other.csv")
    pairs = [("q1", a, b, "first" if a < b else "second") for a, b in (("d12", "d13"), ("d13", "d12"), ("d13", "d14"))]
    pl.DataFrame(pairs, schema=["query", "first", "second", "preferred"], orient="row").write_csv(
        tmp_path / "pairs.csv"
    )
    words = ("judge", "preferences", tmp_path / "pairs.csv")
    text = run(*words, "--grades", "3", "-o", tmp_path / "grades.csv", "--plot", tmp_path / "strengths.png").stdout
    assert "3 comparisons of 3 documents of 1 query." in " ".join(text.split())
    assert pl.read_csv(tmp_path / "grades.csv")["grade"].to_list() == [2.0, 1.0, 0.0]
    run(*words, "--grades", "3", "-o", tmp_path / "grades.txt")
    assert rw.trec.read_qrels(tmp_path / "grades.txt")["document"].to_list() == ["d12", "d13", "d14"]
    assert "whole grades" in refused(*words, "-o", tmp_path / "real.txt")


def test_a_forecast_of_more_judgements(folder):
    words: tuple[object, ...] = (
        "judge",
        "forecast",
        f"old={folder / 'old.run'}",
        f"new={folder / 'new.run'}",
        "--qrels",
        folder / "human.txt",
    )
    words += ("--judge", folder / "llm.txt", "--more", "20,40")
    assert [row["more"] for row in json.loads(run(*words, "--json").stdout)["rows"]] == [0, 20, 40]
    assert "±0.001 takes more than the 60 that are left." in " ".join(run(*words, "--within", "0.001").stdout.split())
    assert "more must be" in refused(*words[:-1], "0.5")
