"""Tuned and learned fusion: what chooses weights, what is reported, and what files hold."""

import json
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.data.splits import fold_of_query
from rankwise.wings.text import tuned_fusion
from tests.cli.running import run
from tests.refusals import refuses

tune: Any = rw.text.tune_fusion
learn: Any = rw.text.learn_fusion
Qrels = dict[str, dict[str, int]]


def made(seed: int, n_queries: int = 40, noise: tuple[float, ...] = (1.0, 3.0)) -> tuple[dict[str, Any], Qrels]:
    """Runs of 20 documents whose scores are the labels with noise; some documents are in one run alone."""
    rng = np.random.default_rng(seed)
    runs: dict[str, Any] = {f"run {number}": {} for number in range(len(noise))}
    qrels: Qrels = {}
    for query in range(n_queries):
        labels = rng.choice(3, 20, p=[0.7, 0.2, 0.1])
        qrels[f"q{query}"] = {f"d{place}": int(label) for place, label in enumerate(labels)}
        for number, spread in enumerate(noise):
            kept = rng.permutation(20)[:16]
            scores = labels[kept] + rng.normal(scale=spread, size=16)
            runs[f"run {number}"][f"q{query}"] = {f"d{one}": float(s) for one, s in zip(kept, scores, strict=True)}
    return runs, qrels


def some(parts: dict[str, Any], queries: set[str]) -> dict[str, Any]:
    return {name: {query: found[query] for query in found if query in queries} for name, found in parts.items()}


def test_the_better_run_weighs_more():
    runs, qrels = made(0, 120)
    tuned = tune(runs, qrels)
    assert tuned.weights["run 0"] > 0.7
    assert sum(tuned.weights.values()) == pytest.approx(1.0)
    assert tuned.gains["rrf"][0] > 0 < tuned.gains["rrf"][1]
    assert tuned.means["tuned"] > tuned.means["run 0"] > tuned.means["run 1"]
    assert tuned.n_queries == sum(any(row.values()) for row in qrels.values())
    assert tuned.fuse(runs).equals(rw.fuse(runs, "convex", weights=tuned.weights))


def test_reported_are_weights_that_were_chosen_without_the_query():
    """The report, made again: of each query by the weights of a grid over the other folds."""
    runs, qrels = made(1, 30)
    tuned = tune(runs, qrels, folds=3, seed=5)
    evaluations = [
        rw.evaluate(rw.fuse(runs, "convex", weights=[share / 100, 1 - share / 100]), qrels) for share in range(101)
    ]
    values = np.array([one["ndcg@10"] for one in evaluations])
    _, data = rw.trec.join(rw.fuse(runs), qrels)
    scored = ~np.isnan(values[0])
    fold = np.full(len(scored), -1)
    fold[scored] = fold_of_query(data.take(scored), 3, seed=5)
    report, plain = np.empty((2, len(scored)))
    for number in range(3):
        others = values[:, (fold != number) & scored]
        mean = others.mean(axis=1)
        error = (others[mean.argmax()] - others).std(axis=1) / np.sqrt(others.shape[1])
        counts = [
            np.exp(-0.5 * (gap / e) ** 2) if gap else 1.0 for gap, e in zip(mean.max() - mean, error, strict=True)
        ]
        share = float(np.average(np.arange(101) / 100, weights=counts))
        chosen = rw.evaluate(rw.fuse(runs, "convex", weights=[share, 1 - share]), qrels)["ndcg@10"]
        report[fold == number] = chosen[fold == number]
        plain[fold == number] = values[mean.argmax(), fold == number]
    assert tuned.means["tuned"] == pytest.approx(report[scored].mean(), abs=1e-9)
    rrf = rw.evaluate(rw.fuse(runs), qrels)["ndcg@10"]
    assert tuned.means["rrf"] == pytest.approx(rrf[scored].mean())
    assert tuned.gains["rrf"][0] == pytest.approx((report - rrf)[scored].mean(), abs=1e-9)
    best = values[:, scored].mean(axis=1).max()
    assert tuned.optimism == pytest.approx(best - plain[scored].mean(), abs=1e-9)


def test_labels_of_a_fold_do_not_change_what_is_chosen_for_it(monkeypatch: pytest.MonkeyPatch):
    runs, qrels = made(2, 20)
    qrels = {query: row for query, row in qrels.items() if any(row.values())}
    _, data = rw.trec.join(rw.fuse(runs), qrels)
    fold = fold_of_query(data, 4, seed=0)
    inside = [str(one) for one in np.asarray(data.query_ids)[fold == 2]]
    chosen: list[list[Any]] = []
    steady = tuned_fusion._steady

    def watched(grid: Any, values: Any) -> Any:
        chosen[-1].append(steady(grid, values))
        return chosen[-1][-1]

    monkeypatch.setattr(tuned_fusion, "_steady", watched)
    for reverse in (False, True):
        changed = {
            query: {one: 2 - grade for one, grade in row.items()} if reverse and query in inside else row
            for query, row in qrels.items()
        }
        chosen.append([])
        tune(runs, changed, folds=4)
    assert np.array_equal(chosen[0][2], chosen[1][2])
    assert not any(np.array_equal(chosen[0][number], chosen[1][number]) for number in (0, 1, 3, 4))


