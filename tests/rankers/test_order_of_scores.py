"""Scores have the order of what was scored: rows of a table or file need not be sorted by query, and none are moved."""

import json
import warnings

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.cli.running import run
from tests.refusals import refusal, refuses

QUERIES = ["b", "a", "c", "b", "a", "b", "c"]
SORTED = [1, 4, 0, 3, 5, 2, 6]  # the rows of a, of b, of c


@pytest.fixture(scope="module")
def model():
    data = rw.synthetic(n_queries=20, n_docs=20, n_features=2, seed=1).with_(feature_names=["x", "y"])
    return rw.LightGBMRanker("xendcg", rounds=20, leaves=4, threads=1).fit(data)


@pytest.fixture(scope="module")
def attentive():
    pytest.importorskip("torch")
    data = rw.synthetic(n_queries=8, n_docs=6, n_features=2, seed=1).with_(feature_names=["x", "y"])
    return rw.NeuralRanker("xendcg", hidden=(4,), attention=1, epochs=1, threads=1, device="cpu").fit(data)


@pytest.fixture(scope="module")
def table():
    matrix = np.random.default_rng(3).normal(size=(7, 2)).astype(np.float32)
    return pl.DataFrame({"qid": QUERIES, "label": [0, 1, 2, 1, 0, 2, 1], "x": matrix[:, 0], "y": matrix[:, 1]})


@pytest.fixture(scope="module")
def log():
    """Enough rows to learn from, in a random order."""
    data = rw.synthetic(n_queries=9, n_docs=30, n_features=2, seed=1).with_(feature_names=["x", "y"])
    return rw.data.to_frame(data).sample(fraction=1.0, shuffle=True, seed=2)


def by_row(model, table):
    """Score every query by itself, and write the scores beside its rows."""
    scores = np.full(table.height, np.nan)
    for query in set(QUERIES):
        rows = np.flatnonzero(np.array(QUERIES) == query)
        scores[rows] = model.scorer()(np.ascontiguousarray(table["x", "y"].to_numpy()[rows], np.float32))
    assert len(set(scores)) > 3
    return scores


@pytest.mark.parametrize("name", ["model", "attentive"])
def test_a_table_is_scored_in_its_own_order(name, table, request):
    ranker = request.getfixturevalue(name)
    np.testing.assert_allclose(ranker.predict(table), by_row(ranker, table), rtol=1e-6)
    np.testing.assert_allclose(ranker.predict(table.drop("label").to_pandas()), by_row(ranker, table), rtol=1e-6)


@pytest.mark.parametrize("name", ["model", "attentive"])
@pytest.mark.parametrize("form", ["table", "matrix", "data set"])
def test_rankings_name_the_rows_of_what_was_passed(name, form, table, request):
    ranker, beside = request.getfixturevalue(name), {}
    documents = table if form == "table" else rw.RankingDataset.from_frame(table, sort=True)
    if form == "matrix":
        documents, beside = table["x", "y"].to_numpy().astype(np.float32), {"qid": QUERIES}
    ranking = ranker.rank(documents, **beside)
    rows = ranking["row"].to_numpy()
    assert sorted(rows) == list(range(7))
    assert ranking["query"].to_list() == [QUERIES[row] for row in rows]
    np.testing.assert_allclose(ranking["score"].to_numpy(), by_row(ranker, table)[rows], rtol=1e-6)
    first = {"data set": "a"}.get(form, "b")  # queries of a table come in the order in which they begin
    assert ranking["query"][0] == first


def test_a_sorted_data_set_knows_its_rows_and_scoring_it_warns(model, table):
    data = rw.RankingDataset.from_frame(table, sort=True)
    np.testing.assert_array_equal(np.asarray(data.rows), SORTED)
    assert data.unsorted(data.labels).tolist() == table["label"].to_list()
    with pytest.warns(UserWarning, match=r"not that of the table: data\.unsorted\(scores\)"):
        scores = model.predict(data)
    np.testing.assert_array_equal(scores, by_row(model, table)[SORTED])  # beside labels and offsets
    np.testing.assert_array_equal(data.unsorted(scores), by_row(model, table))
    for score in (model.scorer(), model.explain):
        with pytest.warns(UserWarning, match="not that of the table"):
            score(data)
    part = data.take([2, 0])
    assert part.unsorted(part.qids()).tolist() == ["a", "c", "a", "c"]
    refuses(lambda: data.unsorted([1.0]), what="values must be one for each document", got="shape…")
    with refusal(what="rows must be the number of a row for each document, from 0 and all different"):
        data.with_(rows=[0] * 7)


def test_a_table_that_is_sorted_already_keeps_no_rows(model, table):
    data = rw.RankingDataset.from_frame(table.sort("qid", maintain_order=True), sort=True)
    assert data.rows is None
    model.predict(data)


def test_what_needs_no_order_of_the_table_does_not_warn(model, log):
    data = rw.RankingDataset.from_frame(log, sort=True)
    assert data.rows is not None
    best = rw.RankingDataset.from_frame(log.sort("qid", maintain_order=True))
    assert rw.evaluate(model, data, "ndcg").mean == rw.evaluate(model, best, "ndcg").mean
    assert model.score(data) == model.score(best)
    rw.compare({"one": model, "two": lambda features: features[:, 0]}, data)
    found = rw.cross_validate(rw.LightGBMRanker("xendcg", rounds=2, patience=None, threads=1), data, folds=3)
    assert found.scores.size == data.n_docs
    rw.clicks.simulate_clicks(data, ranker=model, impressions=2, keep_empty=True)
    assert rw.concatenate([data.take([0]), data.take([1])]).rows is None
    assert rw.data.add_negatives(data, 0.5).rows is None
    rw.distilled(model, rw.LightGBMRanker(rounds=2, threads=1)).fit(data)


