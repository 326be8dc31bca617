"""The benchmark of rerankers runs everywhere, small; and its verdicts follow from its figures."""

import importlib
import json
import sys

import pytest


def contestants(*figures):
    return {name: {"ms": ms, "GB": gb} for name, (ms, gb) in zip("abcde", figures, strict=True)}


def test_targets_are_judged_for_the_longest_lists():
    found = importlib.import_module("benchmarks.speed.rerank").targets(
        [
            {"contestants": {}, "loss ms": 0.0},
            {"contestants": contestants((1000, 18.0), (1, 1), (1, 1), (900, 0.5), (200, 3.0)), "loss ms": 1.0},
        ],
        {"ms": 1.0, "GB": 0.4},
    )
    assert [line["found"] for line in found] == [1.25, 36.0, 5.0, 0.005]
    assert [line["met"] for line in found] == [False, True, True, True]


@pytest.mark.slow
def test_every_contestant_takes_its_turn(tmp_path, monkeypatch, capsys):
    command = ["rerank.py", "--device", "cpu", "--small", "--json", str(tmp_path / "found.json")]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(sys, "argv", command)
    importlib.import_module("benchmarks.speed.rerank").main()
    said = capsys.readouterr().out
    assert "| 2 × 5 (" in said
    found = json.loads((tmp_path / "found.json").read_text())
    assert len(found["rows"]) == 2
    for row in found["rows"]:
        assert list(row["contestants"]) == [
            *("LambdaLoss, 4", "ListNetLoss, 4", "LambdaLoss, 8"),
            *("rankwise, 4", "rankwise, 8"),
        ]
        assert min(one["ms"] for one in row["contestants"].values()) > 0
    assert len(found["targets"]) == 4
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- rerank:begin -->\nold\n<!-- rerank:end -->\nbehind\n")
    monkeypatch.setattr(sys, "argv", ["rerank_page.py", str(tmp_path / "found.json"), "--page", str(page)])
    importlib.import_module("benchmarks.pages.rerank").main()
    text = page.read_text()
    assert "old" not in text
    assert "| 2 × 5 (" in text
    assert "share of the loss in a step" in text
    assert text.startswith("before\n")
    assert text.endswith("behind\n")
