"""Reports: the numbers in them, the words about them, the files, and that nothing in them reaches the network."""

import itertools
import json
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from scipy import stats
from typer.testing import CliRunner

import rankwise as rw
from rankwise.base import pages
from rankwise.cli.app import app
from rankwise.statistics.figures.drawing import COLOURS, figure
from rankwise.wings.lab.bounding import figure as orderings
from rankwise.wings.lab.experiments.results import DESCRIPTION, Results
from rankwise.wings.lab.experiments.running.store import Outcome, Store
from rankwise.wings.lab.experiments.schema import QUERIES, empty
from rankwise.wings.lab.report import figure_style, html, mean_figures, per_query_figures, summary, training
from rankwise.wings.lab.report.explorer import COLOUR_NAMES, packed, unpack
from rankwise.wings.lab.report.result_tables import mean_frame
from rankwise.wings.lab.report.view import View
from rankwise.wings.lab.report.write import FILES, PAGE, write_report
from rankwise.wings.tuning.result import Trial, Tuning
from rankwise.wings.tuning.spaces import dimension
from tests.refusals import refusal
from tests.wings.lab import synthetic_results as synthetic

DATA = "mslr-web30k"
EVIL = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def results() -> Results:
    return synthetic.results(levels=(0.0, 0.5), treatment="flips", published="bruch2021.table1", ids={0: EVIL})


