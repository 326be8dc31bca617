"""TREC files: reading and writing, and trec_eval's own expected numbers."""

import gzip
import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.evaluation.score_files import read_ranking
from rankwise.metrics import conventions, metric
from tests import shared
from tests.refusals import refusal, refuses

RUN = "q1 Q0 d1 1 0.5 mine\nq2 Q0 d9 1 3 mine\nq1\tQ0\td2\t2\t 0.4\tmine and words\n"
QRELS = "q1 0 d2 1\nq1 0 d3 2\nq1 0 d1 -1\nq2 0 d8 0\nq3 0 d1 1\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "run").write_text(RUN)
    (tmp_path / "qrels").write_text(QRELS)
    return tmp_path


judge: Any = rw.trec.join


def data(**columns):
    defaults = {"query_ids": ["a", "b"], "document_ids": ["x", "y", "z", "x"]}
    return rw.RankingDataset.from_sizes(np.zeros((4, 1)), [2, 0, 1, 0], [3, 1], **(defaults | columns))


def test_read_run(files):
    run = rw.trec.read_run(files / "run")
    assert run.rows() == [("q1", "d1", 0.5, "mine"), ("q2", "d9", 3.0, "mine"), ("q1", "d2", 0.4, "mine")]
    assert run.columns == ["query", "document", "score", "tag"]


def test_read_qrels(files):
    assert rw.trec.read_qrels(files / "qrels").rows()[:3] == [("q1", "d2", 1), ("q1", "d3", 2), ("q1", "d1", -1)]


def test_blank_lines_carriage_returns_quotes_odd_bytes_and_no_last_newline(tmp_path):
    (tmp_path / "run").write_bytes(b'\r\nq1 Q0 "d 1 0.5 t\r\n\n  q1 Q0 d 1 1e-3 \xff')
    assert rw.trec.read_run(tmp_path / "run").rows() == [("q1", '"d', 0.5, "t"), ("q1", "d", 0.001, "�")]


@pytest.mark.parametrize("form", ["polars", "lazy", "pandas", "arrow", "dictionaries", "files"])
def test_a_run_is_evaluated_by_qrels_in_every_form(files, form):
    run: Any = rw.trec.read_run(files / "run")
    qrels: Any = rw.trec.read_qrels(files / "qrels")
    scores, joined = judge(run, qrels)
    expected = rw.evaluate(scores, joined, ["rr", "ndcg@5"]).mean
    if form == "files":
        run, qrels = files / "run", files / "qrels"
    elif form == "dictionaries":
        run, qrels = (
            {query: dict(rows[["document", value]].iter_rows()) for (query,), rows in table.group_by("query")}
            for table, value in ((run, "score"), (qrels, "grade"))
        )
    elif form != "polars":
        run, qrels = (getattr(one, {"lazy": "lazy"}.get(form, f"to_{form}"))() for one in (run, qrels))
    assert rw.evaluate(run, qrels, ["rr", "ndcg@5"]).mean == expected
    (values,) = rw.compare({"mine": run, "same": run}, qrels, "rr(empty=0)").paired.values.values()
    assert values[0].tolist() == values[1].tolist()


def test_a_model_and_scores_are_evaluated_on_a_table_with_labels():
    table = pl.DataFrame({"qid": [1, 1, 2, 2], "label": [0, 1, 1, 0], "x": [0.1, 0.2, 0.3, 0.4]})
    expected = rw.evaluate(table["x"].to_numpy(), rw.RankingDataset.from_frame(table), "rr").mean
    assert rw.evaluate(table["x"].to_numpy(), table, "rr").mean == expected
    assert rw.evaluate(lambda features: features[:, 0], table.to_pandas(), "rr").mean == expected
    refuses(lambda: rw.evaluate([1.0], [1.0]), what="scores are evaluated on a RankingDataset", got="list")  # type: ignore[call-overload]


