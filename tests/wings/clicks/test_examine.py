"""Examination of a log: exchanges by hand, intervals by likelihood and simulation, a log for every finding."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import rankwise as rw
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.logs.position_pairs import Exchanges
from tests.wings.clicks.test_log import rows


def log_of(lists: list[tuple[str, str, int]], **columns: Any) -> Log:
    """A log of impressions: query, documents by position (a letter each, capital if clicked, a dot: none), repeats."""
    table = [
        {"query": query, "document": name.lower(), "impression": number, "position": place, "clicked": name.isupper()}
        | {key: values[i] for key, values in columns.items()}
        for number, (i, query, documents) in enumerate(
            (i, query, documents) for i, (query, documents, times) in enumerate(lists) for _ in range(times)
        )
        for place, name in enumerate(documents, 1)
        if name != "."
    ]
    return Log.from_rows(pl.LazyFrame(table))


def topics(log: Log) -> dict[str, str]:
    return {finding.topic: finding.severity for finding in log.examine().findings}


def sentences(log: Log) -> str:
    return "\n".join(finding.sentence for finding in log.examine().findings)


def by_document(log: Log) -> tuple[Any, Any]:
    """Clicks and impressions by document and position; in two segments a document is two."""
    size = log.n_pairs * len(log.segment_names), log.n_positions
    clicks, shown = np.zeros(size), np.zeros(size)
    places = log.pairs * len(log.segment_names) + log.segments, log.positions - 1
    np.add.at(clicks, places, log.clicks)
    np.add.at(shown, places, log.impressions)
    used = shown.sum(1) > 0
    return clicks[used], shown[used]


def test_exchanges_are_those_of_a_loop_over_documents() -> None:
    log = Log.from_rows(rows(200).lazy())
    clicks, shown = by_document(log)
    n = log.n_positions
    expected = clicks.sum(0) / shown.sum(0) * shown
    documents, harvested, information = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    for pair, (a, b) in itertools.product(range(len(shown)), itertools.permutations(range(n), 2)):
        if shown[pair, a] and shown[pair, b]:
            documents[a, b] += 1
            harvested[a, b] += clicks[pair, a]
            information[a, b] += clicks[pair].sum() * expected[pair, a] * expected[pair, b] / expected[pair].sum() ** 2
    exchanges = Exchanges.of(log)
    np.testing.assert_array_equal(exchanges.documents, documents)
    np.testing.assert_allclose(exchanges.clicks, harvested)
    np.testing.assert_allclose(exchanges.information, information)


def test_errors_are_those_of_the_likelihood() -> None:
    """The curvature of the conditional likelihood of clicks, given each document's number of clicks."""
    log = Log.from_rows(rows(300).lazy())
    clicks, shown = by_document(log)
    n = log.n_positions

    def likelihood(curve: Any) -> float:
        return float((clicks @ curve).sum() - (clicks.sum(1) * np.log(shown @ np.exp(curve))).sum())

    start, step, units = np.log(clicks.sum(0) / shown.sum(0)), 1e-3, np.eye(n)
    hessian = np.zeros((n, n))
    for a, b in itertools.product(range(n), repeat=2):
        corners = [start + step * (i * units[a] + j * units[b]) for i, j in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
        values = [likelihood(corner) for corner in corners]
        hessian[a, b] = (values[0] - values[1] - values[2] + values[3]) / (4 * step**2)
    covariance = np.linalg.inv(-hessian[1:, 1:])  # relative to the first position
    np.testing.assert_allclose(Exchanges.of(log).errors()[1:], np.sqrt(np.diag(covariance)), rtol=1e-3)


def test_errors_are_the_spread_of_estimates() -> None:
    random = np.random.default_rng(5)
    relevance, curve = random.uniform(0.05, 0.3, 40), (1.0, 0.5)
    table = {"query": "q", "impression": 0, "ranker": "", "segment": ""}
    estimates, errors = [], []
    for _ in range(300):
        clicks = np.concatenate([random.poisson(100 * chance * relevance) for chance in curve]).astype(float)
        log = Log(
            query_ids=np.array([table["query"]]),
            offsets=np.array([0, 40]),
            document_ids=np.arange(40),
            pairs=np.tile(np.arange(40), 2),
            positions=np.repeat([1, 2], 40),
            rankers=np.zeros(80, np.int64),
            segments=np.zeros(80, np.int64),
            impressions=np.full(80, 100.0),
            clicks=clicks,
        )
        estimates.append(np.log(clicks[40:].sum() / clicks[:40].sum()))
        errors.append(Exchanges.of(log).errors()[1])
    assert np.mean(errors) == pytest.approx(np.std(estimates), rel=0.15)


def test_positions_that_never_exchange_a_document_are_named() -> None:
    log = log_of([("q", "AbCD", 3), ("q", "BADc", 3)])
    sentence = "Positions 1 to 2 and 3 to 4 never exchange a document: their propensities cannot be compared."
    assert sentence in sentences(log)
    frame = log.examine().to_frame()
    assert frame["component"].to_list() == [0, 0, 1, 1]
    assert frame["factor"].is_nan().to_list() == [False, False, True, True]
    log = log_of([("q", "AbcD", 3), ("q", "BAdc", 3), ("q", "e..e", 1), ("r", "cx.c", 1)])
    assert "never exchange a document that was clicked" in sentences(log)
    assert "never" not in sentences(log_of([("q", "ABC", 1), ("q", "CAB", 1)]))


def test_one_deterministic_ranker_identifies_nothing() -> None:
    log = log_of([("q", "Abc", 5), ("r", "dEf", 5)])
    finding = log.examine().findings[0]
    assert (finding.severity, finding.topic) == ("error", "identification")
    assert "one deterministic ranker" in finding.sentence
    assert topics(log)["rankers"] == "warning"
    two = log_of([("q", "Abc", 5), ("r", "dEf", 5)], ranker=["old", "new"])
    assert "rankers that agree" in sentences(two)
    assert "rankers" not in topics(two)
    assert "Nothing was clicked" in sentences(log_of([("q", "ab", 1), ("q", "ba", 1)]))


def test_precision_depends_on_the_number_of_clicks() -> None:
    few, many = ([("q", "Ab", times), ("q", "bA", times), ("q", "ab", 1)] for times in (50, 2000))
    assert topics(log_of(few))["precision"] == "warning"
    assert topics(log_of(many))["precision"] == "note"
    # Two positions with n clicks each: the variance of the log ratio is 2/n.
    times = 2 / 50 * (stats.norm.ppf(0.975) / np.log(1.1)) ** 2
    assert f"About {times:,.0f} times as many clicks" in sentences(log_of(few))


@pytest.mark.parametrize(
    ("lists", "users", "topic", "words"),
    [
        ([("q", "A", 4), ("q", "bAcdefgh", 4)], None, "length", "5% have at most 1 document, 5% at least 8 (median 4)"),
        ([("q", "Ab", 2), ("q", "bA", 2)], None, "selection", "Every impression has a click"),
        ([("q", "A.c", 2), ("q", "c.a", 2)], None, "identification", "Nothing was shown at position 2"),
        ([("q", "abC", 99), ("q", "bca", 9)], None, "positions", "higher at position 3 than at 1"),
        (
            [("q", "AB", 5), ("q", "ba", 5)],
            ["bot", "u"],
            "users",
            "1 user clicked everything shown (100.0% of all clicks)",
        ),
        (
            [("q", "AB", 4), ("q", "ba", 5)],
            ["bot", "u"],
            "doubled",
            "7 impressions (77.8%) repeat the query and the list",
        ),
        ([("q", "Ab", 9)] + [("r", "cD", 1)] * 20, [*"abcdefghijklmnopqrstu"], "users", "One user made 31%"),
        ([("q", "Ab", 1), ("q", "ba", 1)], None, "users", "There are no users (user=)"),
    ],
)
def test_findings_on_lists_and_users(lists: Any, users: Any, topic: str, words: str) -> None:
    log = log_of(lists, **({"user": users} if users else {}))
    assert words in sentences(log)
    assert topic in topics(log)


def shown_to_users(seed: int, robots: int = 5, users: int = 400, lists: int = 3000) -> Log:
    """A log of users with their own click rates, some of them heavy, and of robots: 1% of the impressions."""
    random = np.random.default_rng(seed)
    often = random.pareto(1.2, users) + 0.2
    theirs = lists // 100 if robots else 0
    user = np.append(
        random.choice(users, lists - theirs, p=often / often.sum()), users + np.arange(theirs) % (robots or 1)
    )
    relevance, rate = random.uniform(0.1, 1.0, (20, 6)), np.append(random.beta(4, 12, users), [0.0] * robots)
    query, order = random.integers(0, 20, lists), np.argsort(random.random((lists, 6)), axis=1)
    chance = rate[user][:, None] * relevance[query[:, None], order] * np.array([1.0, 0.7, 0.5, 0.3, 0.2, 0.1])
    clicked = random.random((lists, 6)) < np.where(user[:, None] < users, chance, 0.97)
    table = {
        "query": np.repeat(query, 6),
        "document": order.ravel(),
        "impression": np.repeat(np.arange(lists), 6),
        "position": np.tile(np.arange(1, 7), lists),
        "clicked": clicked.ravel().astype(int),
        "user": np.repeat(user, 6),
    }
    return Log.from_rows(pl.LazyFrame(table))


def test_robots_are_found_and_heavy_users_are_not() -> None:
    marked = [shown_to_users(seed, robots=0).robots.sum() for seed in range(8)]
    assert sum(marked) == 0
    log = shown_to_users(1)
    assert log.sessions is not None
    assert log.sessions.user_ids is not None
    assert log.sessions.user_ids[log.robots].tolist() == [400, 401, 402, 403, 404]
    sentence = next(one.sentence for one in log.examine().findings if one.topic == "users")
    assert sentence.startswith(
        "5 users click more than the spread of users explains (400, 401, 402, 403, 404): 1.0% of"
    )
    rest = log.only(users=~log.robots)  # the hint is followed
    assert not rest.robots.any()
    last = (log.positions == 6, rest.positions == 6)
    less = 1 - rest.clicks[last[1]].sum() / log.clicks[last[0]].sum()
    assert f"without them there are {less:.0%} less at position 6" in sentence
    bias = rw.clicks.propensities(log, resamples=2)
    assert "without users who click like robots" in bias.check(log).sentence
    assert bias.check(log).alarm
    assert not rw.clicks.propensities(rest, resamples=2).check(log).alarms


def test_a_sound_log_has_no_warning() -> None:
    lists = [("q", "Abc", 400), ("q", "bAc", 400), ("q", "cbA", 400), ("q", "Bca", 300), ("q", "aBc", 300)]
    lists += [("q", "acB", 300), ("q", "abC", 100), ("q", "bCa", 100), ("q", "cab", 400), ("q", "Cab", 100)]
    log = log_of([(*one, 2 * times) for *one, times in lists], ranker=[f"r{i % 2}" for i in range(len(lists))])  # type: ignore[misc]
    assert set(topics(log).values()) == {"note"}


def test_a_log_without_sessions_is_examined_as_far_as_possible() -> None:
    log = Log.from_rows(rows().lazy(), sessions=False)
    assert topics(log)["sessions"] == "note"
    assert "length" not in topics(log)


def test_the_frame_has_click_through_with_intervals() -> None:
    log = Log.from_rows(rows().lazy())
    frame = log.examine().to_frame()
    sums = log.to_frame().group_by("ranker", "position").agg(pl.col("impressions", "clicks").sum())
    assert frame.select(sums.columns).sort("ranker", "position").equals(sums.sort("ranker", "position"))
    for row in frame.iter_rows(named=True):
        interval = stats.binomtest(int(row["clicks"]), int(row["impressions"])).proportion_ci(method="wilson")
        assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high), abs=1e-12)


def test_the_page_and_the_figure(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names: Any = {name: name for name in rows().columns if name != "day"}
    log = rw.clicks.read(rows().with_columns(pl.col("position") - 1), **names)
    page = log.examine()
    text = repr(page)
    assert text.startswith("Log(")
    assert "at position 1" in text
    assert "· Reading: positions were counted from 0: 1 was added" in text
    assert max(map(len, text.split("\n"))) <= 120
    assert page.plot(tmp_path / "page.png").stat().st_size > 10_000
    many = log_of([("q", "Abcdefghijklmnopqrstuvwxyz", 2), ("q", "zyxwvutsrqponmlkjihgfedcbA", 2)])
    assert "and 6 positions more" in repr(many.examine())
