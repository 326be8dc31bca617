"""The pages about reproductions: what is filled in is what was measured, and what is written by hand stays."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

import rankwise as rw

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def filler() -> ModuleType:
    """The program, loaded from its file: benchmarks are no package."""
    found = importlib.util.spec_from_file_location("benchmark_results", ROOT / "benchmarks" / "results.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of two small experiments: the paper printed figures for the data of the second."""
    folder = tmp_path_factory.mktemp("results")
    settings = {"rounds": 5, "leaves": 4, "min_documents": 5, "threads": 1}
    small: dict[str, Any] = {"quick": True, "jobs": 1, "trials": 2, "queries": 40, "settings": settings}
    data = ["synthetic(n_docs=15)"]
    rw.reproduce("2021-table1", folder / "2021-table1", data=data, **small)
    rw.reproduce("2019-table1", folder / "2019-table1", data=data, **small)
    return folder


def block(what: str, run: str) -> str:
    return f"<!-- {what} {run}:begin --> old <!-- {what} {run}:end -->"


def test_blocks_hold_what_was_measured_and_prose_stays(filler, results, tmp_path):
    whats = ("made", "means", "beside", "paper", "verdicts")
    text = "My words.\n\n" + "\n\n".join(block(what, "2019-table1") for what in whats) + "\n\nMore words.\n"
    shelf = filler.Shelf(results, tmp_path, tmp_path)
    page = filler.filled(shelf, text, "page")
    assert page.startswith("My words.\n")
    assert page.endswith("\nMore words.\n")
    assert " old " not in page
    assert filler.filled(shelf, page, "page") == page
    assert "rankwise reproduce 2019-table1 --data 'synthetic(n_docs=15)' --data-folder DIR --trials 2" in page
    assert "Trials: 2 (paper: 5)" in page
    assert "| mslr-web30k | 0 | ListNet | 0.4672 ± 0.0008 | 0.4898 ± 0.0009 |" in page
    queries = rw.Results.read(results / "2019-table1").queries.filter(level=1.0)
    means = (
        queries.group_by("trial", "method").agg(pl.col("ndcg@5").mean()).group_by("method").agg(pl.col("ndcg@5").mean())
    )
    ours = dict(means.iter_rows())
    row = next(line for line in page.splitlines() if line.startswith("| 1 | ListNet |"))
    assert float(row.split("|")[3]) == pytest.approx(ours["ListNet"], abs=5.1e-5)
    row = next(line for line in page.splitlines() if line.startswith("| 1 | LambdaMART |"))
    gap = float(row.split("|")[5].strip(" *\\").replace("−", "-"))
    assert gap == pytest.approx(ours["LambdaMART"] - ours["ListNet"], abs=5.1e-5)


def test_long_tables_of_verdicts_are_cut_to_the_deciding_metric_and_counted(filler, results, monkeypatch):
    found = rw.Results.read(results / "2021-table1")
    assert "| ndcg@10 |" in filler.judged(found)
    monkeypatch.setattr(filler, "ROWS", 4)
    short = filler.judged(found)
    assert "| ndcg@10 |" not in short
    assert short.count("| ndcg@5 |") == 3
    assert "6 statements: " in short
    counts = [int(word) for word in re.findall(r"(\d+) ×", short)]
    assert sum(counts) == 6


def test_the_overview_has_a_line_for_each_experiment_with_a_page(filler, results, tmp_path):
    (tmp_path / "a.md").write_text(block("made", "2021-table1") + block("made", "2024-figure3"))
    lines = filler.overview(filler.Shelf(results, tmp_path, tmp_path)).splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("| [`2021-table1`](a.md) | synthetic | 2 (paper: 100) |")


def test_blocks_without_results_are_kept_and_broken_markers_refused(filler, results, tmp_path, capsys):
    shelf = filler.Shelf(results, tmp_path, tmp_path)
    text = block("means", "2024-figure3")
    assert filler.filled(shelf, text, "page.md") == text
    assert "page.md: no results of 2024-figure3" in capsys.readouterr().out
    with pytest.raises(ValueError, match="needs its"):
        filler.filled(shelf, "<!-- means 2021-table1:begin -->", "page.md")
    with pytest.raises(ValueError, match="unknown block: got 'maens'"):
        filler.filled(shelf, block("maens", "2021-table1"), "page.md")


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
    written = filler.figure(filler.Shelf(tmp_path, tmp_path / "reports", tmp_path), "run", "means")
    assert written == "![E(A) is 1](img/run-means.png)\n\n*Means & more.* What it is."
    with Image.open(tmp_path / "img" / "run-means.png") as small:
        for place, colour in enumerate(rare):
            found = small.convert("RGB").getpixel((1, 100 * place + 1))
            assert isinstance(found, tuple)
            assert max(abs(ours - theirs) for ours, theirs in zip(found, colour, strict=True)) <= 20


def test_the_pages_have_all_their_pictures_and_no_others():
    texts = [path.read_text(encoding="utf-8") for path in (*PAGES.glob("*.md"), ROOT / "docs" / "gallery.md")]
    named = {name for text in texts for name in re.findall(r"\]\((?:results/)?img/([^)]+)\)", text)}
    kept = {path.name: path.stat().st_size for path in (PAGES / "img").glob("*")}
    assert named == set(kept)
    assert sum(kept.values()) < 3_000_000
    empty = r"<!-- .*:begin -->\s*<!-- (?!commands:)"
    assert not [text for text in texts if re.search(empty, text)]