def test_what_is_reported_holds_on_new_queries():
    """On runs that are equally good nothing is to be gained, whatever a grid finds."""
    apart, looks = [], []
    for seed in range(20):
        runs, qrels = made(seed, 25, (2.0, 2.0, 2.0))
        tuned = tune(runs, qrels, "ndcg@5")
        apart.append(tuned.gains["equal weights"][0])
        looks.append(tuned.optimism)
    error = np.std(apart, ddof=1) / np.sqrt(len(apart))
    assert -0.02 < np.mean(apart) < 3 * error
    assert np.mean(looks) > 3 * np.std(looks, ddof=1) / np.sqrt(len(looks))


def test_a_result_prints_and_comes_back_from_its_file(tmp_path):
    runs, qrels = made(3)
    tuned = tune(runs, qrels, "ap", scale="z", depth=12, level=0.9)
    text = repr(tuned)
    assert "tuned − system" in text
    assert "run 0" in text
    assert tuned.sentence.startswith("run 0 0.")
    assert tuned.to_frame()["system"].to_list() == ["tuned", "rrf", "equal weights", "run 0", "run 1"]
    path = tuned.save(tmp_path / "weights.json")
    again = rw.text.TunedFusion.load(path)
    assert again == tuned
    assert again.fuse(runs).equals(tuned.fuse(runs))
    broken = json.loads(path.read_text("utf-8")) | {"weights": {"run 0": -1.0}}
    path.write_text(json.dumps(broken), "utf-8")
    refuses(lambda: rw.text.TunedFusion.load(path), what="a weight must be…")
    path.write_text("[]", "utf-8")
    refuses(lambda: rw.text.TunedFusion.load(path), what="the file holds no tuned fusion")


def test_refusals():
    runs, qrels = made(4, 8)
    refuses(lambda: tune({"run 0": runs["run 0"]}, qrels), what="weights are chosen for two runs or more")
    refuses(lambda: tune(runs, {"q0": qrels["q0"]}), what="tuning needs a query…", got="… for 5 folds")
    refuses(lambda: tune(runs, qrels, folds=1), what="folds must be…")
    refuses(lambda: tune(runs, {"other": {"d0": 1}}), what="run and qrels have no query in common")
    refuses(lambda: learn(runs, {"other": {"d0": 1}}), what="runs and qrels have no query in common")


def test_grids_are_all_shares():
    for count in range(2, 9):
        grid = tuned_fusion.simplex(count)
        assert np.allclose(grid.sum(axis=1), 1.0)
        assert len(np.unique(grid, axis=0)) == len(grid) <= 500
        assert (grid >= 0).all()


def test_a_learned_fusion_is_a_ranker_of_scaled_scores(tmp_path):
    runs, qrels = made(5, 60)
    judged = {query: row for query, row in qrels.items() if query != "q7"}
    learned = learn(runs, judged, rw.LinearRanker(l2=0.1, transform=None))
    assert learned.ranker.model_.schema.names == ("run 0", "run 1")
    assert learned.ranker.model_.weights[0] > learned.ranker.model_.weights[1] > 0
    weights = (learned.ranker.model_.weights / learned.ranker.model_.weights.sum()).tolist()
    one, other = learned.fuse(runs), rw.fuse(runs, "convex", weights=weights)
    assert rw.evaluate(one, qrels).mean["ndcg@10"] == pytest.approx(rw.evaluate(other, qrels).mean["ndcg@10"], abs=1e-3)
    learned.save(tmp_path / "learned")
    again = rw.text.LearnedFusion.load(tmp_path / "learned")
    assert again.fuse(runs).equals(one)
    swapped = {name: runs[name] for name in ("run 1", "run 0")}
    assert again.fuse(swapped).equals(one)
    assert np.isfinite(learn(runs, qrels).fuse(runs)["score"].to_numpy()).all()


def test_a_learned_fusion_of_texts(tmp_path):
    texts = {f"d{number}": "rain " * number + "sun" for number in range(12)}
    pages = rw.text.Documents(texts, fields=("text",))
    queries = {f"q{number}": "rain" for number in range(6)}
    runs = {"bm25": pages.search(queries, 12)}
    qrels = {query: {"d3": 2, "d4": 1} for query in queries}
    learned = learn(runs, qrels, rw.LinearRanker(l2=0.01), documents=pages, queries=queries)
    assert "bm25(text)" in learned.ranker.model_.schema.names
    fused = learned.fuse(runs, queries)
    assert rw.evaluate(fused, qrels).mean["ndcg@10"] > rw.evaluate(runs["bm25"], qrels).mean["ndcg@10"]
    assert rw.text.LearnedFusion.load(learned.save(tmp_path / "learned"), pages).fuse(runs, queries).equals(fused)
    refuses(lambda: learn(runs, qrels, documents=pages), what="features of texts need queries")


def test_the_command_tunes(tmp_path):
    runs, qrels = made(6)
    for name, found in runs.items():
        lines = [f"{q} Q0 {one} 1 {score} x\n" for q, scores in found.items() for one, score in scores.items()]
        (tmp_path / f"{name[-1]}.run").write_text("".join(lines))
    rows = [f"{q} 0 {one} {grade}\n" for q, row in qrels.items() for one, grade in row.items()]
    (tmp_path / "qrels.txt").write_text("".join(rows))
    paths = [f"{name}={tmp_path / name[-1]}.run" for name in runs]
    printed = run("fuse", *paths, "--qrels", tmp_path / "qrels.txt", "-o", tmp_path / "fused.run")
    assert "tuned − system" in printed.stderr
    fused = tune(runs, qrels).fuse(runs)
    assert np.allclose(rw.trec.read_run(tmp_path / "fused.run")["score"], fused["score"])