def test_errors_of_sorted_rows_name_the_row_and_the_line_of_the_file(tmp_path, table):
    wrong = table.with_columns(label=pl.Series([0, 1, -2, 1, 0, 2, 1]))
    with refusal(what="labels must be at least 0", got="-2", where="row 2 (query 'c')"):
        rw.RankingDataset.from_frame(wrong, sort=True)
    wrong.write_csv(tmp_path / "rows.csv")
    refuses(lambda: rw.read_csv(tmp_path / "rows.csv", sort=True), got="-2", where="line 4 (query 'c')")


@pytest.mark.parametrize("further", [(), ("--read", "sort=true")])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["model", "attentive"])
def test_the_command_line_scores_in_the_order_of_the_file(name, ending, further, table, tmp_path, request):
    ranker = request.getfixturevalue(name)
    expected = by_row(ranker, table)
    folder, data = ranker.save(tmp_path / "model"), tmp_path / f"rows.{ending}"
    getattr(table.with_columns(number=pl.Series(range(7))), f"write_{ending}")(data)
    words = ("predict", folder, data, *further)
    np.testing.assert_allclose([float(line) for line in run(*words).stdout.split()], expected, rtol=1e-6)
    np.testing.assert_allclose(json.loads(run(*words, "--json").stdout)["scores"], expected, rtol=1e-6)
    for output in ("s.npy", "s.parquet", "s.run"):
        run(*words, "--document", "number", "-o", tmp_path / output)
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), expected, rtol=1e-6)
    written = pl.read_parquet(tmp_path / "s.parquet")
    assert written["query"].to_list() == QUERIES
    assert written["document"].to_list() == list(range(7))
    np.testing.assert_allclose(written["score"].to_numpy(), expected, rtol=1e-6)
    lines = [line.split() for line in (tmp_path / "s.run").read_text().splitlines()]
    assert {(line[0], int(line[2])) for line in lines} == set(zip(QUERIES, range(7), strict=True))
    np.testing.assert_allclose(
        [float(line[4]) for line in lines], [expected[int(line[2])] for line in lines], rtol=1e-6
    )


def test_scores_in_the_order_of_the_file_are_evaluated_in_it(table, tmp_path, model):
    table.write_csv(tmp_path / "rows.csv")
    scores = by_row(model, table)
    (tmp_path / "scores.txt").write_text("".join(f"{score!r}\n" for score in scores.tolist()))
    folder = model.save(tmp_path / "model")
    words = ("--metrics", "ndcg@10", "--read", "sort=true", "--json")
    found = json.loads(run("evaluate", tmp_path / "rows.csv", tmp_path / "scores.txt", folder, *words).stdout)
    beside = table.with_columns(score=pl.Series(scores)).sort("qid", maintain_order=True)
    expected = rw.evaluate(beside["score"].to_numpy(), rw.RankingDataset.from_frame(beside.drop("score")), "ndcg@10")
    for ranking in found["rankings"].values():
        assert ranking["metrics"]["ndcg@10"]["mean"] == pytest.approx(expected.mean["ndcg@10"])


def test_lists_are_shown_by_scores_in_the_order_of_the_file(tmp_path):
    table = pl.DataFrame({"qid": QUERIES, "label": [2] * 7, "x": np.arange(7.0)})
    table.write_csv(tmp_path / "rows.csv")
    (tmp_path / "scores.txt").write_text("".join(f"{number}\n" for number in range(7)))
    words = ("--scores", tmp_path / "scores.txt", "--read", "sort=true", "--impressions", 1)
    settings = ("--click-model", "position", "--eta", 0, "--probabilities", "1,1,1")
    run("data", "clicks", tmp_path / "rows.csv", *words, *settings, "-o", tmp_path / "clicks.parquet")
    log = rw.read_parquet(tmp_path / "clicks.parquet")
    assert log.features[:, 0].tolist() == [4, 1, 5, 3, 0, 6, 2]  # by query, the highest score first


def test_cross_validated_scores_are_written_in_the_order_of_the_file(log, tmp_path):
    log.write_csv(tmp_path / "rows.csv")
    settings = ("--read", "sort=true", "--folds", 3, "--patience", 0, "--rounds", 2, "--threads", 1)
    run("cross-validate", tmp_path / "rows.csv", *settings, "-o", tmp_path / "out")
    scores = np.load(tmp_path / "out" / "scores.npy")
    by_fold = [rw.load(tmp_path / "out" / f"fold-{number}").predict(log) for number in (1, 2, 3)]
    assert (scores == np.array(by_fold)).any(0).all()


def test_lists_of_texts_know_the_rows_that_they_were_gathered_from(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [{"query": query, "document": str(number)} for number, query in enumerate(QUERIES)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lists = rw.rerank.read(path, to_score=True)
    assert lists.documents == ("0", "3", "5", "1", "4", "2", "6")
    assert lists.data.unsorted(lists.documents).tolist() == [str(number) for number in range(7)]
    path.write_text("".join(json.dumps(row) + "\n" for row in sorted(rows, key=lambda row: row["query"])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rw.rerank.read(path, to_score=True).data.rows is None