def test_judge(files):
    scores, judged = judge(files / "run", files / "qrels")
    assert judged.query_ids.tolist() == ["q1", "q2"]
    assert judged.document_ids.tolist() == ["d1", "d2", "d3", "d9", "d8"]
    assert scores.tolist() == pytest.approx([0.5, 0.4, -np.inf, 3.0, -np.inf], rel=1e-7)
    assert judged.labels.tolist() == [0, 1, 2, 0, 0]  # negative: 0; not judged: 0
    assert judged.features.shape == (5, 0)


def test_judged_tells_who_was_judged(files):
    _, judged = judge(files / "run", files / "qrels")
    assert judged.judged.tolist() == [-1, 1, 1, 0, 1]  # a negative grade; judged; judged; in no qrels; judged
    assert judged.take([1]).judged.tolist() == [0, 1]


def test_a_run_on_data_keeps_who_was_judged(files):
    ids: Any = {"query_ids": ["q1"], "document_ids": ["d1", "d2", "d3", "d4"]}
    known = rw.RankingDataset.from_sizes(np.zeros((4, 1)), [0, 1, 2, 0], [4], judged=[-1, 1, 1, 0], **ids)
    joined: Any
    scores, joined, tag = read_ranking(files / "run", known, all_topics=False)
    assert tag == "mine"
    assert joined.document_ids.tolist() == ["d1", "d2", "d3"]  # d4 was neither retrieved nor judged
    assert joined.judged.tolist() == [-1, 1, 1]
    assert metric("infap")(scores, joined.labels, joined.offsets, joined.judged)[0] == pytest.approx(0.375, abs=1e-5)


def test_a_run_on_data_keeps_labels_by_name(files):
    ids: Any = {"query_ids": ["q1"], "document_ids": ["d3", "d2", "d1"]}
    named = {"purchase": [3, 2, 0], "query": [1, 0, 0]}
    data = rw.RankingDataset.from_sizes(np.zeros((3, 1)), [0, 1, 2], [3], more_labels=named, **ids)
    joined: Any
    _, joined, _ = read_ranking(files / "run", data, all_topics=False)
    grades = dict(zip(joined.document_ids.tolist(), joined.labels_of("purchase").tolist(), strict=True))
    assert grades == {"d1": 0.0, "d2": 2.0, "d3": 3.0}
    assert joined.labels_of("query").sum() == 1.0


def test_counts_have_totals():
    run = {"a": {"x": 2.0, "y": 1.0}, "b": {"x": 1.0}}
    scores, data = judge(run, {"a": {"x": 1, "z": 1}, "b": {"w": 0}})
    evaluation = rw.evaluate(scores, data, ["num_q", "num_ret", "num_rel", "num_rel_ret", "bpref", "judged@10"])
    assert evaluation.total == {"num_q": 2, "num_ret": 3, "num_rel": 2, "num_rel_ret": 1}
    assert evaluation.mean["num_ret"] == 1.5
    assert evaluation["judged@10"].tolist() == [0.5, 0.0]
    assert evaluation["bpref"][0] == 0.5
    assert "In all: num_q 2, num_ret 3, num_rel 2, num_rel_ret 1." in repr(evaluation)
    assert evaluation.to_dict()["total"]["num_ret"] == 3
    assert rw.Evaluation({"own": [1.0, 2.0]}, [1, 2]).total == {}


def test_judge_all_topics(files):
    scores, judged = judge(files / "run", files / "qrels", all_topics=True)
    assert judged.query_ids.tolist() == ["q1", "q2", "q3"]
    assert scores[-1] == -np.inf
    assert metric("ap", empty=0)(scores, judged.labels, judged.offsets).tolist() == [0.25, 0.0, 0.0]


def test_judge_takes_frames_and_dictionaries_alike(files):
    from_files = judge(files / "run", files / "qrels")
    from_frames = judge(rw.trec.read_run(files / "run"), rw.trec.read_qrels(files / "qrels"))
    nested = {"q1": {"d1": 0.5, "d2": 0.4}, "q2": {"d9": 3}}
    judged = {"q1": {"d2": 1, "d3": 2, "d1": -1}, "q2": {"d8": 0}, "q3": {"d1": 1}}
    for scores, joined in (from_frames, judge(nested, judged)):
        assert scores.tolist() == from_files[0].tolist()
        assert joined.document_ids.tolist() == from_files[1].document_ids.tolist()
        assert joined.labels.tolist() == from_files[1].labels.tolist()


