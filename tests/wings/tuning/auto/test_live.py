"""What is seen of a search: the numbers that matter, in whatever width there is, and a line for each training."""

import io
import math
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from rankwise.wings.tuning.auto import budget, live
from rankwise.wings.tuning.auto.live import LiveView, SearchState, line

LONG = "lightgbm(stochastic(lambdarank, scale=0.25), leaves=15, extra_trees=True)"
MOMENT: dict[str, Any] = {
    "recipe": LONG,
    "done": 3,
    "recipes": 12,
    "round": 250,
    "value": 0.53012,
    "ended": "",
    "leader": f"x{LONG}",
    "leads_with": 0.61234,
    "spent": 49.0,
    "seconds": 180.0,
}


@pytest.fixture
def seconds(monkeypatch):
    """The time, which a test may set."""
    now = [0.0]
    monkeypatch.setattr(budget, "clock", lambda: now[0])
    return now


def drawn(screen: LiveView, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(screen)
    return console.export_text().splitlines()


@pytest.mark.parametrize("width", [34, 60, 80, 120, 200])
def test_numbers_are_seen_in_any_width(width, seconds):
    screen = LiveView("ndcg@10")
    assert drawn(screen, width) == []
    screen.update(SearchState(**MOMENT))
    trying, leads, time = drawn(screen, width)
    assert max(map(len, (trying, leads, time))) <= width
    assert trying.split()[0] == "trying"
    assert "250" in trying
    assert trying.rstrip().endswith("0.5301")
    assert leads.split()[0] == "leads"
    assert leads.rstrip().endswith("0.6123")
    assert "2:11 left, 3" in time
    if width == 200:
        assert LONG in trying
        assert f"x{LONG}" in leads


def test_the_clock_goes_on_between_rounds(seconds):
    screen = LiveView("ap")
    screen.update(SearchState(**MOMENT))
    seconds[0] = 31.4
    assert "1:40 left" in drawn(screen, 80)[-1]
    seconds[0] = 200.0
    assert "0:00 left" in drawn(screen, 80)[-1]


def test_without_a_limit_recipes_are_counted(seconds):
    screen = LiveView("ap")
    first = {"round": 0, "value": math.nan, "leader": "", "leads_with": -math.inf, "seconds": math.inf}
    screen.update(SearchState(**MOMENT | first))
    trying, leads, time = drawn(screen, 100)
    assert trying.rstrip().endswith("begins")
    assert leads.split() == ["leads", "–"]
    assert time.endswith("3 of 12 recipes complete")
    assert "left" not in time


def test_a_line_begins_with_its_numbers():
    said = line(SearchState(**MOMENT | {"ended": "partial"}), "ndcg@10")
    assert said[:45] == "ndcg@10 0.5301, best 0.6123; 2 min left; ligh"
    failed = line(SearchState(**MOMENT | {"ended": "failed", "round": 0, "value": math.nan}), "ndcg@10")
    assert failed.endswith(f"{LONG}: failed")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_rounds_do_not_draw(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    threads: list[threading.Thread] = []

    def draw(*_: object) -> Iterator[Text]:
        threads.append(threading.current_thread())
        yield Text("drawn")

    monkeypatch.setattr(LiveView, "__rich_console__", draw)
    with live.showing(None, "ap") as report:
        del threads[:]
        for number in range(1000):
            report(SearchState(**MOMENT | {"round": number}))
        assert threading.current_thread() not in threads
    assert "drawn" in terminal.getvalue()
