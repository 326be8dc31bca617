"""The page of a search for a ranker: everything that was tried is on it, in words, in a table and in a figure."""

import rankwise as rw
from rankwise.wings.lab.report.leaderboard import write_leaderboard
from rankwise.wings.lab.report.write import write_report
from rankwise.wings.tuning.auto.leaderboard import Entry, Leaderboard
from tests.wings.lab import synthetic_results

BOARD = Leaderboard(
    metric="ndcg@10",
    entries=(
        Entry(recipe="neural(<b>)", state="complete", rounds=9, mean=0.52, low=0.5, high=0.54),
        Entry(
            recipe="lightgbm(xendcg)", state="complete", rounds=80, mean=0.515, low=0.495, high=0.535,
            difference=-0.005, error=0.006, p=0.4, gain=0.0125, gain_low=0.0031, gain_high=0.0219, seconds=12.0,
            microseconds=0.5, blend=True, chosen=True,
        ),
        Entry(recipe="catboost(yeti)", state="minutes", rounds=20, mean=0.48, low=0.46, high=0.5),
        Entry(recipe="xgboost(lambdarank)", state="failed", reason="no split"),
        Entry(recipe="neural(listnet)", state="not tried"),
    ),
    stopped="minutes",
    seconds=600.0,
    queries=500,
)  # fmt: skip


def test_page_shows_everything(tmp_path):
    tested = rw.Evaluation({"ndcg@10": [0.25, 0.75]}, [1, 2])
    page = write_leaderboard(BOARD, tmp_path / "page.html", tested=tested).read_text(encoding="utf-8")
    assert "<h1>lightgbm(xendcg) was taken, of 4 recipes</h1>" in page
    assert "neural(<b>) is ahead" not in page  # names are escaped
    assert "neural(&lt;b&gt;) is ahead by 0.0050, within noise (standard error 0.0060)" in page
    assert "The search was worth +0.0125 [+0.0031, +0.0219] over one bag of the default." in page
    assert "xgboost(lambdarank) failed: no split" in page
    assert "Not tried: neural(listnet)." in page
    assert "0.5000" in page
    assert "[+0.0031, +0.0219]" in page
    assert page.count("<svg") == 1
    assert 'aria-label="Leaderboard: neural(&lt;b&gt;) 0.5200;' in page
    assert str(tmp_path) not in page


def test_a_report_has_a_section_of_a_search(tmp_path):
    tested = rw.Evaluation({"ndcg@10": [0.25, 0.75]}, [1, 2])
    results = synthetic_results.results(trials=2, queries=6)
    page = write_report(results, tmp_path, search=(BOARD, tested)).read_text(encoding="utf-8")
    assert "A ranker within a time" in page
    assert "The search was worth +0.0125 [+0.0031, +0.0219] over one bag of the default." in page