def test_ties_go_by_document_id_descending_and_in_single_precision():
    run = {"q": {"a": 1.0, "B": 1.0, "b": 1.0 + 1e-12, "é": 1.0, "c": 2.0, "low": -1e300}}
    scores, judged = judge(run, {"q": {"a": 1}})
    assert judged.document_ids.tolist() == ["c", "é", "b", "a", "B", "low"]  # as strcmp: capitals before small letters
    assert len(set(scores.tolist())) == 3
    assert np.isfinite(scores).all()


def test_grades_need_not_be_whole_outside_files():
    assert judge({"q": {"a": 1.0}}, {"q": {"a": 0.5}})[1].labels.tolist() == [0.5]


def test_written_run_reads_back_and_ranks_as_trec_eval_does(tmp_path):
    scores = [0.1, 1 / 3, 1 / 3, -np.inf]
    path = rw.trec.write_run(scores, data(), tmp_path / "run.txt", tag="mine")
    third = repr(1 / 3)
    assert path.read_text() == f"a Q0 z 1 {third} mine\na Q0 y 2 {third} mine\na Q0 x 3 0.1 mine\n"
    assert rw.trec.read_run(path)["score"].to_list() == [1 / 3, 1 / 3, 0.1]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_round_trip_keeps_every_metric(tmp_path, suffix):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 20, 30)
    n = int(sizes.sum())
    original = rw.RankingDataset.from_sizes(np.zeros((n, 1)), rng.integers(0, 4, n), sizes)  # no ids of any kind
    scores = rng.integers(0, 5, n).astype(float)  # with ties
    run = rw.trec.write_run(scores, original, tmp_path / f"run{suffix}")
    qrels = rw.trec.write_qrels(original, tmp_path / f"qrels{suffix}")
    again, judged = judge(run, qrels)
    assert judged.query_ids.tolist() == [str(q) for q in range(30)]
    for text in ("ndcg@5", "ap", "err"):
        ours = metric(text)(scores, original.labels, original.offsets)
        np.testing.assert_allclose(metric(text)(again, judged.labels, judged.offsets), ours, rtol=1e-12)


def test_nothing_is_overwritten_unasked(tmp_path):
    path = rw.trec.write_qrels(data(), tmp_path / "qrels")
    refuses(lambda: rw.trec.write_qrels(data(), path), FileExistsError, what="…exists already and is kept")
    refuses(lambda: rw.trec.write_run([1, 2, 3, 4], data(), path), FileExistsError, what="…exists already and is kept")
    assert rw.trec.write_run([1, 2, 3, 4], data(), path, force=True).read_text().startswith("a Q0 z 1 3.0")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "q1 Q0 d3 1 0.5",
            "must read 'query Q0 document rank score tag' with a finite score: got 'q1 Q0 d3 1 0.5' at line 4 of",
        ),
        ("q1 Q0 d3 1 much t", "with a finite score: got 'q1 Q0 d3 1 much t' at line 4 of"),
        ("q1 Q0 d3 1 nan t", "with a finite score: got 'q1 Q0 d3 1 nan t' at line 4 of"),
        ("q1 Q0 d3 1 inf t", "with a finite score"),
        ("q1 Q0 d1 1 0.7 t", "a document may stand only once under a query: got 'q1 Q0 d1 1 0.7 t' at line 4 of"),
        ("x" * 200, "got '" + "x" * 80 + "…' at line 4"),
    ],
)
def test_broken_lines_of_a_run(tmp_path, line, sentence):
    path = tmp_path / "run"
    path.write_text(RUN + line + "\n")
    with pytest.raises(ValueError, match=sentence) as caught:
        rw.trec.read_run(path)
    assert str(path) in str(caught.value)
    assert "errors='skip'" in str(caught.value)
    with pytest.warns(UserWarning, match="left out 1 broken line; the first is line 4 of"):
        assert rw.trec.read_run(path, errors="skip").height == 3


