"""The pages about reproductions: what is filled in is what was measured, and what is written by hand stays."""

import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.base import tables
from rankwise.wings.lab.experiments.schema import CURVES
from rankwise.wings.lab.experiments.spec import recipes
from rankwise.wings.lab.experiments.verdicts import verdicts
from rankwise.wings.lab.papers.claims import PAPERS
from tests import tiers
from tests.refusals import refusal, refuses

ROOT = Path(__file__).parents[4]
PAGES = ROOT / "docs" / "results"
RUNS = ("2019-table1", "2021-table1")


@pytest.fixture(scope="module")
def filler() -> ModuleType:
    return importlib.import_module("benchmarks.pages.results.__main__")


@pytest.fixture(scope="module")
def blocks(filler: ModuleType) -> ModuleType:
    """That part of it which makes tables of one experiment."""
    return sys.modules[filler.BLOCKS["made"].__module__]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of two small experiments: the paper printed figures for the data of the second."""
    folder = tmp_path_factory.mktemp("results")
    settings = {"rounds": 5, "leaves": 4, "min_documents": 5, "threads": 1}
    small: dict[str, Any] = {"quick": True, "jobs": 1, "trials": 2, "queries": 40, "settings": settings}
    data = ["synthetic(n_docs=15)"]
    rw.lab.reproduce("2021-table1", folder / "2021-table1", data=data, **small)
    rw.lab.reproduce("2019-table1", folder / "2019-table1", data=data, **small)
    return folder


def block(what: str, run: str) -> str:
    return f"<!-- {what} {run}:begin --> old <!-- {what} {run}:end -->"


def test_differences_by_round_are_those_of_the_curves(filler, results, tmp_path):
    shelf = filler.Folders(results, tmp_path, tmp_path)
    page = filler.filled(shelf, block("rounds", "2021-table1"), "page")
    curves = rw.lab.Results.read(results / "2021-table1").curves.filter(series="valid ndcg@5", round=5)
    low, high = (curves.filter(method=name)["value"].to_numpy().mean() for name in ("LambdaMART", "XE-NDCG"))
    gap = f"{high - low:+.4f}".replace("-", "−")
    assert f"| synthetic | 5 | LambdaMART | XE-NDCG | {low:.4f} | {high:.4f} | {gap} |" in page


def test_peaks_are_chosen_by_validation_data_and_held_against_the_last_round(filler):
    curves = {"valid ndcg@5": (0.5, 0.7, 0.6), "test ndcg@5": (0.8, 0.4, 0.3), "train ndcg@5": (0.5, 0.6, 0.9)}
    rows = [
        ("d", 0.0, trial, "a", 10 * (1 + k), name, value + 0.01 * trial)
        for name, line in curves.items()
        for trial in range(3)
        for k, value in enumerate(line)
    ]
    keys = {"data": ["d"], "level": [0.0], "trial": [0], "method": ["a"], "query": ["1"], "weight": [1.0]}
    results = rw.lab.Results(
        {"decide": "ndcg@5", "alpha": 0.05, "methods": {"a": ""}},
        pl.DataFrame(keys),
        curves=pl.DataFrame(rows, schema=CURVES, orient="row"),
    )
    row = filler.BLOCKS["peaks"](results).splitlines()[2]
    assert row == r"| d | a | 20 | 0.4100 | 0.3100 | −0.1000 | \[−0.1000, −0.1000\] | 0.6100 | 0.9100 |"


def test_differences_by_round_stop_where_a_trial_does_and_take_the_round_before_one_left_out(filler):
    curves = {("a", 0): (1, 5, 10), ("b", 0): (1, 5, 9, 11), ("a", 1): (1, 5, 10, 25), ("b", 1): (1, 5, 10, 25)}
    gain = {"a": 0.0, "b": 0.1}
    rows = [
        ("d", 0.0, trial, method, number, "valid rr", number / 100 + gain[method])
        for (method, trial), numbers in curves.items()
        for number in numbers
    ]
    schema = ["data", "level", "trial", "method", "round", "series", "value"]
    spec = {"decide": "rr", "alpha": 0.05, "split": (0.6, 0.2, 0.2), "methods": {"a": "", "b": ""}}
    queries = pl.DataFrame({"method": ["a", "b"]})
    text = filler.BLOCKS["rounds"](
        rw.lab.Results(spec, queries, curves=pl.DataFrame(rows, schema=schema, orient="row"))
    )
    assert "| d | 5 | a | b | 0.0500 | 0.1500 | +0.1000 |" in text
    assert "| d | 10 | a | b | 0.1000 | 0.1950 | +0.0950 |" in text  # of b in trial 0 there is the ninth
    assert "| d | 25 |" not in text


def test_bounds_are_counted_and_put_beside_their_metrics(filler):
    curves = {"test rr": (0.5, 0.6, 0.8), "bound rr": (0.1, 0.3, 0.2)}
    rows = [("d", 0.0, 0, "a", 1 + k, name, value) for name, line in curves.items() for k, value in enumerate(line)]
    schema = ["data", "level", "trial", "method", "round", "series", "value"]
    found = rw.lab.Results({}, pl.DataFrame(), curves=pl.DataFrame(rows, schema=schema, orient="row"))
    text = filler.BLOCKS["bounds"](found)
    assert "| d | rr | a | 3 | 0 | 0.5000 ≥ 0.1000 | 0.8000 ≥ 0.2000 | +0.50 to +0.50 |" in text


def test_a_paper_without_figures_has_no_column(filler, results):
    with_figures, without = (filler.BLOCKS["beside"](rw.lab.Results.read(results / run)) for run in RUNS)
    assert with_figures.splitlines()[0].count("paper") == 2
    header, line, *rows = [row for row in without.splitlines() if row.startswith("|")]
    assert header == "| method | ndcg@5 | ours − ListNet | 99% interval |"
    assert line == "| :-- | --: | --: | :-- |"
    assert len(rows) == len(rw.lab.Results.read(results / "2021-table1").methods)


def test_rounds_that_are_needed_are_those_of_the_curves(filler, results, tmp_path):
    page = filler.filled(filler.Folders(results, tmp_path, tmp_path), block("reached", "2021-table1"), "page")
    curves = rw.lab.Results.read(results / "2021-table1").curves.filter(series="valid ndcg@5").sort("round")
    needed: dict[str, list[int]] = {"LambdaMART": [], "XE-NDCG": []}
    for trial in curves["trial"].unique():
        paths = {name: curves.filter(trial=trial, method=name)["value"].to_list() for name in needed}
        goal = min(map(max, paths.values()))
        for name, path in paths.items():
            needed[name].append(1 + next(i for i, value in enumerate(path) if value >= goal))
    row = next(line for line in page.splitlines() if "| LambdaMART | XE-NDCG |" in line)
    assert [f"{np.mean(one):.1f}" for one in needed.values()] == [cell.strip() for cell in row.split("|")[8:10]]


def test_single_changes_are_of_settings_or_of_noise(filler):
    methods = {
        "a": "neural(x)", "E[a]": "neural(stochastic(x, samples=8), preset='t')", "b": "neural(y(eta=1))",
        "E[a], same": "neural(stochastic(x, samples=8))", "a, tuned": "neural(x, preset='t')",
    }  # fmt: skip
    keys = [("d", 0.0, trial, name, str(query), 1.0) for trial in range(3) for name in methods for query in range(4)]
    values = {"a": 0.1, "E[a]": 0.6, "b": 0.9, "E[a], same": 0.3, "a, tuned": 0.5}
    rows = [(*key, values[key[3]] + 0.01 * key[2]) for key in keys]
    schema = ["data", "level", "trial", "method", "query", "weight", "rr"]
    spec = {"decide": "rr", "alpha": 0.05, "split": (0.6, 0.2, 0.2), "methods": methods, "metrics": ["rr"], "test": "t"}
    text = filler.BLOCKS["changes"](rw.lab.Results(spec, pl.DataFrame(rows, schema=schema, orient="row")))
    assert [line.split("|")[2:6] for line in text.splitlines()[2:]] == [
        [" noise ", " a ", r" E\[a\], same ", " +0.2000 "],
        [" noise ", " a, tuned ", r" E\[a\] ", " +0.1000 "],
        [" settings ", " a ", " a, tuned ", " +0.4000 "],
        [" settings ", r" E\[a\], same ", r" E\[a\] ", " +0.3000 "],
    ]


def test_measurements_of_gamma_make_tables(filler, tmp_path):
    rows = [
        f"mq2007,{split},{inner},{name},{0.5 + gain},0.4,{0.3 + gain * (1 + split)},50.0"
        for name, gain in (("uniform", 0.0), ("tight", -0.1), ("other", 0.1))
        for split in range(2)
        for inner in range(2)
    ]
    (tmp_path / "gamma.csv").write_text("\n".join(rows))
    page = filler.filled(filler.Folders(tmp_path, None, tmp_path), block("gamma", "gamma"), "page")
    assert "**mq2007-partial**" in page
    assert "| uniform | 0.5000 | 0.4000 | 0.3000 | 50 | 0 |" in page
    assert "| tight | −0.1000 ± 0.0000 | 0.0000 ± 0.0000 | −0.1500 ± 0.7781 | 50 | 0 |" in page  # 12.706 · .0707 · √¾
    assert "| the chosen one of each split | +0.1000 ± 0.0000 | 0.0000 ± 0.0000 | +0.1500 ± 0.7781 |" in page


def test_blocks_hold_what_was_measured_and_prose_stays(filler, results, tmp_path):
    whats = ("made", "means", "beside", "paper", "verdicts")
    text = "My words.\n\n" + "\n\n".join(block(what, "2019-table1") for what in whats) + "\n\nMore words.\n"
    folders = filler.Folders(results, tmp_path, tmp_path)
    page = filler.filled(folders, text, "page")
    assert page.startswith("My words.\n")
    assert page.endswith("\nMore words.\n")
    assert " old " not in page
    assert filler.filled(folders, page, "page") == page
    assert "rankwise reproduce 2019-table1 --data 'synthetic(n_docs=15)' --data-folder DIR --trials 2" in page
    assert "Trials: 2 (paper: 5)" in page
    assert "| mslr-web30k | 0 | ListNet | 0.4672 ± 0.0008 | 0.4898 ± 0.0009 |" in page
    queries = rw.lab.Results.read(results / "2019-table1").queries.filter(level=1.0)
    means = (
        queries.group_by("trial", "method").agg(pl.col("ndcg@5").mean()).group_by("method").agg(pl.col("ndcg@5").mean())
    )
    ours = dict(means.iter_rows())
    row = next(line for line in page.splitlines() if line.startswith("| 1 | ListNet |"))
    assert float(row.split("|")[3]) == pytest.approx(ours["ListNet"], abs=5.1e-5)
    row = next(line for line in page.splitlines() if line.startswith("| 1 | LambdaMART |"))
    gap = float(row.split("|")[5].strip(" *\\").replace("−", "-"))
    assert gap == pytest.approx(ours["LambdaMART"] - ours["ListNet"], abs=5.1e-5)


def test_packs_fill_pages_as_folders_do_and_keep_their_bytes(filler, results, tmp_path, capsys):
    whats = ("made", "means", "beside", "paper", "verdicts")
    page = tmp_path / "page.md"
    page.write_text("\n\n".join(block(what, run) for run in RUNS for what in whats) + block("overview", "all"))
    kept = filler.Folders(tmp_path / "trials", None, tmp_path)
    filler.keep(results, kept, [])
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        str(kept.pack(run)) for run in RUNS
    ]
    text = page.read_text()
    folders = filler.Folders(results, None, tmp_path)
    assert filler.filled(kept, text, "page.md") == filler.filled(folders, text, "page.md")
    before = [kept.pack(run).read_bytes() for run in RUNS]
    filler.keep(results, kept, ["2021-table1"])
    assert [kept.pack(run).read_bytes() for run in RUNS] == before
    assert not rw.lab.Results.read(kept.pack("2021-table1")).documents.height
    page.write_text("<!-- figure 2021-table1/cutoffs:begin --><!-- figure 2021-table1/cutoffs:end -->")
    filler.keep(results, kept, ["2021-table1"])
    assert rw.lab.Results.read(kept.pack("2021-table1")).documents.height


def test_what_is_kept_names_no_folder_of_another_machine(filler, blocks, results):
    found = rw.lab.Results.read(results / "2021-table1")
    spec = found.spec | {"data": ["mq2008", "mq2007-partial=/home/me/mq2007.txt"]}
    about = found.about | {"command": "rankwise reproduce 2021-table1 --data-folder /home/me --jobs 4 -o /home/me/out"}
    kept = filler.public(replace(found, spec=spec, about=about))
    assert "/home" not in repr((kept.spec, kept.about))
    assert blocks.command(kept) == blocks.command(replace(found, spec=spec, about=about)) == kept.about["command"]
    assert "--data mq2007-partial=DIR/mq2007-partial/mq2007.partial.txt.gz" in kept.about["command"]
    assert kept.about["command"].endswith("--jobs 4")


def test_a_check_shows_what_is_not_as_the_trials_have_it(filler, results, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text(f"Words.\n\n{block('means', '2021-table1')}\n\n{block('figure', '2021-table1/means-synthetic')}\n")
    command = ["results.py", str(results), "--pages", str(tmp_path)]
    monkeypatch.setattr("sys.argv", [*command, "--check"])
    old = page.read_text()
    with pytest.raises(SystemExit, match="True"):
        filler.main()
    changes = capsys.readouterr().out
    assert "-<!-- means 2021-table1:begin --> old <!-- means 2021-table1:end -->" in changes
    assert "+| a | ListNet |" in changes
    assert page.read_text() == old
    folders = filler.Folders(results, None, tmp_path)
    page.write_text(filler.filled(folders, old, "page.md"))
    assert block("figure", "2021-table1/means-synthetic") in page.read_text()
    assert filler.differences(folders, []) == []
    with pytest.raises(SystemExit, match="False"):
        filler.main()
    page.write_text(page.read_text().replace("| a | ListNet | 0.", "| a | ListNet | 1.", 1))
    assert any(line.startswith("-| a | ListNet | 1.") for line in filler.differences(folders, []))


def test_the_command_holds_all_that_was_changed(blocks, results):
    found = rw.lab.Results.read(results / "2019-table1")
    assert blocks.command(found).endswith(
        "--data-folder DIR --trials 2 --set queries=40 --set settings.rounds=5 --set settings.patience=20 "
        "--set settings.leaves=4 --set settings.min_documents=5 --set settings.threads=1"
    )
    everywhere = found.spec | {"settings_for": {}, "queries": None, "trials": 5, "levels": [0.0, 0.5]}
    assert blocks.command(replace(found, spec=everywhere)).endswith("--data-folder DIR --set levels='[0.0, 0.5]'")


def test_what_the_full_protocol_takes_is_said_where_there_is_less(blocks, results):
    found = rw.lab.Results.read(results / "2021-table1")
    about = found.about | {"seconds": {"a": [60.0, 180.0], "b": [30.0, 30.0]}, "machine": "Linux-6.1-x86_64, 16 cores"}
    text = blocks.made(replace(found, about=about))
    assert "on Linux with 16 cores." in text
    assert "Training took 5 minutes, added up over 4 models." in text
    assert "- Trials: 2 (paper: 100)." in text
    hours = (120 + 30) * 100 / 3600
    line = (
        f"The full protocol, 100 trials, would take about {hours:.1f} hours of training on these data (measured: 75.0"
    )
    assert line in text
    recipe = blocks.recipe_of("2021-table1")
    fewer = replace(recipe, trials=2)
    assert blocks.full_protocol(replace(found, about=about), fewer) == []
    searched = blocks.full_protocol(replace(found, about=about), replace(fewer, tune_trials=9))
    assert "2 trials with searches of 9 each, would take about 50 minutes" in searched[0]
    uneven = pl.concat([found.queries, found.queries.filter(trial=0).with_columns(data=pl.lit("other"))])
    assert blocks.trials(replace(found, queries=uneven)) == "synthetic 2, other 1 (paper: 100)"
    assert blocks.trials(replace(found, spec=found.spec | {"published": ""})) == "2"


def test_long_tables_of_verdicts_are_cut_to_the_deciding_metric_and_counted(blocks, results, monkeypatch):
    found = rw.lab.Results.read(results / "2021-table1")
    assert "| ndcg@10 |" in blocks.judged(found)
    monkeypatch.setattr(blocks, "ROWS", 4)
    short = blocks.judged(found)
    assert "| ndcg@10 |" not in short
    assert short.count("| ndcg@5 |") == 3
    assert "6 statements: " in short
    counts = [int(word) for word in re.findall(r"(\d+) ×", short)]
    assert sum(counts) == 6


def test_the_overview_has_a_line_for_each_experiment_with_a_page(filler, results, tmp_path):
    (tmp_path / "a.md").write_text(block("made", "2021-table1") + block("made", "2024-figure3-at10"))
    lines = filler.overview(filler.Folders(results, tmp_path, tmp_path)).splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("| [`2021-table1`](a.md) | synthetic | 2 (paper: 100) |")


def test_statements_of_a_paper_stand_beside_our_evidence(filler, results, tmp_path):
    (tmp_path / "a.md").write_text(block("made", "2021-table1"))
    (tmp_path / "b.md").write_text(block("made", "2019-table1"))
    page = filler.filled(filler.Folders(results, None, tmp_path), block("holds", "bruch2019"), "page")
    lines = [line for line in page.splitlines() if line.startswith("| ")][2:]
    found = rw.lab.Results.read(results / "2019-table1")
    said = [one for one in verdicts(found) if one.metric == "ndcg@5"]
    ahead: list[Any] = [one for one in said if len(one.levels) == 1]
    assert len(ahead) == 2
    assert len(lines) == 1 + len(said) - 2
    assert lines[0].startswith(
        "| LambdaMART > ListNet (Table 1, page 4) | [`2019-table1`](b.md): synthetic, 2 trials | "
    )
    least, most = sorted(ahead, key=lambda one: one.difference)
    for one, text in zip((least, most), lines[0].split(" to "), strict=True):
        assert tables.interval(one.low, one.high, signed=True) in text
    assert ", over 2 levels | " in lines[0]
    other = filler.filled(filler.Folders(results, None, tmp_path), block("holds", "kang2024"), "page")
    assert "There are no kept results." in other


def test_blocks_without_results_are_kept_and_broken_markers_refused(filler, results, tmp_path, capsys):
    folders = filler.Folders(results, tmp_path, tmp_path)
    text = block("means", "2024-figure3-at10")
    assert filler.filled(folders, text, "page.md") == text
    assert "page.md: no results of 2024-figure3-at10" in capsys.readouterr().err
    with refusal(what="every <!-- … :begin --> needs its <!-- … :end -->"):
        filler.filled(folders, "<!-- means 2021-table1:begin -->", "page.md")
    with refusal(what="unknown block", got="'maens'"):
        filler.filled(folders, block("maens", "2021-table1"), "page.md")


def test_what_has_no_results_says_so_where_all_results_are_there(filler, blocks, results, tmp_path):
    text = "\n".join(block(what, "2024-figure3-at5") for what in ("made", "means", "figure"))
    (tmp_path / "a.md").write_text(text + block("made", "2021-table1") + block("paper", "2019-table1-fold1"))
    folders = filler.Folders(results, None, tmp_path, all_there=True)
    page = filler.filled(folders, (tmp_path / "a.md").read_text(), "a.md")
    assert page.count("Not computed yet") == 3
    assert "Not computed yet with the present version; the command below makes it." in page
    assert "rankwise reproduce 2024-figure3-at5 --data mq2008 --data-folder DIR" in page
    assert "| mslr-web30k | 0 | ListNet | 0.4672 ± 0.0008 |" in page
    other = page.replace("Not computed yet with the present version;", "Not computed yet, it takes a day;")
    assert filler.filled(folders, other, "a.md") == other
    lines = filler.overview(folders).splitlines()
    assert lines[2].startswith("| [`2024-figure3-at5`](a.md) | – | – (paper: 5) | ")
    assert lines[2].endswith(" | not computed yet |")
    assert lines[3].startswith("| [`2021-table1`](a.md) | synthetic | 2 (paper: 100) |")
    statements = filler.filled(folders, block("holds", "kang2024"), "page")
    assert "| [`2024-figure3-at5`](a.md) | – | not computed yet |" in statements
    assert blocks.recipe_of("2019-table1-50").name == "2019-table1"
    assert blocks.recipe_of("2019-table1-fold1").name == "2019-table1-fold1"
    refuses(lambda: blocks.recipe_of("2019-table12"), what="unknown experiment", got="'2019-table12'")


def test_figures_are_copied_with_their_words(filler, tmp_path):
    from PIL import Image

    report = tmp_path / "reports" / "run"
    (report / "report-files").mkdir(parents=True)
    drawn = Image.linear_gradient("L").resize((1100, 500)).convert("RGBA")
    rare = ((213, 94, 0), (230, 159, 0), (0, 114, 178), (86, 180, 233))  # lines of few pixels must stay apart
    for place, colour in enumerate(rare):
        drawn.paste((*colour, 255), (0, 100 * place, 4, 100 * place + 4))
    drawn.save(report / "report-files" / "means.png")
    (report / "report.html").write_text(
        '<figure id="means"><h3>Means &amp; more</h3>\n<svg role="img" aria-label="E[A] is 1">x</svg>\n'
        "<figcaption>What it is.</figcaption></figure>"
    )
    written = filler.figure(filler.Folders(tmp_path, tmp_path / "reports", tmp_path), "run", "means")
    assert written == "![E(A) is 1](img/run-means.png)\n\n*Means & more.* What it is."
    with Image.open(tmp_path / "img" / "run-means.png") as small:
        for place, colour in enumerate(rare):
            found = small.convert("RGB").getpixel((1, 100 * place + 1))
            assert isinstance(found, tuple)
            assert max(abs(ours - theirs) for ours, theirs in zip(found, colour, strict=True)) <= 20


def test_the_pages_have_all_their_pictures_and_no_others():
    beside = (*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "benchmarks").glob("*.md"))
    texts = [path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")]
    named = {name for text in texts for name in re.findall(r"\]\(img/([^)]+)\)", text)}
    others = [path.read_text(encoding="utf-8") for path in beside]
    named |= {name for text in others for name in re.findall(r"\]\((?:\.\./)?results/img/([^)]+)\)", text)}
    kept = {path.name: path.stat().st_size for path in (PAGES / "img").glob("*")}
    assert named == set(kept)
    assert sum(kept.values()) < 3_000_000
    empty = r"<!-- .*:begin -->\s*<!-- (?!commands:)"
    assert not [text for text in (*texts, *others) if re.search(empty, text)]


def test_what_holds_names_tests_that_there_are():
    page = (PAGES / "what-holds.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]*test_\w+\.py)`", page))
    assert len(named) > 5
    assert not [path for path in named if not (ROOT / "tests" / path).is_file()]
    assert {paper for paper in PAPERS if f"<!-- holds {paper}:begin -->" in page} == set(PAPERS)


def test_every_page_is_found_by_readers():
    nav, index = (ROOT / "mkdocs.yml").read_text("utf-8"), (PAGES / "index.md").read_text("utf-8")
    papers = (ROOT / "docs" / "papers" / "index.md").read_text("utf-8")
    for page in PAGES.glob("*.md"):
        assert page.name == "index.md" or f"]({page.name})" in index
        assert f" results/{page.name}\n" in nav or f"](../results/{page.name})" in papers
    for page in (ROOT / "docs" / "papers").glob("*-20*.md"):
        assert f"]({page.name})" in papers


def test_no_recipe_is_without_a_page(filler):
    folders = filler.Folders(PAGES / "trials", None, PAGES)
    assert set(recipes()) <= {run for _, run in folders.subjects()}


@pytest.mark.slow
@pytest.mark.skipif(not (PAGES / "trials").is_dir(), reason="trials are kept in the repository alone")
def test_the_pages_hold_what_the_kept_trials_give(filler):
    """Slow: every page is made anew from its trials."""
    folders = filler.Folders(PAGES / "trials", None, PAGES, all_there=True)
    kept = list((PAGES / "trials").glob("*.zip"))
    assert {path.stem for path in kept} <= {run for _, run in folders.subjects()}
    assert sum(path.stat().st_size for path in kept) < 20_000_000
    assert "\n".join(filler.differences(folders, [] if tiers.ALL else ["2021-table1", "thesis-mq2008"])) == ""
