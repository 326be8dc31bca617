"""The page of a comparison: metrics as the user wrote them, all in the figure, tables that fit, the explorer."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import rankwise as rw
from rankwise.cli.app import app
from rankwise.wings.lab.report import comparison as pages
from rankwise.wings.lab.report.explorer import Packed, packed_rankings, unpack

QRELS = {
    "401": {"d1": 2, "d2": 0, "d3": 1, "d9": 1},
    "402": {"d1": 0, "d4": 1},
    "403": {"d5": 1, "d6": 0},
}
RUNS = {
    "one": {"401": {"d1": 3.0, "d2": 2.0, "x": 1.0}, "402": {"d4": 2.0, "d1": 1.0}, "403": {"d6": 1.0, "d5": 0.5}},
    "two": {"401": {"d3": 9.0, "d2": 8.0}, "402": {"d1": 5.0, "d4": 4.0}, "403": {"d5": 2.0}},
}
WRITTEN = ["map", "ndcg_cut_10", "recip_rank", "P_5"]


@pytest.fixture(scope="module")
def runs() -> rw.Comparison:
    with pytest.warns(UserWarning, match="100% of the first 10 documents of two were judged, but 89% of one's"):
        return rw.compare({name: rw.evaluate(*rw.trec.join(run, QRELS), WRITTEN) for name, run in RUNS.items()})


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("page") / "page.html"
    assert runs.to_report(path, titles=WRITTEN, about={"Judgments": "<qrels>"}) == path
    return str(path.read_text(encoding="utf-8"))


def packed(comparison: rw.Comparison) -> Packed:
    found = packed_rankings(comparison, dict(zip(comparison.metrics, comparison.metrics, strict=True)))
    assert found is not None
    return found


def test_metrics_are_called_as_the_user_wrote_them_and_all_are_in_the_figure_of_means(runs, page):
    for title, metric in zip(WRITTEN, runs.metrics, strict=True):
        assert f">{title}</th>" in page
        assert f">{metric}</th>" not in page
        assert f"<dt>{title}</dt><dd>{metric}</dd>" in page  # what it stands for is said once
    words = re.search(r'<figure id="means-figure">.*?aria-label="([^"]*)"', page, re.DOTALL)
    assert words is not None
    assert [title for title in WRITTEN if f"{title}: one {runs.mean[runs.metrics[0]]['one']:.4f}" in words[1]] == [
        "map"
    ]
    assert all(f"{title}: " in words[1] for title in WRITTEN)


def test_a_figure_has_a_panel_for_each_metric(runs):
    from matplotlib.figure import Figure

    from rankwise.statistics.figures.comparisons import draw_means

    drawing = Figure()
    draw_means(drawing, runs, titles=dict(zip(runs.metrics, WRITTEN, strict=True)))
    assert [panel.get_title(loc="left") for panel in drawing.axes] == WRITTEN
    assert len({round(panel.get_position().x0, 3) for panel in drawing.axes}) == 3  # columns


def test_words_say_what_the_tests_bear_out(runs, page):
    assert "<h1>No method is ahead by more than chance</h1>" in page
    assert "equal on" in page
    assert "may come from them and not from the rankings" in page
    assert "&lt;qrels&gt;" in page
    assert "Query explorer" in page
    assert set(re.findall(r"https?://[^/\"]+", page)) <= {"http://www.w3.org"}


def test_the_explorer_has_every_document_of_runs_by_id_with_its_judgment(runs):
    found = packed(runs)
    (described,) = found.index["sets"]
    assert described["methods"] == ["one", "two"]
    header, values = unpack(found.packs["set-0"])
    assert header == {
        "ids": ["401", "402", "403"], "documents": [5, 2, 2], "relevant": [3, 1, 1],
        "alike": ["rbo", "overlap@10", "tau", "tau_ap"],
    }  # fmt: skip
    expected = np.stack(list(runs.paired.values.values()), axis=1)
    np.testing.assert_allclose(values[: expected.size].reshape(expected.shape), expected, rtol=1e-6)
    alike = rw.metrics.similarity(*runs.paired.evaluations.values())
    np.testing.assert_allclose(values[expected.size :].reshape(4, 3), list(alike.values.values()), atol=6e-4)
    documents, scores = unpack(found.packs["set-0-0"])
    assert documents["ids"][:5] == ["x", "d9", "d3", "d2", "d1"]  # trec_eval's order of ties
    assert documents["labels"][:5] == [None, 1.0, 1.0, 0.0, 2.0]  # nobody judged x
    one, two = scores.reshape(2, -1)[:, :5]
    np.testing.assert_array_equal(one, np.array([1, np.nan, np.nan, 2, 3], np.float32))
    np.testing.assert_array_equal(two, np.array([np.nan, np.nan, 9, 8, np.nan], np.float32))


def test_scores_of_the_same_lists_are_matched_by_place_without_ids():
    data = rw.synthetic(n_queries=12, n_docs=6, seed=1)
    scores = {"a": data.features[:, 0], "b": data.features[:, 1]}
    found = packed(rw.compare(scores, data))
    documents, numbers = unpack(found.packs["set-0-0"])
    assert documents["ids"] is None
    assert documents["labels"] == data.labels.tolist()
    np.testing.assert_allclose(numbers.reshape(2, -1), np.stack(list(scores.values())), rtol=1e-6)


def test_without_documents_there_is_no_explorer(tmp_path):
    values = {"a": [0.5, 0.6, 0.7], "b": [0.6, 0.6, 0.8]}
    by_hand = rw.compare({name: rw.Evaluation({"ap": column}, range(3)) for name, column in values.items()})
    assert "explorer-index" not in by_hand.to_report(tmp_path / "a.html").read_text().partition("<script>")[0]
    trials = rw.compare(values, metrics="ap")
    assert "Trial by trial" in trials.to_report(tmp_path / "b.html").read_text()
    first, second = rw.synthetic(n_queries=12, n_docs=6, seed=1), rw.synthetic(n_queries=12, n_docs=7, seed=2)
    other_lists = {
        name: replace(rw.evaluate(data.features[:, 0], data), judgements=None)
        for name, data in (("a", first), ("b", second))
    }
    assert packed_rankings(rw.compare(other_lists), {"ndcg@10": "ndcg@10"}) is None


def test_against_a_baseline_the_page_says_who_is_better_and_worse(tmp_path):
    rng = np.random.default_rng(0)
    base = rng.uniform(0.3, 0.6, 60)
    values = {"base": base, "good": base + 0.1, "bad": base - 0.1, "same": base + rng.normal(0, 0.01, 60)}
    systems = {name: rw.Evaluation({"ap": column, "rr": column}, range(60)) for name, column in values.items()}
    page = rw.compare(systems, baseline="base").to_report(tmp_path / "page.html").read_text()
    assert "<h1>good ranks better than base</h1>" in page
    assert "By mean ap, better than base by more than chance: good +0.100" in page
    assert "Worse than base by more than chance: bad −0.100" in page
    assert "Not told apart from base: same" in page


@pytest.mark.filterwarnings("ignore:.*were judged")
@pytest.mark.parametrize("baseline", [None, "old"])
def test_the_page_claims_nothing_that_depends_on_unjudged_documents(tmp_path, baseline):
    rng = np.random.default_rng(0)
    labels = rng.choice(3, 1500, p=[0.7, 0.2, 0.1])
    old, new = labels + 1.5 * rng.normal(size=(2, 1500))
    judged = np.concatenate([one >= np.sort(one)[-4] for one in old.reshape(150, 10)])
    data = rw.RankingDataset.from_sizes(np.zeros((1500, 1)), labels * judged, [10] * 150, judged=judged)
    compared = rw.compare({"old": old, "new": new}, data, "ndcg@5", baseline=baseline)
    assert compared.pairs[0].unsettled
    page = compared.to_report(tmp_path / "page.html").read_text()
    title = "No system is told apart from old" if baseline else "Who is ahead depends on documents that were never"
    found = "unjudged documents decide who is better" if baseline else "Over new the lead depends on documents that"
    for text in (f"<h1>{title}", found, "A raised ?: ", "if they are as judged documents at their depth"):
        assert text in page
    assert "could be chance" not in page


@pytest.mark.parametrize(("systems", "metrics"), [(2, 3), (3, 14), (12, 11)])
def test_tables_of_means_fit_the_page(systems, metrics):
    rng = np.random.default_rng(0)
    names = [f"ndcg(gain=linear, ties=row)@{number + 1}" for number in range(metrics)]
    evaluations = {
        f"a rather long name of a system, number {place}": rw.Evaluation(
            {name: rng.uniform(0.1 * (place % 3), 0.5 + 0.1 * (place % 3), 30) for name in names}, range(30)
        )
        for place in range(systems)
    }
    compared = rw.compare(evaluations)
    parts = pages._columns(compared, dict(zip(names, names, strict=True)))
    assert [name for part in parts for name in part] == names
    for table in re.findall(
        r"<table>.*?</table>", "".join(pages._means(compared, dict(zip(names, names, strict=True))))
    ):
        rows = [re.sub(r"<sup>.*?</sup>|<[^>]+>", " ", row) for row in table.split("</tr>")]
        assert max(map(len, rows)) < 130


@pytest.mark.filterwarnings("ignore:.*were judged")
def test_command_writes_the_page_and_never_overwrites_unasked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("qrels.txt").write_text("".join(f"{q} 0 {d} {g}\n" for q, row in QRELS.items() for d, g in row.items()))
    for name, run in RUNS.items():
        lines = [f"{q} Q0 {d} 1 {score} {name}\n" for q, row in run.items() for d, score in row.items()]
        Path(f"{name}.run").write_text("".join(lines))
    words = ["compare", "--qrels", "qrels.txt", "one.run", "two.run", "--metrics", ",".join(WRITTEN), "--report"]
    done = CliRunner().invoke(app, [*words, "page.html"])
    assert done.exit_code == 0, done.output
    page = Path("page.html").read_text(encoding="utf-8")
    assert all(f">{title}</th>" in page for title in WRITTEN)
    assert "<dt>Judgments</dt><dd>qrels.txt</dd>" in page
    assert "<dt>Conventions</dt><dd>trec_eval</dd>" in page
    again = CliRunner().invoke(app, [*words, "page.html"])
    assert again.exit_code != 0
    assert "exists" in again.output
    assert ".html" in CliRunner().invoke(app, [*words, "page.pdf"]).output
    plain = ["compare", "one.run", "two.run"]
    assert CliRunner().invoke(app, plain).exit_code != 0