@pytest.mark.parametrize("line", ["q1 0 d7", "q1 0 d7 1.5", "q1 0 d7 1 more", "q1 0 d7 yes"])
def test_broken_lines_of_qrels(tmp_path, line):
    path = tmp_path / "qrels"
    path.write_text(QRELS + line + "\n")
    with pytest.raises(ValueError, match=f"'query 0 document grade' with a whole grade: got '{line}' at line 6 of"):
        rw.trec.read_qrels(path)


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        (
            lambda p: rw.trec.read_run(p / "empty"),
            {"what": "the file has no lines that can be read", "where": "…empty", "hint": "each must read…"},
        ),
        (
            lambda p: rw.trec.read_run(p / "run", errors="ignore"),
            {"what": "unknown way to treat broken lines (errors)", "got": "'ignore'"},
        ),
        (
            lambda p: judge({"x": {"d": 1}}, {"y": {"d": 1}}),
            {"what": "run and qrels have no query in common", "got": "'x' in the run, 'y' in the qrels"},
        ),
        (
            lambda p: judge([1, 2], {"y": {"d": 1}}),
            {"what": "run must be a path, a table with columns query,…", "got": "list"},
        ),
        (lambda p: judge({"y": 3}, {"y": {"d": 1}}), {"what": "run must be …nested dictionaries", "got": "dict"}),
        (
            lambda p: judge(pl.DataFrame({"query": [1.0], "document": ["d"], "score": [1]}), {"1": {"d": 1}}),
            {"what": "the column of the query must hold integers or strings", "got": "1.0, Float64", "where": "row 0"},
        ),
        (
            lambda p: judge(pl.DataFrame({"query": ["y"], "document": [None], "score": [1]}), {"y": {"d": 1}}),
            {"what": "the document must be known in every row of the run", "got": "null", "where": "row 0"},
        ),
        (
            lambda p: judge(pl.DataFrame({"query": ["y"], "document": ["d"], "score": ["x"]}), {"y": {"d": 1}}),
            {"what": "every score must be finite", "got": "no number", "where": "document 'd' of query 'y'"},
        ),
        (lambda p: judge(pl.DataFrame({"q": [1]}), {"y": {"d": 1}}), {"what": "run must be…", "got": "columns q"}),
        (
            lambda p: judge({"y": {"d": 1}}, {"y": {"d": np.nan}}),
            {"what": "every grade must be finite", "got": "nan", "where": "document 'd' of query 'y'"},
        ),
        (
            lambda p: judge(pl.DataFrame({"query": [1, 1], "document": [2, 2], "score": [1, 3]}), {"1": {"2": 1}}),
            {"what": "…only once under a query of the run", "got": "document '2' again", "where": "query '1'"},
        ),
        (lambda p: rw.trec.write_run([1, 2, 3], data(), p / "x"), {"what": "scores must be one number per document"}),
        (
            lambda p: rw.trec.write_run([1, 2, 3, 4], data(), p / "x", tag="two words"),
            {"what": "a tag in TREC files must be text without blanks"},
        ),
        (
            lambda p: rw.trec.write_qrels(data(query_ids=["a b", "c"]), p / "x"),
            {"what": "a query id in TREC files must be text without blanks", "got": "'a b'"},
        ),
        (
            lambda p: rw.trec.write_qrels(data(document_ids=["", "b", "c", "d"]), p / "x"),
            {"what": "a document id in TREC files must be text without blanks"},
        ),
        (
            lambda p: rw.trec.write_qrels(data(document_ids=["x", "y", "x", "x"]), p / "x"),
            {"what": "…only once under a query", "got": "'x'", "where": "query 'a'", "hint": "give every document…"},
        ),
        (
            lambda p: rw.trec.write_qrels(data().with_(labels=[0, 1, 0.5, 0]), p / "x"),
            {"what": "qrels hold whole grades", "got": "label 0.5", "where": "row 2 (query 'a')"},
        ),
    ],
)
def test_refusals(files, call, fields):
    (files / "empty").write_text("\n\n")
    refuses(lambda: call(files), **fields)
    assert not (files / "x").exists()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        rw.trec.read_run(tmp_path / "nothing")


