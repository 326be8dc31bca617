"""``rankwise rerank``: what its commands write, print and refuse."""

import json
import sys

import numpy as np
import polars as pl
import pytest

pytest.importorskip("sentence_transformers")

import rankwise as rw
from tests.cli.running import refused, run
from tests.wings.rerank import graded, tiny

QUICK = ("--learning-rate", 2e-3, "--batch-queries", 4, "--threads", 1, "--device", "cpu")


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model to begin from, and lists in files."""
    folder = tmp_path_factory.mktemp("texts")
    tiny.save(folder / "base")
    lists = graded.lists(40)
    for name, part in {"train": slice(0, 24), "valid": slice(24, 32), "test": slice(32, 40)}.items():
        rw.rerank.write(lists.take(part), folder / f"{name}.jsonl")
    return folder


@pytest.fixture(scope="module")
def trained(place):
    words = ("--valid", place / "valid.jsonl", "--test", place / "test.jsonl", "--model", place / "base", *QUICK)
    result = run("rerank", "train", place / "train.jsonl", *words, "-m", "ndcg@10,rr", "-o", place / "reranker")
    return place / "reranker", result


def test_train_writes_a_reranker_and_says_how_good_it_is(trained, place):
    folder, result = trained
    model = rw.rerank.Reranker.load(folder)
    test = rw.rerank.read(place / "test.jsonl")
    low, high = model.evaluate(test).interval["rr"]
    shown = dict(line.split("  ", 1) for line in result.stdout.splitlines() if "  " in line)
    assert shown["objective"].strip() == "softmax_ce"
    assert shown["training data"].strip() == "24 queries, 119 documents"
    assert shown["rr, test"].strip().endswith(f"[{low:.4f}, {high:.4f}]")
    assert "kept of 4 trained (all epochs done)" in result.stdout
    assert f"wrote {folder}" in " ".join(result.stderr.split())
    card = (folder / "README.md").read_text()
    assert "### test" in card
    assert "### validation" in card


def test_train_prints_json(place, tmp_path):
    words = ("--model", place / "base", "--objective", "lambdarank", "--set", "warmup=0.5", *QUICK)
    result = run("rerank", "train", place / "valid.jsonl", *words, "-o", tmp_path / "model", "--json")
    about = json.loads(result.stdout)
    assert about["objective"] == "lambdarank"
    assert about["parameters"]["warmup"] == 0.5
    assert about["stopped"] == "parts"
    assert about["evaluations"] == {}


def test_train_resumes(place, tmp_path, monkeypatch):
    from rankwise.wings.rerank.learner import RerankLearner

    words = ("rerank", "train", place / "train.jsonl", "--model", place / "base", *QUICK)
    once = run(*words, "-o", tmp_path / "once", "--json")
    rounds = RerankLearner.round

    def press(self, stream, weights=()):
        if stream.round == 2:
            raise KeyboardInterrupt
        return rounds(self, stream, weights)

    monkeypatch.setattr(RerankLearner, "round", press)
    kept = ("--checkpoint", tmp_path / "state")
    result = run(*words, *kept, "-o", tmp_path / "early", code=130)
    assert "interrupted after part 2" in result.stderr
    monkeypatch.undo()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "--resume" in refused(*words, *kept, "-o", tmp_path / "late")
    late = run(*words, *kept, "--resume", "-o", tmp_path / "early", "--json")
    assert json.loads(late.stdout)["history"] == json.loads(once.stdout)["history"]


def test_an_argument_of_reading_that_does_not_exist_is_an_error_of_input(place, tmp_path):
    words = ("rerank", "train", place / "train.jsonl", "--model", place / "base", "-o", tmp_path / "model")
    said = refused(*words, "--read", "foo=1")
    assert "reading lists of texts has no argument 'foo'. Hint: choose one of query, document" in said


def test_score_writes_every_form(trained, place, tmp_path):
    folder, _ = trained
    test = rw.rerank.read(place / "test.jsonl")
    expected = rw.rerank.Reranker.load(folder, device="cpu").predict(test)
    lines = run("rerank", "score", folder, place / "test.jsonl", "--device", "cpu").stdout.split()
    np.testing.assert_array_equal([float(line) for line in lines], expected)
    run("rerank", "score", folder, place / "test.jsonl", "-o", tmp_path / "scores.parquet")
    np.testing.assert_array_equal(pl.read_parquet(tmp_path / "scores.parquet")["score"], expected)
    assert "exists already" in refused(
        "rerank", "score", folder, place / "test.jsonl", "-o", tmp_path / "scores.parquet"
    )


def test_score_needs_no_labels(trained, tmp_path):
    folder, _ = trained
    (tmp_path / "new.jsonl").write_text(json.dumps({"query": "people", "documents": ["a great film", "a tree"]}))
    first, second = map(float, run("rerank", "score", folder, tmp_path / "new.jsonl").stdout.split())
    assert first > second


@pytest.fixture
def beir(tmp_path):
    """A folder as BEIR has them, and what a first stage retrieved."""
    folder = tmp_path / "shop"
    (folder / "qrels").mkdir(parents=True)
    texts = {f"d{number}": f"a {('tree', 'great great house', 'good film')[number % 3]}" for number in range(12)}
    for name, records in {"corpus": texts, "queries": {f"q{number}": "people" for number in range(4)}}.items():
        lines = (json.dumps({"_id": key, "text": text}) for key, text in records.items())
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    for split, queries in {"train": (0, 1), "test": (2, 3)}.items():
        rows = "".join(f"q{query}\td{document}\t{document % 3}\n" for query in queries for document in (1, 2))
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    retrieved = (
        f"q{query} Q0 d{document} {document + 1} {9 - document} bm25\n" for query in range(4) for document in range(6)
    )
    (tmp_path / "bm25.run").write_text("".join(retrieved))
    return folder


def test_a_run_is_ranked_again(trained, beir, tmp_path):
    folder, _ = trained
    words = ("--run", tmp_path / "bm25.run", "--depth", 4)
    run("rerank", "score", folder, f"{beir}:test", *words, "-o", tmp_path / "new.run", "--tag", "mine")
    found = rw.trec.read_run(tmp_path / "new.run")
    assert found.height == 8
    assert set(found["document"]) == {"d0", "d1", "d2", "d3"}
    assert set(found["tag"]) == {"mine"}


def test_train_and_evaluate_take_a_beir_folder(place, beir, tmp_path):
    words = ("--run", tmp_path / "bm25.run", "--negatives", 2, "--model", place / "base", *QUICK)
    result = run("rerank", "train", beir, *words, "-o", tmp_path / "model")
    assert "2 queries, 8 documents" in result.stdout
    found = run("rerank", "evaluate", beir, tmp_path / "model", "--run", tmp_path / "bm25.run", "--json")
    assert json.loads(found.stdout)["rankings"]["model"]["queries"] == 2


def test_validation_and_test_are_ranked_whole_and_say_over_how_many_candidates(place, beir, tmp_path):
    base = ("--run", tmp_path / "bm25.run", "--model", place / "base", *QUICK, "--json")
    drawn = ("--negatives", 1, "--read", "skip=2", "--valid", f"{beir}:test", "--test", f"{beir}:test")
    about = json.loads(run("rerank", "train", beir, *base, *drawn, "-o", tmp_path / "model").stdout)
    words = ("rerank", "evaluate", f"{beir}:test", tmp_path / "model", "--run", tmp_path / "bm25.run", "-m", "ndcg@10")
    whole = json.loads(run(*words, "--json").stdout)["rankings"]["model"]
    # Six were retrieved for each of two queries, and the judged are among them.
    assert whole["candidates"] == "6 documents per query on average (median 6): judged documents and those of the run"
    for part in ("validation", "test"):
        assert about["evaluations"][part]["candidates"] == whole["candidates"]
    assert about["evaluations"]["test"]["metrics"]["ndcg@10"] == pytest.approx(whole["metrics"]["ndcg@10"])
    card = (tmp_path / "model" / "README.md").read_text()
    assert card.count(f"Ranked were {whole['candidates']}.") == 2
    assert card.count(f"Reranking of {whole['candidates']}") == 2
    assert f"Candidates: {whole['candidates']}." in " ".join(run(*words).stdout.split())
    asked = run(*words, "--read", "negatives=1", "--json").stdout  # only where it is asked for, and said
    assert "judged documents and 1 drawn from the run" in asked


def test_evaluate_compares_models(trained, place, tmp_path):
    folder, _ = trained
    words = ("rerank", "evaluate", place / "test.jsonl", f"before={place / 'base'}", f"after={folder}", "-m", "ndcg@10")
    result = run(*words, "--per-query", tmp_path / "values.csv")
    assert "Every pair" in result.stdout
    assert "before   ndcg@10" in result.stdout
    assert pl.read_csv(tmp_path / "values.csv").height == 16
    about = json.loads(run(*words, "--json").stdout)
    assert (
        about["rankings"]["after"]["metrics"]["ndcg@10"]["mean"]
        > about["rankings"]["before"]["metrics"]["ndcg@10"]["mean"]
    )
    assert about["comparison"]


def test_what_will_not_do_is_said_before_the_work(place, tmp_path, trained):
    train = ("rerank", "train", place / "no.jsonl")
    new = ("-o", tmp_path / "new")
    assert "exists already" in refused(*train, "--model", place / "base", "-o", trained[0])
    assert "there is no model" in refused(*train, "--model", place / "nowhere", *new)
    assert "did you mean '--batch-queries'" in refused(*train, "--model", place / "base", "--set", "batch_size=3", *new)
    assert "did you mean 'lambdarank'" in refused(*train, "--model", place / "base", "--objective", "lambdarnk", *new)
    assert "did you mean 'ndcg'" in refused(*train, "--model", place / "base", "-m", "ndgc", *new)
    assert "there is no file" in refused(*train, "--model", place / "base", *new)
    words = ("rerank", "score", trained[0], place / "test.jsonl")
    assert "run belongs to a BEIR folder" in refused(*words, "--run", tmp_path / "a.run")


@pytest.mark.parametrize("words", ["train no.jsonl --model no -o new", "score no no.jsonl", "evaluate no.jsonl no"])
def test_a_missing_extra_is_said_first(words, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert "pip install 'rankwise[rerank]'" in refused("rerank", *words.split())