@pytest.fixture(scope="module")
def folder(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    assert write_report(results, folder) == folder / PAGE
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return (folder / PAGE).read_text()


@pytest.fixture(autouse=True)
def vectors_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no pixels, but for ``folder``, which is written before: they take as long as the SVGs that tests read."""
    save = Figure.savefig

    def quick(drawing: Figure, file: Any, **options: Any) -> None:
        file.write(b"") if options["format"] == "png" else save(drawing, file, **options)

    monkeypatch.setattr(Figure, "savefig", quick)


def by_hand(results: Results, metric: str, method: str, level: float = 0.0) -> list[float]:
    """Means of trials, written out: Σwv / Σw over the queries that count."""
    found = []
    for trial in sorted(set(results.queries["trial"])):
        top = bottom = 0.0
        for row in results.queries.iter_rows(named=True):
            if (row["trial"], row["method"], row["level"]) == (trial, method, level) and row[metric] is not None:
                top, bottom = top + row["weight"] * row[metric], bottom + row["weight"]
        found.append(top / bottom)
    return found


# Numbers


def test_table_shows_means_of_the_frames(results, folder, page):
    table = page.partition('id="comparison-mslr-web30k"')[2].partition("</table>")[0]
    saved = pl.read_csv(folder / FILES / "comparison-mslr-web30k.csv")
    for method in synthetic.METHODS:
        row = next(row for row in table.split("<tr>") if f">{method}<" in row)
        for metric in synthetic.METRICS:
            means = by_hand(results, metric, method)
            assert f"{np.mean(means):.4f}" in row
            one = saved.filter(pl.col("method") == method, pl.col("metric") == metric)
            half = stats.t.ppf(0.975, len(means) - 1) * stats.sem(means)
            assert one["mean"][0] == pytest.approx(np.mean(means))
            assert (one["low"][0], one["high"][0]) == pytest.approx((np.mean(means) - half, np.mean(means) + half))


def test_summary_tells_the_winner_and_how_sure_it_is(results, page):
    one, other = (by_hand(results, "ndcg@5", name) for name in ("XE-NDCG", "LambdaMART"))
    assert np.mean(one) > np.mean(other)
    p = stats.ttest_rel(one, other).pvalue
    said = "p &lt; 0.001" if p < 0.001 else f"p = {p:.3f}"
    paragraph = page.partition('class="lead"')[2].partition("</p>")[0]
    assert f"XE-NDCG ranks best: mean ndcg@5 {np.mean(one):.4f}" in paragraph
    assert f"{np.mean(one) - np.mean(other):+.3f}" in paragraph
    assert said in paragraph
    assert ("more than chance" in paragraph) == (p < 0.05)
    assert "over 4 trials" in paragraph


def test_summary_does_not_claim_what_could_be_chance():
    found = synthetic.results(methods={"a": "lightgbm(listnet)", "b": "lightgbm(xendcg)"}, trials=2, queries=6)
    view = View(found)
    from rankwise.wings.lab.experiments.comparisons import comparison

    compared = comparison(found, DATA, 0.0)
    assert compared is not None
    assert not compared.pairs[0].significant
    assert "the lead could be chance" in summary.verdict(DATA, compared, view.main)


def test_the_title_says_what_the_tests_bear_out_and_the_claim_whose_it_is(tmp_path):
    texts: Any = {"title": "Table 9", "claim": "b is better", "paper": "Somebody 2021"}
    few = synthetic.results(methods={"a": "lightgbm(listnet)", "b": "lightgbm(xendcg)"}, trials=4, queries=6, **texts)
    many = synthetic.results(trials=5, queries=60, title="Table 9", claim="b is better")
    pages = [write_report(one, tmp_path / str(i)).read_text() for i, one in enumerate((few, many))]
    heads = [page.partition("<h1>")[2].partition("</h1>")[0] for page in pages]
    assert heads == ["No method is ahead by more than chance", "XE-NDCG ranks best"]
    assert "no method is ahead by more than chance: b has the highest mean ndcg@5" in pages[0]
    assert "Somebody 2021 · Table 9" in pages[0]
    assert "<b>The paper claims:</b> b is better" in pages[0]
    assert "<b>What it is to show:</b> b is better" in pages[1]


def test_titles_of_several_methods_and_data_sets():
    from rankwise.wings.lab.experiments.comparisons import comparison

    def title(found: Results) -> str:
        compared = {name: comparison(found, name, 0.0) for name in View(found).datasets}
        return summary.headline(View(found), {name: one for name, one in compared.items() if one is not None})

    three = {"a": "lightgbm(listnet)", "b": "lightgbm(lambdarank)", "c": "lightgbm(xendcg)"}
    assert (
        title(synthetic.results(data=("one", "two"), trials=6, queries=60)) == "XE-NDCG ranks best on all 2 data sets"
    )
    assert (
        title(synthetic.results(data=("one", "two"), trials=3, queries=4)) == "XE-NDCG ranks best on 1 of 2 data sets"
    )
    close = synthetic.results(methods=three, trials=6, queries=60)
    best = close.queries.filter(pl.col("method") == "c")
    apart = pl.when(pl.col("trial") % 2 == 0).then(0.01).otherwise(-0.0101)  # b is c, but for a hair
    second = best.with_columns(pl.col("ndcg@5") + apart, method=pl.lit("b"))
    rows = pl.concat([close.queries.filter(pl.col("method") != "b"), second])
    assert title(replace(close, queries=rows)) == "c and b lead, and the tests do not tell them apart"


def test_intervals_have_one_level_throughout(tmp_path):
    found = synthetic.results(
        levels=(0.0, 0.5), treatment="flips", published="bruch2021.table1", alpha=0.01, trials=4, queries=12
    )
    page = write_report(found, tmp_path).read_text()
    words = re.sub(r"<script.*?</script>|<style.*?</style>|<svg.*?</svg>", "", page, flags=re.DOTALL)
    assert set(re.findall(r"(\d+)% (?:interval|band)", words + found.to_markdown())) == {"99"}
    saved = pl.read_csv(tmp_path / FILES / "comparison-mslr-web30k.csv")
    means = by_hand(found, "ndcg@5", "XE-NDCG")
    half = stats.t.ppf(0.995, len(means) - 1) * stats.sem(means)
    one = saved.filter(pl.col("method") == "XE-NDCG", pl.col("metric") == "ndcg@5")
    assert one["high"][0] - one["low"][0] == pytest.approx(2 * half)
    table = page.partition('id="levels-mslr-web30k"')[2].partition("</table>")[0]
    assert f"{np.mean(means):.4f} ± {half:.4f}" in table
    pooled = replace(found, spec=found.spec | {"protocol": "folds"})
    from rankwise.wings.lab.experiments.comparisons import comparison

    compared = comparison(pooled, DATA, 0.0)
    assert compared is not None
    assert {one.level for one in compared.paired.evaluations.values()} == {0.99}


def test_two_trials_have_no_bands(tmp_path):
    found = synthetic.results(levels=(0.0, 0.5), treatment="flips", trials=2, queries=12)
    page = write_report(found, tmp_path).read_text()
    assert "2 trials are too few for bands" in page
    assert "2 trials are too few for intervals" in page
    assert "±" not in page
    for name in ("levels", "curve-valid-ndcg-5", "bound-ndcg", "comparison-mslr-web30k"):
        frame = pl.read_csv(tmp_path / FILES / f"{name}.csv")
        assert frame["low"].fill_nan(None).null_count() == frame.height, name
        assert frame["mean"].is_not_nan().all(), name
    assert "[" not in page.partition('class="lead"')[2].partition("over 2 trials")[0]


def test_a_method_has_one_colour_in_every_figure(tmp_path):
    methods = {"one": "lightgbm(listnet)", "two": "lightgbm(lambdarank)", "three": "lightgbm(xendcg)"}
    found = synthetic.results(methods=methods, trials=3, queries=20, data=("x", "y"))
    found = replace(found, queries=found.queries.filter(~((pl.col("data") == "y") & (pl.col("method") == "one"))))
    view = View(found)
    write_report(found, tmp_path)
    assert len(set(view.colours.values())) == 3

    def colours(name: str) -> set[str]:
        text = (tmp_path / FILES / f"{name}.svg").read_text()
        used = {one.lower() for one in re.findall(r"(?:fill|stroke): (#[0-9a-fA-F]{6})", text)}
        return {method for method, colour in view.colours.items() if colour.lower() in used}

    assert colours("means-x") == colours("curve-valid-ndcg-5") == colours("differences-x") == set(methods)
    assert colours("means-y") == colours("differences-y") == {"two", "three"}
    assert colours("scatter") == colours("gains") == {"two", "three"}  # against one, which is on the axis
    index = packed(view)
    assert index is not None
    assert index.index["sets"][0]["colours"] == ["vermillion", "blue", "green"]


def test_ten_methods_have_ten_colours_that_the_page_knows():
    found = synthetic.results(methods={f"m{i}": "lightgbm" for i in range(10)}, trials=1, queries=2, curves=False)
    colours = list(View(found).colours.values())
    assert len(set(colours)) == 10
    style = pages.shared("page.css")
    assert all(style.count(f"--{COLOUR_NAMES[one.lower()]}:") == 3 for one in colours)  # light, dark and on paper


def test_what_is_no_method_has_no_colour_of_one(tmp_path):
    plots = orderings.without_training()
    with figure(tmp_path / "x.svg", 6.0, 6.0) as drawing:
        plots[0].draw(drawing)
    used = {one.lower() for one in re.findall(r"(?:fill|stroke): (#[0-9a-fA-F]{6})", (tmp_path / "x.svg").read_text())}
    assert not used & {one.lower() for one in COLOURS[:-1]}  # the last is black


def test_letters_are_the_same_in_every_table_and_file(tmp_path):
    methods = {"one": "lightgbm(listnet)", "two": "lightgbm(lambdarank)", "three": "lightgbm(xendcg)"}
    found = synthetic.results(methods=methods, trials=6, queries=60, levels=(0.0, 0.5), treatment="flips")
    some = ~((pl.col("level") == 0.0) & (pl.col("method") == "one"))
    found = replace(found, queries=found.queries.filter(some))
    page = write_report(found, tmp_path).read_text()
    table = page.partition('id="comparison-mslr-web30k"')[2].partition("</table>")[0]
    rows = re.findall(r"<tr>.*?</tr>", table)
    assert [re.sub(r"<[^>]+>", " ", row).split()[:2] for row in rows[1:]] == [["b", "two"], ["c", "three"]]
    marks = re.findall(r"<sup>(.)</sup>", table)
    assert set(marks) == {"b"}
    by_level = (tmp_path / FILES / "levels-mslr-web30k.md").read_text().splitlines()
    assert "a one | b two | c three" in by_level[0]
    assert "ᵇ" in by_level[2]
    assert "ᵃ" not in by_level[2]
    latex = (tmp_path / FILES / "comparison-mslr-web30k.tex").read_text()
    assert "$^{b}$" in latex
    assert "$^{a}$" not in latex


def test_losses_have_an_axis_each(tmp_path):
    found = synthetic.results(trials=3, queries=8)
    loss = found.curves.filter(pl.col("series") == "valid ndcg@5").with_columns(series=pl.lit("loss"))
    found = replace(found, curves=pl.concat([loss, found.curves]))
    page = write_report(found, tmp_path).read_text()
    figure = page.partition('<figure id="curve-loss">')[2].partition("</figure>")[0]
    assert "Losses of different methods do not compare" in figure
    assert all(f"<!-- {name} -->" in figure for name in synthetic.METHODS)  # the title of a panel


@pytest.mark.parametrize("published", ["bruch2020.figure3", ""])
def test_curves_of_training_and_validation_queries_share_a_figure(tmp_path, published):
    names = ("ApproxNDCG", "E[ApproxNDCG]", "LambdaMART", "E[LambdaMART]")
    found = synthetic.results(trials=3, queries=8, methods=dict.fromkeys(names, "lightgbm"), published=published)
    train = found.curves.filter(series="valid ndcg@5").with_columns(pl.lit("train ndcg@5").alias("series"))
    found = replace(found, curves=pl.concat([found.curves, train.with_columns(pl.col("value") + 0.2)]))
    view = View(found)
    (plot,) = training.both_parts(view)
    assert plot.name == "curve-train-and-valid-ndcg-5"
    means = plot.frame.pivot("series", index=["data", "method", "round"], values="mean")
    assert means["train ndcg@5"].to_numpy() == pytest.approx(means["valid ndcg@5"].to_numpy() + 0.2)
    assert "Solid: validation queries. Dashed: training queries." in plot.caption
    pairs = training.paired_methods(view)  # those that the paper compares have a panel each
    assert pairs == ([list(names[:2]), list(names[2:])] if published else [list(names)])
    page = write_report(found, tmp_path).read_text()
    figure = page.partition(f'<figure id="{plot.name}">')[2].partition("</figure>")[0]
    assert all(f"<!-- {name}, training -->" in figure for name in names)
    assert training.both_parts(View(synthetic.results(trials=1, queries=5))) == []


def test_two_methods_that_a_paper_compares_with_no_other_have_a_panel_too():
    names = ("CrossEntropy", "E[CrossEntropy]", "ApproxNDCG", "E[ApproxNDCG]")
    for methods, pairs in ((names, [names[:2], names[2:]]), (names[1:], [names[1:]]), (names[2:], [names[2:]])):
        found = synthetic.results(methods=dict.fromkeys(methods, "neural"), trials=1, published="bruch2020.figure4")
        assert training.paired_methods(View(found)) == [list(pair) for pair in pairs]


def test_many_curves_have_no_bands_that_would_hide_them():
    few, many = ({f"m{i}": "lightgbm" for i in range(count)} for count in (6, 7))
    for methods, words in ((few, "3 trials, bands their 95% intervals."), (many, "3 trials; bands would hide some.")):
        plots = training.learning_curves(View(synthetic.results(methods=methods, trials=3, queries=5)))
        plot = next(one for one in plots if one.name == "curve-valid-ndcg-5")
        assert words in plot.caption
        assert plot.frame["low"].is_finite().all()  # the file beside the figure has them
        drawing = Figure()
        plot.draw(drawing)
        assert len(drawing.axes[0].collections) == (6 if methods is few else 0)


def test_paper_is_told_to_agree_or_not(results, folder, page):
    frame = pl.read_csv(folder / FILES / "agreement.csv")
    one, other = (np.mean(by_hand(results, "ndcg@5", name)) for name in ("XE-NDCG", "LambdaMART"))
    row = frame.filter(pl.col("metric") == "ndcg@5", pl.col("level") == 0.0).row(0, named=True)
    assert (row["better"], row["worse"]) == ("XE-NDCG", "LambdaMART")  # what the paper says
    assert row["difference"] == pytest.approx(one - other)
    assert row["verdict"].startswith("agrees" if one > other else "disagrees")
    assert "What the paper says" in page
    assert f"The paper&#x27;s {frame.height} statements, here: " in page
    assert f"{(frame['verdict'] == row['verdict']).sum()} × {row['verdict']}" in page


def test_published_figures_stand_beside_ours():
    found = synthetic.results(trials=2, published="bruch2019.table1", methods={"ListNet": "a", "LambdaMART": "b"})
    from rankwise.wings.lab.papers.claims import figures

    found = replace(found, published=figures("bruch2019.table1"))
    frame = mean_frame(View(found), DATA, 0.0)
    printed = frame.filter(pl.col("method") == "LambdaMART", pl.col("metric") == "ndcg@5")
    assert printed["published"][0] == pytest.approx(0.492)  # 49.20 in the paper's Table 1
    assert printed["source"][0] == "Table 1, page 4"


def test_levels_have_paired_differences(results):
    frame = mean_figures.level_means(View(results))
    for level in (0.0, 0.5):
        one, other = (np.array(by_hand(results, "ndcg@5", name, level)) for name in ("XE-NDCG", "LambdaMART"))
        apart = frame.filter(pl.col("level") == level, pl.col("against") == "LambdaMART").row(0, named=True)
        half = stats.t.ppf(0.975, 3) * stats.sem(one - other)
        assert apart["mean"] == pytest.approx((one - other).mean())
        assert (apart["low"], apart["high"]) == pytest.approx(
            ((one - other).mean() - half, (one - other).mean() + half)
        )


def test_differences_by_level_have_the_intervals_of_verdicts(results):
    found = replace(results, spec=results.spec | {"protocol": "trials", "split": [0.6, 0.2, 0.2]})
    one, other = (np.array(by_hand(results, "ndcg@5", name, 0.5)) for name in ("XE-NDCG", "LambdaMART"))
    half = stats.t.ppf(0.975, 3) * np.std(one - other, ddof=1) * np.sqrt(1 / 4 + 1 / 3)
    apart = mean_figures.level_means(View(found)).filter(pl.col("level") == 0.5, pl.col("against") == "LambdaMART")
    assert apart["high"][0] - apart["mean"][0] == pytest.approx(half)
    assert "Those of differences allow for trials that share data." in mean_figures.noise_curves(View(found))[0].caption
    assert "share data" not in mean_figures.noise_curves(View(results))[0].caption  # runs on one split


def test_levels_of_every_data_set_are_inside_the_figure(results):
    lower = results.queries.with_columns(pl.lit("other").alias("data"), pl.col("ndcg@5") / 3)
    view = View(replace(results, queries=pl.concat([results.queries, lower])))
    (plot,) = mean_figures.noise_curves(view)
    drawing = Figure()
    plot.draw(drawing)
    means = plot.frame.filter(pl.col("against").is_null())
    low, high = drawing.axes[0].get_ylim()
    assert means["data"].n_unique() == 2
    values = means["mean"].to_numpy()
    assert low < values.min() < values.max() < high


def test_a_report_of_one_split_says_what_it_does_not_cover(page):
    assert page.count("the test covers what is drawn in training, and nothing else") == 2  # in words, and by the claims


def test_curves_of_trials_that_stopped_keep_their_last_value(results):
    means = training.curve_means(View(results), ["valid ndcg@5"]).filter(pl.col("method") == "XE-NDCG")
    own = results.curves.filter(pl.col("method") == "XE-NDCG", pl.col("series") == "valid ndcg@5")
    paths = [one.sort("round")["value"].to_list() for one in own.partition_by("trial")]
    longest = max(map(len, paths))
    assert min(map(len, paths)) < longest
    for round_ in range(longest):
        expected = np.mean([path[min(round_, len(path) - 1)] for path in paths])
        assert means["mean"][round_] == pytest.approx(expected)


@pytest.mark.parametrize(("start", "expected"), [(0.1, 0.59), (0.5, None)])
def test_first_rounds_far_below_the_others_do_not_take_the_axis(start, expected):
    frame = pl.DataFrame({"round": np.arange(1, 101), "mean": [start, *[0.6] * 98, 0.7]})
    frame = frame.with_columns(pl.col("mean").alias("high"), pl.lit(float("nan")).alias("low"))
    assert training.floor(frame) == (expected and pytest.approx(expected))


def test_a_figure_whose_axis_cuts_first_rounds_off_says_so_and_names_its_methods_once(tmp_path):
    found = synthetic.results(trials=3, queries=8)
    low = pl.when(pl.col("round") == 1).then(-9.0).otherwise(pl.col("value")).alias("value")
    train = found.curves.filter(series="valid ndcg@5").with_columns(pl.lit("train ndcg@5").alias("series"), low)
    found = replace(found, curves=pl.concat([found.curves, train]))
    plots = {one.name: one for one in training.learning_curves(View(found))}
    assert "below the axis" in plots["curve-train-ndcg-5"].caption
    assert "below the axis" not in plots["curve-valid-ndcg-5"].caption
    figure = write_report(found, tmp_path).read_text().partition('<figure id="curve-train-ndcg-5">')[2]
    assert ", training -->" not in figure.partition("</figure>")[0]


@pytest.mark.parametrize(
    ("names", "columns"), [(["a", "b"], 2), (["a"] * 9, 4), (["n" * 30] * 3, 2), (["n" * 90] * 2, 1)]
)
def test_a_legend_has_as_many_columns_as_fit(names, columns):
    assert figure_style.legend_columns(names, 72 * 7.2) == columns


def test_a_legend_keeps_pairs_together():
    assert [figure_style.legend_columns(["a"] * count, 72 * 7.2, paired=True) for count in (2, 4, 6, 8, 10)] == [
        1,
        2,
        3,
        4,
        2,
    ]


def test_depth_from_documents_is_ndcg_by_hand(results):
    frame, source = mean_figures.cutoff_means(View(results))
    assert source == "first trial. Bands are 95% intervals over queries."
    documents = results.documents.filter(pl.col("method") == "XE-NDCG")
    for k in (1, 3):
        values = []
        for query in documents.partition_by("query"):
            ranked = query.sort("score", descending=True)["label"].to_list()
            worth = [sum((2**y - 1) / math.log2(2 + r) for r, y in enumerate(order[:k])) for order in
                     (ranked, sorted(ranked, reverse=True))]  # fmt: skip
            values += [worth[0] / worth[1]] if worth[1] else []
        mean = frame.filter(pl.col("method") == "XE-NDCG", pl.col("k") == k)["mean"][0]
        assert mean == pytest.approx(np.mean(values))


def test_depth_from_metrics_where_there_are_enough_of_them():
    found = synthetic.results(trials=2, features=0)
    columns = {f"ndcg@{k}": pl.col("ndcg@5") / k for k in (1, 2, 3)}
    found = replace(found, queries=found.queries.with_columns(**columns))
    frame, source = mean_figures.cutoff_means(View(found))
    assert source == "all trials. 2 trials are too few for bands."
    assert sorted(set(frame["k"])) == [1, 2, 3, 5]
    one = frame.filter(pl.col("method") == "XE-NDCG", pl.col("k") == 2)["mean"][0]
    assert one == pytest.approx(np.mean(by_hand(found, "ndcg@5", "XE-NDCG")) / 2)


def test_smooth_mean_is_a_weighted_mean():
    random = np.random.default_rng(0)
    x, y = random.integers(1, 20, 300).astype(float), random.normal(size=300)
    places, mean, half = per_query_figures.smoothed(x, y)
    spread = min(x.std(), np.subtract(*np.percentile(x, [75, 25])) / 1.349)
    wide = 1.5 * spread * 300**-0.2
    weights = [math.exp(-0.5 * ((places[30] - one) / wide) ** 2) for one in x]
    expected = sum(w * v for w, v in zip(weights, y, strict=True)) / sum(weights)
    assert mean[30] == pytest.approx(expected)
    assert (half > 0).all()


def test_queries_of_several_trials_count_once(results):
    view = View(results)
    both = view.paired(DATA, "XE-NDCG", "LambdaMART")
    assert both["query"].n_unique() == both.height
    query = both["query"][3]
    rows = results.queries.filter(pl.col("query") == query, pl.col("level") == 0.0, pl.col("method") == "XE-NDCG")
    assert both["value"][3] == pytest.approx(rows["ndcg@5"].mean())


# Orderings, which need no training


def worths(metric: str, ranked: tuple[int, ...]) -> float:
    """A metric of binary labels by rank, from its definition."""
    if metric == "nDCG":
        ideal = sum(1 / math.log2(2 + r) for r in range(sum(ranked)))
        return sum(y / math.log2(2 + r) for r, y in enumerate(ranked)) / ideal
    if metric == "AP":
        return sum(y * sum(ranked[: r + 1]) / (r + 1) for r, y in enumerate(ranked)) / sum(ranked)
    return float(sum(1 for i, j in itertools.combinations(range(len(ranked)), 2) if ranked[i] < ranked[j]))


@pytest.fixture(scope="module")
def drawn() -> dict[str, pl.DataFrame]:
    return {plot.name: plot.frame for plot in orderings.without_training()}


@pytest.mark.parametrize("metric", ["nDCG", "AP", "nRBP"])
def test_expected_loss_is_the_mean_over_all_orderings(drawn, metric):
    everything = set(itertools.permutations([1, 1, 1, 0, 0, 0]))
    mean = np.mean([worths(metric, ranked) for ranked in everything])
    frame = drawn["orderings-expected"]
    row = frame.filter(pl.col("panel") == metric, pl.col("line") == "ratio 1", pl.col("relevant documents") == 3.0)
    assert row["expected loss"][0] == pytest.approx(mean if metric == "nRBP" else -mean)


@pytest.mark.parametrize("metric", ["nDCG", "AP"])
def test_least_value_has_relevant_documents_last(drawn, metric):
    frame = drawn["orderings-least"].filter(pl.col("panel") == metric, pl.col("line") == "N = 25")
    assert frame["least value"][4] == pytest.approx(worths(metric, (0,) * 20 + (1,) * 5))
    assert frame["least value"][24] == pytest.approx(1.0)


@pytest.mark.parametrize("metric", ["nDCG", "AP", "nRBP"])
def test_bounded_losses_end_where_the_thesis_says(drawn, metric):
    best, worst = (0.0, 1.0) if metric == "nRBP" else (-1.0, 0.0)
    for name in ("orderings-min-max", "orderings-expectation-max"):
        rows = drawn[name].filter(pl.col("panel").str.starts_with(metric)).partition_by("panel", "line")
        assert len(rows) == 6
        for one in rows:
            bounded = one["bounded loss"]
            if name == "orderings-min-max":
                assert (bounded[0], bounded[-1]) == pytest.approx((best, worst), abs=1e-9)
            elif metric != "nRBP":
                assert bounded[0] == pytest.approx(-1.0)
                assert bounded[-1] > 0.0  # worse than a random order


def test_the_map_by_distribution_is_the_thesis_own(drawn):
    frame = drawn["orderings-distribution"].filter(
        pl.col("panel") == "nDCG, same ratio", pl.col("line") == "N = 75, P = 25"
    )
    best = frame.sort("loss").head(5)["bounded loss"].to_numpy()
    np.testing.assert_allclose(best, -1.0, atol=1e-12)  # flat above the best of the orderings that were drawn, eq. 3.13


def test_favoured_orderings_do_better(drawn):
    frame = drawn["orderings-favoured"].filter(pl.col("panel") == "AP, N = 75, P = 25", pl.col("share") < 0.5)
    medians = frame.group_by("line", maintain_order=True).agg(pl.col("value").max())
    assert medians["line"].to_list() == [f"favour {n}" for n in (1, 3, 10, 30)]
    assert medians["value"].is_sorted()
    assert medians["value"][0] < 0.4 < 0.8 < medians["value"][-1]


def test_share_of_orderings_is_counted(drawn):
    frame = drawn["orderings-gains"].filter(pl.col("panel") == "AP, N = 8, P = 4", pl.col("line") == "exact")
    found = [worths("AP", ranked) for ranked in set(itertools.permutations([1] * 4 + [0] * 4))]
    for x, share in frame.select("value", "share").rows()[5:-1:20]:
        assert share == pytest.approx(np.mean([value <= x + 1e-12 for value in found]))


# Who is held against whom


def paired(**spec: object) -> dict[str, str]:
    methods = {"b": "lightgbm(approx_ndcg)", "a": "lightgbm( bounded(approx_ndcg) )", "c": "lightgbm(smooth_ap)"}
    methods["d"] = "lightgbm(bounded(smooth_ap, method=expectation))"
    return View(synthetic.results(methods=methods, trials=1, queries=5, curves=False, features=0, **spec)).pairs  # type: ignore[arg-type]


def test_bounded_is_held_against_unbounded():
    assert paired() == {"a": "b", "d": "c"}


def test_specification_may_name_the_baseline():
    assert paired(baseline="c") == {"b": "c", "a": "c", "d": "c"}
    assert paired(baseline={"d": "a"}) == {"d": "a"}


# The page and its files


def test_every_part_is_there_as_files(folder, page):
    files = {path.name for path in (folder / FILES).iterdir()}
    figures = {path.stem for path in (folder / FILES).glob("*.svg")}
    tables = {path.stem for path in (folder / FILES).glob("*.tex")}
    for name in (
        *("means-mslr-web30k", "levels", "curve-valid-ndcg-5", "bound-ndcg", "differences-mslr-web30k", "cutoffs"),
        *("distributions", "scatter", "gains"),
    ):
        assert name in figures
    assert tables == {"comparison-mslr-web30k", "pairs-mslr-web30k", "levels-mslr-web30k", "agreement"}
    assert files == {f"{name}.{end}" for name in figures for end in ("svg", "png", "csv")} | {
        f"{name}.{end}" for name in tables for end in ("tex", "md", "csv")
    }
    for name in figures:
        assert (folder / FILES / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        ET.parse(folder / FILES / f"{name}.svg")  # noqa: S314 - written a moment ago
        assert f'<figure id="{name}">' in page


def test_figures_have_words_and_the_colours_of_the_page(page):
    drawings = re.findall(r"<svg [^>]*>", page)
    assert drawings
    assert all(re.search(r'role="img" aria-label="[^"]{40,}"', one) for one in drawings)
    assert len(re.findall(r'\bid="([^"]+)"', page)) == len(set(re.findall(r'\bid="([^"]+)"', page)))
    plain = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", page))
    assert not plain  # all are names that the style sheet gives another colour in the dark


def test_page_names_no_address(page):
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names of formats
    assert "default-src 'none'" in page
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)


def test_users_texts_are_text(page, results, tmp_path):
    assert EVIL not in page
    assert "<img" not in page
    found = synthetic.results(title="<b>bold</b> & more", methods={"<i>x": "a", "y": "b"}, trials=2, queries=5)
    path, title = tmp_path / "page.html", found.spec["title"]
    html.write_page(path, title=title, kicker="", claim=("<u>", "<u>"), sections=[("a", "<s>", "")], force=False)
    written = path.read_text(encoding="utf-8")
    assert "&lt;b&gt;bold&lt;/b&gt; &amp; more" in written
    assert "<u>" not in written
    assert "<s>" not in written


def test_made_says_command_and_versions(page):
    last = page.partition('id="made"')[2]
    assert "rankwise reproduce synthetic" in last
    assert f"rankwise {rw.__version__}" in last
    assert "lightgbm(xendcg)" in last


def test_drawing_renames_and_recolours():
    svg = '<?xml version="1.0"?><svg viewBox="0 0 2 1" width="9"><metadata>x</metadata>'
    svg += '<path id="a" style="fill: #0072B2"/>'
    svg += '<use xlink:href="#a" clip-path="url(#a)" style="stroke: #123456"/></svg>'
    made = html.drawing(svg, "f", 'a "quoted" <alt>')
    assert 'id="f-a" style="fill: var(--blue)"' in made
    assert 'xlink:href="#f-a" clip-path="url(#f-a)"' in made
    assert "#123456" in made
    assert "metadata" not in made
    assert "a &quot;quoted&quot; &lt;alt&gt;" in made


def test_one_method_and_one_trial_have_a_report_too(tmp_path):
    found = synthetic.results(methods={"only": "lightgbm"}, trials=1, queries=6, curves=False)
    page = write_report(found, tmp_path).read_text()
    assert f"{by_hand(found, 'ndcg@5', 'only')[0]:.4f}" in page
    assert "Query explorer" in page
    assert "What was found" not in page  # there is nothing to compare


@pytest.mark.slow
def test_orderings_alone_have_a_report(tmp_path):
    """Slow: many figures are drawn."""
    found = Results(spec={"name": "x", "figures": ["orderings"]}, queries=empty(QUERIES))
    page = write_report(found, tmp_path).read_text()
    assert "(Figure 3.7.)" in page
    assert len(list((tmp_path / FILES).glob("orderings-*.svg"))) == 9


# What the explorer is given


def test_explorer_holds_the_frames(results):
    found = packed(View(results))
    assert found is not None
    (described,) = found.index["sets"]
    header, numbers = unpack(found.packs["set-0"])
    assert header["ids"][0] == EVIL
    first = results.queries.filter(pl.col("trial") == 0, pl.col("level") == 0.0)
    values = numbers[: 4 * len(header["ids"])].reshape(2, 2, -1)
    for place, method in enumerate(described["methods"]):
        own = first.filter(pl.col("method") == method)
        assert header["ids"] == own["query"].to_list()
        assert header["relevant"] == own["relevant"].to_list()
        for metric, name in enumerate(found.index["metrics"]):
            expected = own[name].fill_null(math.nan).to_numpy().astype(np.float32)
            np.testing.assert_array_equal(values[place, metric], expected)
    header, numbers = unpack(found.packs["set-0-0"])
    documents = results.documents.filter(pl.col("method") == described["methods"][1])
    total = documents.height
    assert header["labels"] == documents["label"].to_list()
    np.testing.assert_array_equal(numbers[total : 2 * total], documents["score"].to_numpy().astype(np.float32))
    matrix = numbers[2 * total :].reshape(total, 3)
    np.testing.assert_allclose(matrix, np.array(results.features["features"].to_list()), rtol=1e-4)


def test_explorer_holds_contributions_where_they_are_known(results):
    found = synthetic.explained(results, 4)
    view = View(found)
    kept = packed(view)
    assert kept is not None
    assert kept.index["sets"][0]["explained"]
    header, numbers = unpack(kept.packs["set-0-0"])
    total, methods, width = len(header["labels"]), 2, 3
    scores = numbers[: methods * total].reshape(methods, total)
    parts = numbers[methods * total + width * total :].reshape(methods, total, width)
    known = int(found.contributions.height / methods)
    np.testing.assert_allclose(parts[:, :known].sum(2), scores[:, :known], atol=1e-3)
    assert np.isnan(parts[:, known:]).all()
    plain = packed(View(results))
    assert plain is not None
    assert not plain.index["sets"][0]["explained"]


def test_explorer_takes_queries_at_even_distances_when_they_are_too_many(monkeypatch):
    found = synthetic.results(trials=1, queries=40, curves=False)
    monkeypatch.setattr("rankwise.wings.lab.report.explorer.MOST_QUERIES", 4)
    monkeypatch.setattr("rankwise.wings.lab.report.explorer._CHUNK", 10)
    made = packed(View(found))
    assert made is not None
    header, _ = unpack(made.packs["set-0"])
    assert header["ids"] == ["q0", "q13", "q26", "q39"]
    assert made.index["sets"][0]["queries"] == 40
    chunks = [unpack(text)[0] for key, text in made.packs.items() if key != "set-0"]
    assert len(chunks) == len(made.index["sets"][0]["chunks"]) > 1
    kept = found.documents.filter(pl.col("method") == "XE-NDCG", pl.col("query").is_in(header["ids"]))
    assert [label for chunk in chunks for label in chunk["labels"]] == kept["label"].to_list()


def test_explorer_keeps_one_similarity_or_none_when_they_are_too_many(monkeypatch, results):
    for most, names in {10**6: 4, 100: 1, 20: 0}.items():
        monkeypatch.setattr("rankwise.wings.lab.report.explorer.MOST_SIMILARITIES", most)
        found = packed(View(results))
        assert found is not None
        header, _ = unpack(found.packs["set-0"])
        assert header["alike"] == ["rbo", "overlap@10", "tau", "tau_ap"][:names], len(header["ids"])


def test_explorer_leaves_features_out_when_they_are_too_many(monkeypatch):
    found = synthetic.results(trials=1, queries=5, curves=False)
    monkeypatch.setattr("rankwise.wings.lab.report.explorer.MOST_NUMBERS", 10)
    made = packed(View(found))
    assert made is not None
    assert made.index["sets"][0]["width"] == 0


# The command


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A folder of results as an experiment leaves it."""
    found = synthetic.results(trials=1, queries=5, curves=False)
    names = []
    for method in synthetic.METHODS:
        own = pl.col("method") == method
        about = {
            "seconds": 1.5,
            "versions": {"rankwise": "0"},
            "feature_names": found.feature_names,
            "search": search(),
        }
        frames = {"queries": found.queries.filter(own), "documents": found.documents.filter(own)}
        frames |= {"curves": found.curves, "features": found.features}
        Store(tmp_path).write(method, Outcome(frames=frames, about=about))
        names.append(method)
    content = {"spec": found.spec, "about": {"command": "rankwise reproduce x"}, "files": names}
    (tmp_path / DESCRIPTION).write_text(json.dumps(content))
    return tmp_path


def search() -> dict[str, object]:
    trials = [
        Trial(number=i, state="complete", value=0.4 + i / 100, values={"leaves": 7 + 4 * i, "extra": bool(i % 2)},
              parameters={"leaves": 7 + 4 * i}, best_round=i, seconds=2.0)
        for i in range(4)
    ]  # fmt: skip
    space = {"leaves": dimension("whole(7, 63)"), "extra": dimension([True, False])}
    found = Tuning(
        ranker_name="lightgbm",
        metric="ndcg@5",
        space=space,
        trials=tuple(trials),
        seed=0,
        stopped="trials",
        checkpoint=None,
    )
    return found.to_dict()


def test_searches_are_read_back():
    again = Tuning.from_dict(search())
    assert again.best.number == 3
    assert again.parameters == {"leaves": 19}
    assert again.to_dict() == search()
    with refusal(what="not the description of a search", got="no 'space'", hint="give the output of 'rankwise…"):
        Tuning.from_dict({key: value for key, value in search().items() if key != "space"})
    first: Any = search()["trials"]
    cases: list[dict[str, Any]] = [
        {"space": []},
        {"trials": [5]},
        {"trials": 5},
        {"trials": [first[0] | {"value": "x"}]},
    ]
    for wrong in cases:
        with pytest.raises(ValueError, match="not the description of a search|the value of a trial must be a number"):
            Tuning.from_dict(search() | wrong)


def test_command_writes_and_never_overwrites_unasked(stored, tmp_path):
    """Slow: the report is written twice."""
    (tmp_path / "mine.json").write_text(json.dumps(search()))
    command = ["report", str(stored), "--output", str(tmp_path / "out"), "--tuning", f"mine={tmp_path / 'mine.json'}"]
    first = CliRunner().invoke(app, [*command, "--json"])
    assert first.exit_code == 0, first.output
    written = json.loads(first.stdout)
    assert Path(written["page"]) == tmp_path / "out" / PAGE
    assert {"search-mine.svg", "search-xe-ndcg-on-mslr-web30k.csv"} <= set(written["files"])
    page = (tmp_path / "out" / PAGE).read_text()
    assert "The search for mine" in page
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 2
    assert "report.html exists already and is kept" in again.stderr
    assert (tmp_path / "out" / PAGE).read_text() == page
    forced = CliRunner().invoke(app, [*command, "--force"])
    assert forced.exit_code == 0, forced.output
    assert "Report: " in forced.stdout


def test_command_says_what_is_no_folder_of_results(tmp_path):
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert done.exit_code == 2
    assert "not a folder of results" in done.stderr
    for text in ("{", "[" * 100_000):
        (tmp_path / "bad.json").write_text(text)
        done = CliRunner().invoke(app, ["report", str(tmp_path), "--tuning", f"x={tmp_path / 'bad.json'}"])
        assert done.exit_code == 2
        assert "cannot read a file of JSON" in done.stderr


def test_results_beside_the_folder_that_is_named_are_suggested(tmp_path: Path):
    for name in ("2021-table1-quick", "thesis"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "experiment.json").write_text("{}")
    with refusal(what="not a folder of results", hint="did you mean …2021-table1-quick"):
        rw.lab.Results.read(tmp_path / "2021-table1")
    with refusal(hint="give the folder that 'rankwise reproduce' wrote, such as …2021-table1…"):
        rw.lab.Results.read(tmp_path / "else")