def measures(level: int = 1):
    """trec_eval's names of our metrics."""
    ranked: dict[str, Any] = {"ties": "row", "empty": 0}
    binary = ranked | {"relevant": level}
    found = {"map": metric("ap", **binary), "recip_rank": metric("rr", **binary)}
    found["ndcg"] = metric("ndcg", **conventions("trec_eval"))
    for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000):
        found[f"P_{k}"] = metric(f"precision@{k}", **binary)
        found[f"recall_{k}"] = metric(f"recall@{k}", **binary)
        found[f"map_cut_{k}"] = metric(f"ap@{k}", **binary)
        found[f"ndcg_cut_{k}"] = metric(f"ndcg@{k}", **conventions("trec_eval"))
    for k in (1, 2, 5, 10, 20):
        found[f"success_{k}"] = metric(f"hit@{k}", **binary)
    if level == 1:
        found["rbp"] = metric("rbp(p=0.9)", **binary)
    return found


@pytest.mark.parametrize(
    ("expected", "run", "qrels", "all_topics", "level", "compared"),
    [
        ("out.test", "results.test", "qrels.test", False, 1, 11),
        ("out.test.a", "results.test", "qrels.test", False, 1, 43),
        ("out.test.aq", "results.test", "qrels.test", False, 1, 172),
        ("out.test.aqc", "results.trunc", "qrels.test", True, 1, 172),
        ("out.test.aql", "results.test", "qrels.rel_level", False, 2, 168),
        ("out.test.meas_params", "results.test", "qrels.test", False, 1, 28),
    ],
)
def test_numbers_are_trec_evals(expected, run, qrels, all_topics, level, compared):
    folder = shared.data("trec-eval-test")
    with gzip.open(folder / f"{expected}.gz", "rt") as lines:
        theirs = {tuple(word.strip() for word in line.split("\t")[:2]): line.split("\t")[2] for line in lines}
    scores, judged = judge(folder / f"{run}.gz", folder / f"{qrels}.gz", all_topics=all_topics)
    mine: dict[tuple[str, str], float] = {}
    for name, one in measures(level).items():
        values = one(scores, judged.labels, judged.offsets)
        mine |= {(name, query): value for query, value in zip(judged.query_ids.tolist(), values, strict=True)}
        mine[name, "all"] = values.mean()
    common = mine.keys() & theirs.keys()
    assert len(common) == compared
    for key in sorted(common):
        assert mine[key] == pytest.approx(float(theirs[key]), abs=5.1e-5), key


def test_words_after_the_tag_are_no_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rw.trec.read_run(shared.data("trec-eval-test/results.trunc.gz")).height == 584


def test_five_columns_are_strata_or_probabilities(tmp_path):
    (tmp_path / "strata").write_text("1 0 d1 2 1\n1 0 33 1 -1\n2 0 d1 1 0\n")
    (tmp_path / "prels").write_text("\n1 GX-1 2 1 0.25\n1 GX-2 0 0 0\n2 GX-1 1 2 1\n")
    strata, prels = rw.trec.read_qrels(tmp_path / "strata"), rw.trec.read_qrels(tmp_path / "prels")
    assert strata.rows() == [("1", "d1", "2", 1), ("1", "33", "1", -1), ("2", "d1", "1", 0)]
    assert strata.columns == ["query", "document", "stratum", "grade"]
    assert prels.rows() == [("1", "GX-1", 2, 0.25), ("1", "GX-2", 0, 0.0), ("2", "GX-1", 1, 1.0)]
    assert prels.columns == ["query", "document", "grade", "probability"]
    run = {"1": {"d1": 3.0, "d9": 2.0}, "2": {"GX-1": 1.0}}
    _, data = judge(run, tmp_path / "strata", all_topics=True)
    assert data.document_ids.tolist() == ["d1", "d9", "33", "GX-1", "d1"]
    assert data.strata.tolist() == ["2", "", "1", "", "1"]
    assert data.judged.tolist() == [1, 0, -1, 0, 1]
    _, data = judge(run, prels)
    assert data.document_ids.tolist() == ["d1", "d9", "GX-2", "GX-1", "GX-1"]
    assert data.inclusion_probabilities.tolist() == [0.0, 0.0, 0.0, 0.25, 1.0]
    assert data.strata is None


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("1 0 d1 2 1\n1 7 d2 1 0\n", "query 0 document stratum grade"),  # the second line may be of prels
        ("1 0 d1 2 0.5\n", "query 0 document stratum grade"),
        ("1 d1 2 1 1.5\n", "query document grade method probability"),
        ("1 d1 2 NEU 0.5\n", "query document grade method probability"),
        ("1 d1 2 1 nan\n", "query document grade method probability"),
        ("1 d1 2.5 1 0.5\n", "query document grade method probability"),
        ("1 0 d1 1\n1 0 d2 2 1\n", "query 0 document grade"),
    ],
)
def test_five_columns_that_are_neither_are_rejected(text, form, tmp_path):
    (tmp_path / "qrels").write_text(text)
    with pytest.raises(ValueError, match=f"a line must read '{form}' with a whole grade"):
        rw.trec.read_qrels(tmp_path / "qrels")


