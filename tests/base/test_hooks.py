"""What wings bring is found by name; of a wing that is absent, an error says so."""

import pytest

import rankwise as rw
from rankwise.base import hooks


def test_what_an_absent_wing_would_bring_is_named(monkeypatch):
    lists = rw.RankingDataset([[1.0], [2.0], [3.0]], [0, 1, 2], [0, 3])
    monkeypatch.delitem(hooks._places["evaluation"], "policy")
    monkeypatch.delitem(hooks._places["url"], "fetch")
    with pytest.raises(ModuleNotFoundError, match="no wing of this installation brings the evaluation 'policy'"):
        rw.evaluate([1.0, 2.0, 3.0], lists, policy="plackett_luce")
    with pytest.raises(ModuleNotFoundError, match="no wing of this installation brings the url 'fetch'"):
        rw.read_data("https://localhost:1/rows.txt")


def test_a_table_is_read_and_shown_as_a_dictionary():
    table = hooks.ByName("metric", {"own": int})
    assert {"own", "kendall"} <= set(table)
    assert table["kendall"] is rw.metrics.Kendall
    assert table.get("nothing") is None
    with pytest.raises(KeyError, match="nothing"):
        _ = table["nothing"]
    assert repr(rw.metrics.METRICS) == repr(dict(rw.metrics.METRICS))
    assert repr(table).startswith("{'own': <class 'int'>, ")
