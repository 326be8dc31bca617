"""Segments and gates on the command line, and the example for CI as a shell script."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.running import refused, run

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """120 queries on two devices; ``worse`` ranks those of desktops at random."""
    here, rng = tmp_path_factory.mktemp("gate"), np.random.default_rng(0)
    queries = np.repeat(np.arange(120), 8)
    labels = rng.integers(0, 3, queries.size)
    desktop = queries % 2 == 1
    old = labels + rng.normal(size=queries.size)
    scores = {
        "old": old,
        "new": old + 0.2 * rng.normal(size=old.size),
        "worse": np.where(desktop, rng.random(old.size), old),
    }
    lines = ["qid,label,bm25,device"]
    for query, label, x, other in zip(queries, labels, old, desktop, strict=True):
        lines.append(f"q{query},{label},{x:.3f},{'desktop' if other else 'phone'}")
    (here / "judged.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    market = [f"q{query},{'de' if query < 60 else 'fr'}" for query in range(120)]
    (here / "markets.csv").write_text("\n".join(["query,market", *market]) + "\n", encoding="utf-8")
    for name, column in scores.items():
        np.savetxt(here / f"{name}.txt", column)
    return here


def compared(folder, candidate, margin, *options, code):
    words = (folder / "judged.csv", f"old={folder}/old.txt", f"new={folder}/{candidate}.txt", "--metrics", "ndcg@10")
    return run("compare", *words, "--not-worse-than", margin, *options, code=code)


@pytest.mark.parametrize(("candidate", "code"), [("new", 0), ("worse", 3)])
def test_a_gate_passes_or_fails(folder, candidate, code):
    result = compared(folder, candidate, 0.05, "--segment", f"device,{folder}/markets.csv", "--json", code=code)
    document = json.loads(result.stdout)  # one object
    gate = document["gate"]
    assert (gate["verdict"], gate["exit_code"], gate["system"]) == ({0: "passes", 3: "fails"}[code], code, "new")
    checks = {(one["segment"], one["value"]): one["verdict"] for one in gate["checks"]}
    assert list(checks) == [("", ""), ("device", "desktop"), ("device", "phone"), ("market", "de"), ("market", "fr")]
    assert checks["device", "desktop"] == gate["verdict"]
    assert checks["device", "phone"] != "fails"
    assert len(document["segments"]["pairs"]) == 4


def test_a_gate_that_cannot_tell(folder, tmp_path):
    titled = "--titles", "<i>", "--report", tmp_path / "page.html"
    compared(folder, "new", 0.0001, *titled, code=4)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<h3 id="checks">Is new not worse than old by 0.0001?</h3>' in page
    assert "cannot tell whether new is worse than old by 0.0001: &lt;i&gt; on all queries" in page
    result = compared(folder, "new", 0.0001, code=4)
    assert "These queries cannot tell whether new is worse than old by 0.0001" in " ".join(result.stdout.split())
    assert "Gate" in result.stdout
    assert "By segment" not in result.stdout


def test_a_column_says_what_nobody_judged(folder, tmp_path):
    lines = (folder / "judged.csv").read_text(encoding="utf-8").splitlines()
    more = ["judged", *("0" if line.split(",")[1] == "0" else "1" for line in lines[1:])]
    (tmp_path / "judged.csv").write_text("\n".join(map(",".join, zip(lines, more, strict=True))), encoding="utf-8")
    words = tmp_path / "judged.csv", f"old={folder}/old.txt", f"new={folder}/new.txt", "--judged", "judged", "--json"
    assert json.loads(run("compare", *words).stdout)["judged"]["old"]["mean"] < 1.0


def test_results_keep_segments(folder, tmp_path):
    for name in ("old", "worse"):
        words = folder / "judged.csv", folder / f"{name}.txt", "--segment", "device", "-m", "ndcg@10"
        shown = run("evaluate", *words, "--per-query", tmp_path / f"{name}.parquet")
        assert "desktop" in shown.stdout
    stored = "compare", f"old={tmp_path}/old.parquet", f"new={tmp_path}/worse.parquet", "--segment"
    assert "new loses on device desktop, against old" in " ".join(run(*stored, "device").stdout.split())
    assert "market" in run(*stored, f"device,{folder}/markets.csv", "--not-worse-than", 0.9).stdout


def test_a_table_says_how_often_each_query_is_asked(folder, tmp_path):
    counts = [f"q{query},{1000 // (query + 1)}" for query in range(120)]
    (tmp_path / "asked.csv").write_text("\n".join(["query,traffic", *counts]) + "\n", encoding="utf-8")
    words = "evaluate", folder / "judged.csv", folder / "old.txt", "-m", "ndcg@10", "--segment", tmp_path / "asked.csv"
    rows = [line.split()[:2] for line in run(*words).stdout.splitlines() if line.startswith("traffic")]
    assert rows == [["traffic", "head"], ["traffic", "torso"], ["traffic", "tail"]]


def test_refusals(folder, tmp_path):
    words = "compare", folder / "judged.csv", folder / "old.txt", folder / "new.txt"
    assert "--not-worse-than" in refused(*words, "--not-worse-than", 0)
    assert "no difference is as large as the margin: got 5 for ndcg@5" in refused(*words, "--not-worse-than", 5)
    assert "a segment must be the same for all documents of a query" in refused(*words, "--segment", "bm25")
    text = refused(*words, folder / "worse.txt", "--not-worse-than", 0.1)
    assert "a gate is for one system" in text
    assert "Hint: name two rankings." in text
    assert "Hint: give queries weights, or a table with the columns query and traffic, of how often" in refused(
        *words, "--segment", "traffic"
    )
    (tmp_path / "twice.csv").write_text("query,market\nq1,de\nq1,fr\n", encoding="utf-8")
    (tmp_path / "other.csv").write_text("id,market\nq1,de\n", encoding="utf-8")
    assert "one row" in refused(*words, "--segment", tmp_path / "twice.csv")
    assert "has the column query" in refused(*words, "--segment", tmp_path / "other.csv")
    assert "missing" in refused(*words, "--segment", tmp_path / "missing.csv")


def test_data_check_and_cross_validate_take_segments(folder, tmp_path):
    words = folder / "judged.csv", "--test", folder / "judged.csv", "--categorical", "device", "--segment", "device"
    assert "device desktop cannot tell differences below" in run("data", "check", *words, code=3).stdout
    quick = folder / "judged.csv", "--categorical", "device", "--segment", "device", "--rounds", 2, "--folds", 2
    assert "By segment" in run("cross-validate", *quick, "-o", tmp_path / "cv").stdout


def test_the_example_for_ci_runs(folder, tmp_path):
    """As a GitHub Action runs it: a shell script, whose exit code decides and whose tables go to the summary."""
    (tmp_path / "rankwise").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rankwise "$@"\n', encoding="utf-8")
    (tmp_path / "rankwise").chmod(0o755)
    summary = tmp_path / "summary.md"
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(summary)}
    for candidate, margin, code, said in (("new", "0.05", 0, "not worse"), ("worse", "0.05", 3, "::error::")):
        words = "judged.csv", "old.txt", f"{candidate}.txt", margin
        done = subprocess.run(
            ["sh", EXAMPLES / "gate.sh", *(folder / word for word in words[:3]), margin],
            env=environment, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip
        assert (done.returncode, said in done.stdout) == (code, True), done.stderr
        assert json.loads((tmp_path / "gate.json").read_text(encoding="utf-8"))["gate"]["exit_code"] == code
    assert summary.read_text(encoding="utf-8").count("| verdict |") == 4  # segments and gates of both
    action = (EXAMPLES / "gate.yml").read_text(encoding="utf-8")
    assert "run: sh examples/gate.sh judged.csv production.txt candidate.txt" in action