def test_a_run_on_data_keeps_strata_and_probabilities(files):
    ids: Any = {"query_ids": ["q1"], "document_ids": ["d1", "d2", "d3", "d4"]}
    known = rw.RankingDataset.from_sizes(np.zeros((4, 1)), [0, 1, 2, 0], [4], strata=[1, 1, 2, 2], **ids)
    joined = read_ranking(files / "run", known, all_topics=False).data
    expected = dict(zip(["d1", "d2", "d3", "d4"], ["1", "1", "2", "2"], strict=True))
    assert np.asarray(joined.strata).tolist() == [expected[one] for one in np.asarray(joined.document_ids).tolist()]
    known = known.with_(strata=None, inclusion_probabilities=[0.1, 0.2, 0.3, 0.4])
    joined = read_ranking(files / "run", known, all_topics=False).data
    assert sorted(np.asarray(joined.inclusion_probabilities).tolist()) == [0.1, 0.2, 0.3, 0.4]


DIVERSITY = "1 1 d1 1\n1 2 d1 0\n1 2 d2 2\n1 1 d3 -2\n2 a-b d1 1\n"


def test_qrels_with_subtopics_become_labels_by_name(tmp_path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text(DIVERSITY)
    with refusal(what="…only once under a query", got="'1 2 d1 0'", where="line 2…", hint="…aspects=True"):
        rw.trec.read_qrels(path)
    qrels = rw.trec.read_qrels(path, aspects=True)
    assert qrels.columns == ["query", "aspect", "document", "grade"]
    data: Any
    scores, data = rw.trec.join({"1": {"d2": 3.0, "d9": 2.0, "d1": 1.0}, "2": {"d1": 1.0}}, qrels)
    assert data.document_ids.tolist() == ["d2", "d9", "d1", "d3", "d1"]
    assert data.labels.tolist() == [2.0, 0.0, 1.0, 0.0, 1.0]
    assert data.judged.tolist() == [1, 0, 1, -1, 1]
    assert {name: column.tolist() for name, column in data.more_labels.items()} == {
        "a_b": [0.0, 0.0, 0.0, 0.0, 1.0],
        "aspect_1": [0.0, 0.0, 1.0, 0.0, 0.0],
        "aspect_2": [2.0, 0.0, 0.0, 0.0, 0.0],
    }
    assert rw.evaluate(scores, data, ["strec@1"])["strec@1"].tolist() == [0.5, 1.0]
    with refusal(what="two aspects have one name as labels", got="'a_b' for a_b"):
        rw.trec.join({"2": {"d1": 1.0}}, pl.concat([qrels, qrels[-1:].with_columns(aspect=pl.lit("a_b"))]))
    path.write_text(DIVERSITY + "1 2 d1 1\n")
    with refusal(what="a document may stand only once under a query", got="'1 2 d1 1'", where="line 6…"):
        rw.trec.read_qrels(path, aspects=True)
