"""Off-policy estimators, by listing all rankings and all clicks of two queries."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.off_policy import estimators
from rankwise.wings.clicks.off_policy.estimators import Estimated, LogCandidates, RankRange
from rankwise.wings.clicks.off_policy.log_rows import LoggedRows, require_item_probabilities, require_lists_without_gaps
from rankwise.wings.clicks.positions.bias import Bias
from tests.refusals import refusal, refuses

DEPTH, SIZE = 3, 4
ALPHA, BETA = np.array([0.9, 0.5, 0.3]), np.array([0.06, 0.03, 0.01])
BIAS = Bias.known(ALPHA, BETA)
RELEVANCE = np.array([[0.2, 0.9, 0.5, 0.1], [0.7, 0.3, 0.05, 0.6]])
WRONG = np.array([[0.5, 0.1, 0.4, 0.8], [0.2, 0.9, 0.3, 0.3]])
TRAFFIC = np.array([1.0, 3.0])
NEW = np.array([[0.1, 0.7, 0.4, 0.2], [0.9, 0.1, 0.3, 0.5]])
# Conditional probabilities by the place among the documents that are left: exact in float32, which sessions hold.
CHANCES = {4: (0.5, 0.25, 0.125, 0.125), 3: (0.25, 0.5, 0.25), 2: (0.75, 0.25), 1: (1.0,)}
RATES = np.random.default_rng(4).uniform(0.05, 0.9, (2, SIZE, DEPTH))

Ranking = tuple[int, ...]
Users = Callable[[int, Ranking, tuple[int, ...]], float]
"""The probability of clicks on a list of a query."""


def rankings(size: int = SIZE) -> Iterator[tuple[Ranking, list[float]]]:
    """Yield the lists that the logging ranker draws, with the probability of each document given those above."""
    for order in itertools.permutations(range(size), DEPTH):
        left = list(range(size))
        chances = []
        for document in order:
            chances.append(CHANCES[len(left)][left.index(document)])
            left.remove(document)
        yield order, chances


def independent(rates: Callable[[int, int, int, Ranking], float]) -> Users:
    """Users whose clicks are independent, with a probability by query, document, position and list."""

    def chance(query: int, order: Ranking, clicks: tuple[int, ...]) -> float:
        by_place = [rates(query, document, k, order) for k, document in enumerate(order)]
        return float(np.prod([p if click else 1.0 - p for p, click in zip(by_place, clicks, strict=True)]))

    return chance


def reading_on(query: int, order: Ranking, clicks: tuple[int, ...]) -> float:
    """Users who read from the top, and leave after a click with probability .6."""
    chance, present = 1.0, 1.0  # of what was seen so far, and of still reading given that
    for document, click in zip(order, clicks, strict=True):
        rate = RELEVANCE[query, document] * present
        chance *= rate if click else 1.0 - rate
        present = 0.4 if click else present * (1.0 - RELEVANCE[query, document]) / (1.0 - rate)
    return chance


POSITION = independent(lambda query, document, k, _: ALPHA[k] * RELEVANCE[query, document] + BETA[k])
ITEM_POSITION = independent(lambda query, document, k, _: RATES[query, document, k])
BELOW = independent(  # a click depends on the document below
    lambda query, document, k, order: RATES[query, document, k] * (0.5 if (*order, 0)[k + 1] == 1 else 1.0)
)
PATTERNS = list(itertools.product((0, 1), repeat=DEPTH))


def expected_log(users: Users, *, conditional: bool = True, size: int = SIZE) -> Log:
    """Return the log whose weights are the probabilities of all lists of the first documents, and of all clicks."""
    at = np.zeros((SIZE, DEPTH))
    for order, chances in rankings(size):
        at[order, range(DEPTH)] += np.prod(chances)
    rows = [
        {
            "query": f"q{query}",
            "document": f"d{document}",
            "impression": f"{order} {clicks}",
            "position": k + 1,
            "clicked": clicks[k],
            "weight": TRAFFIC[query] * float(np.prod(chances)) * users(query, order, clicks),
            "probability": chances[k] if conditional else at[document, k],
            "user": f"{order[0]}",
        }
        for query in range(2)
        for order, chances in rankings(size)
        for clicks in PATTERNS
        for k, document in enumerate(order)
    ]
    return Log.from_rows(pl.LazyFrame(rows))


def clicks_on(users: Users, query: int, order: Ranking) -> np.ndarray:
    """Return the expected clicks at each position of a list."""
    return np.asarray(np.sum([users(query, order, clicks) * np.array(clicks) for clicks in PATTERNS], axis=0))


def truth(users: Users, orders: list[list[tuple[Ranking, float]]], depth: int = DEPTH) -> float:
    """Return the expected clicks an impression of rankings that are drawn with these probabilities."""
    values = [
        sum(chance * clicks_on(users, query, order)[:depth].sum() for order, chance in orders[query])
        for query in range(2)
    ]
    return float(TRAFFIC @ values / TRAFFIC.sum())


BEST = [[(tuple(np.argsort(-row)[:DEPTH].tolist()), 1.0)] for row in NEW]


def drawn(temperature: float) -> list[list[tuple[Ranking, float]]]:
    """Return all Plackett-Luce lists of the new scores with their probabilities."""
    lists: list[list[tuple[Ranking, float]]] = []
    for row in NEW:
        weights = np.exp(row / temperature)
        lists.append([])
        for order in itertools.permutations(range(SIZE), DEPTH):
            left, chance = weights.sum(), 1.0
            for document in order:
                chance *= weights[document] / left
                left -= weights[document]
            lists[-1].append((order, chance))
    return lists


def documents_of(log: Log, relevance: np.ndarray = WRONG) -> LogCandidates:
    return LogCandidates(offsets=log.offsets, rows=np.arange(2 * SIZE), relevance=relevance.ravel())


def value(estimated: Estimated, shown: LoggedRows) -> float:
    return float(estimated.totals.sum() / shown.unit_traffic.sum())


def exposure(log: Log) -> np.ndarray:
    traffic = TRAFFIC[np.repeat([0, 1], SIZE)]
    return np.asarray(np.bincount(log.pairs, log.impressions * BIAS.of(log.positions)[0]) / traffic)


def position_based(users: Users, by: str = "query", **how: object) -> float:
    log = expected_log(users)
    shown = LoggedRows.of(log, by)
    settings: Any = {"bias": BIAS, "exposure": exposure(log), "floor": 0.0, **how}
    relevance = settings.pop("relevance", WRONG)
    estimated = estimators.position_based(NEW.ravel(), shown, documents_of(log, relevance), DEPTH, **settings)
    return value(estimated, shown)


@pytest.mark.parametrize("by", ["query", "user"])
def test_position_based_is_unbiased_with_a_wrong_regression(by: str) -> None:
    estimate = position_based(POSITION, by)
    assert estimate == pytest.approx(truth(POSITION, BEST), abs=1e-10)


def test_position_based_is_unbiased_with_wrong_probabilities_and_the_right_regression() -> None:
    estimate = position_based(POSITION, exposure=np.full(2 * SIZE, 0.37), relevance=RELEVANCE)
    assert estimate == pytest.approx(truth(POSITION, BEST), abs=1e-10)
    both_wrong = position_based(POSITION, exposure=np.full(2 * SIZE, 0.37))
    assert abs(both_wrong - truth(POSITION, BEST)) > 0.01


def test_position_based_under_a_cascade_is_biased_by_what_documents_above_hide() -> None:
    # Its target is E[clicks − β of the document] / E[α shown], of whatever stands above it in the log.
    targets, shown = np.zeros((2, SIZE)), np.zeros(SIZE)
    for order, chances in rankings():
        chance = np.prod(chances)
        shown[list(order)] += chance * ALPHA
        for query in range(2):
            targets[query, list(order)] += chance * (clicks_on(reading_on, query, order) - BETA)
    orders = [list(BEST[query][0][0]) for query in range(2)]
    values = [(ALPHA * (targets[query] / shown)[orders[query]] + BETA).sum() for query in range(2)]
    estimate = position_based(reading_on)
    assert estimate == pytest.approx(TRAFFIC @ values / TRAFFIC.sum(), abs=1e-10)
    assert abs(estimate - truth(reading_on, BEST)) > 0.02


@pytest.mark.parametrize("users", [POSITION, ITEM_POSITION])
@pytest.mark.parametrize("by", ["query", "user"])
def test_item_position_is_unbiased(users: Users, by: str) -> None:
    log = expected_log(users, conditional=False)
    require_item_probabilities(log)
    shown = LoggedRows.drawn(log, by)
    estimated = estimators.item_position(NEW.ravel(), shown, documents_of(log), DEPTH)
    assert value(estimated, shown) == pytest.approx(truth(users, BEST), abs=1e-10)
    assert estimated.balance == pytest.approx(1.0, abs=1e-10)


def test_item_position_under_a_cascade_is_biased_by_what_documents_above_hide() -> None:
    log = expected_log(reading_on, conditional=False)
    shown = LoggedRows.drawn(log, "query")
    estimate = value(estimators.item_position(NEW.ravel(), shown, documents_of(log), DEPTH), shown)
    values = np.zeros(2)
    for query, k in itertools.product(range(2), range(DEPTH)):
        # The mean over logged lists that have the document at the position.
        same = [(order, np.prod(chances)) for order, chances in rankings() if order[k] == BEST[query][0][0][k]]
        clicks = sum(chance * clicks_on(reading_on, query, order)[k] for order, chance in same)
        values[query] += clicks / sum(chance for _, chance in same)
    assert estimate == pytest.approx(TRAFFIC @ values / TRAFFIC.sum(), abs=1e-10)
    assert abs(estimate - truth(reading_on, BEST)) > 0.02


@pytest.mark.parametrize("users", [POSITION, ITEM_POSITION, reading_on])
@pytest.mark.parametrize("bias", [BIAS, None])
@pytest.mark.parametrize(("temperature", "depth"), [(0.0, 3), (0.4, 3), (0.4, 2)])
def test_cascade_is_unbiased(users: Users, bias: Bias | None, temperature: float, depth: int) -> None:
    log = expected_log(users)
    shown = LoggedRows.drawn(log, "query")
    require_lists_without_gaps(shown)
    how: Any = {"bias": bias, "temperature": temperature}
    estimated = estimators.cascade(NEW.ravel(), shown, documents_of(log), depth, **how)
    expected = truth(users, drawn(temperature) if temperature else BEST, depth)
    assert value(estimated, shown) == pytest.approx(expected, abs=1e-10)
    assert estimated.balance == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("floor", [0.0, 2.0])
def test_bounds_of_position_based_hold_what_was_never_or_hardly_shown(floor: float) -> None:
    rows = log_rows(expected_log(POSITION)).filter((pl.col("query") != "q0") | (pl.col("document") != "d1"))
    log = Log.from_rows(rows.lazy())
    shown = LoggedRows.of(log, "query")
    shares = np.bincount(log.pairs, log.impressions * BIAS.of(log.positions)[0]) / TRAFFIC[log.query_of_pair]

    def bounds(relevance: np.ndarray) -> list[float]:
        places: Any = {"offsets": np.array([0, SIZE, 2 * SIZE]), "rows": np.delete(np.arange(2 * SIZE), 1)}
        documents = LogCandidates(**places, relevance=relevance.ravel())
        settings: Any = {"bias": BIAS, "exposure": shares, "floor": floor}
        estimated = estimators.position_based(NEW.ravel(), shown, documents, DEPTH, **settings)
        settings |= {"beside": estimated.guessed}  # what another ranking shows as much is not assumed of this one
        same = estimators.position_based(NEW.ravel(), shown, documents, DEPTH, **settings)
        assert value(same.lowest, shown) == value(same.highest, shown) == value(estimated, shown)
        for low, end in ((0.0, estimated.lowest), (documents.relevance, estimated)):
            other = replace(documents, low_relevance=low)
            again = estimators.position_based(NEW.ravel(), shown, other, DEPTH, **settings | {"beside": 0.0})
            assert again.likely_low is not None
            assert value(again.likely_low, shown) == pytest.approx(value(end, shown), abs=1e-12)
        assert estimated.unsupported >= TRAFFIC[0] / TRAFFIC.sum() * ALPHA[0] / ALPHA.sum() - 1e-12
        return [value(end, shown) for end in (estimated.lowest, estimated.highest)]

    def with_relevance(number: float) -> float:
        changed = RELEVANCE.copy()
        changed[0, 1] = number  # the first document of the new ranking
        users = independent(lambda query, document, k, _: ALPHA[k] * changed[query, document] + BETA[k])
        return truth(users, BEST)

    low, high = bounds(WRONG)
    assert [low, high] == pytest.approx(bounds(RELEVANCE), abs=1e-10)  # whatever R̂ says
    if floor == 0.0:
        assert [low, high] == pytest.approx([with_relevance(0.0), with_relevance(1.0)], abs=1e-10)
    assert low <= with_relevance(0.0) + 1e-10
    assert high >= with_relevance(1.0) - 1e-10


@pytest.mark.parametrize("name", ["item-position", "cascade"])
def test_bounds_without_the_last_document(name: str) -> None:
    # It is third in the new ranking of one query, and second in that of the other.
    users = ITEM_POSITION if name == "item-position" else reading_on
    log = expected_log(users, conditional=name == "cascade", size=SIZE - 1)
    shown = LoggedRows.drawn(log, "query")
    rows = np.array([0, 1, 2, SIZE, SIZE + 1, SIZE + 2])
    documents = LogCandidates(offsets=np.array([0, SIZE, 2 * SIZE]), rows=rows, relevance=WRONG.ravel())
    if name == "cascade":
        estimated = estimators.cascade(NEW.ravel(), shown, documents, DEPTH, bias=BIAS)
        known, unknown = ([0, 1], [0]), np.array([1.0, 2.0])  # below a new document nothing is known
    else:
        estimated = estimators.item_position(NEW.ravel(), shown, documents, DEPTH)
        known, unknown = ([0, 1], [0, 2]), np.array([1.0, 1.0])
    clicks = np.array([clicks_on(users, query, BEST[query][0][0])[known[query]].sum() for query in range(2)])
    assert value(estimated.lowest, shown) == pytest.approx(TRAFFIC @ clicks / TRAFFIC.sum(), abs=1e-10)
    assert value(estimated.highest, shown) == pytest.approx(TRAFFIC @ (clicks + unknown) / TRAFFIC.sum(), abs=1e-10)
    rates = np.bincount(shown.positions, shown.clicks)[1:] / TRAFFIC.sum()
    assert estimated.unsupported == pytest.approx(TRAFFIC @ rates[[2, 1]] / TRAFFIC.sum() / rates.sum())


def test_cascade_of_lists_that_end_with_the_last_click_is_unbiased() -> None:
    # A user who leaves at the first click has no clicks below, and the list may end there.
    first = independent(lambda query, document, k, _: ALPHA[k] * RELEVANCE[query, document])

    def leaves(query: int, order: Ranking, clicks: tuple[int, ...]) -> float:
        if sum(clicks) > 1:
            return 0.0
        stop = clicks.index(1) + 1 if any(clicks) else DEPTH
        return sum(first(query, order, one) for one in PATTERNS if one[:stop] == clicks[:stop])

    log = expected_log(leaves)
    frame = log_rows(log).filter(pl.col("position") <= pl.col("stop"))
    shown = LoggedRows.drawn(Log.from_rows(frame.lazy()), "query")
    estimated = estimators.cascade(NEW.ravel(), shown, documents_of(log), DEPTH, bias=BIAS)
    assert value(estimated, shown) == pytest.approx(truth(leaves, BEST), abs=1e-10)


def log_rows(log: Log) -> pl.DataFrame:
    """Return the rows of all impressions, with the position of the first click."""
    sessions = log.sessions
    assert sessions is not None
    assert sessions.probabilities is not None
    lists = np.repeat(np.arange(sessions.n_impressions), np.diff(sessions.offsets))
    return pl.DataFrame(
        {
            "query": log.query_ids[np.searchsorted(log.offsets, sessions.pairs, side="right") - 1],
            "document": log.document_ids[sessions.pairs],
            "impression": lists,
            "position": sessions.positions,
            "clicked": sessions.clicked,
            "weight": sessions.weights[lists],
            "probability": sessions.probabilities,
        }
    ).with_columns(stop=pl.when("clicked").then("position").min().over("impression").fill_null(DEPTH))


def test_cascade_is_biased_where_clicks_depend_on_documents_below() -> None:
    log = expected_log(BELOW)
    shown = LoggedRows.drawn(log, "query")
    estimate = value(estimators.cascade(NEW.ravel(), shown, documents_of(log), DEPTH, bias=BIAS), shown)
    values = np.zeros(2)
    for query, k in itertools.product(range(2), range(DEPTH)):
        # The mean over logged lists with the same documents down to the position, whatever is below.
        same = [(order, np.prod(p)) for order, p in rankings() if order[: k + 1] == BEST[query][0][0][: k + 1]]
        values[query] += sum(p * clicks_on(BELOW, query, order)[k] for order, p in same) / sum(p for _, p in same)
    assert estimate == pytest.approx(TRAFFIC @ values / TRAFFIC.sum(), abs=1e-10)
    assert abs(estimate - truth(BELOW, BEST)) > 0.01


def test_the_logging_policy_itself_has_weights_of_one() -> None:
    scores = np.log([[0.5, 0.25, 0.125, 0.125]] * 2).ravel()
    rows = []
    for order in itertools.permutations(range(SIZE), DEPTH):
        left, shares = 1.0, []
        for document in order:
            shares.append(np.exp(scores[document]) / left)
            left -= np.exp(scores[document])
        rows += [
            (f"q{query}", f"d{document}", str(order), k + 1, k == 1, shares[k], np.prod(shares))
            for query in range(2)
            for k, document in enumerate(order)
        ]
    names = ("query", "document", "impression", "position", "clicked", "probability", "weight")
    log = Log.from_rows(pl.DataFrame(rows, schema=names, orient="row").lazy())
    shown = LoggedRows.drawn(log, "query")
    estimated = estimators.cascade(scores, shown, documents_of(log), DEPTH, bias=None, temperature=1.0)
    assert estimated.largest == pytest.approx(1.0, abs=1e-6)
    assert estimated.effective == pytest.approx(shown.traffic.sum(), rel=1e-6)
    top = estimators.cascade(scores, shown, documents_of(log), 2, bias=None, temperature=1.0)
    assert top.effective == pytest.approx(shown.traffic.sum(), rel=1e-6)


def test_weights_of_a_sample() -> None:
    rows = log_rows(expected_log(reading_on)).filter(pl.col("impression") % 7 == 0)
    log = Log.from_rows(rows.lazy())
    shown = LoggedRows.drawn(log, "query")
    estimated = estimators.cascade(NEW.ravel(), shown, documents_of(log), DEPTH, bias=None, temperature=0.4)
    chances = [dict(orders) for orders in drawn(0.4)]
    clicks, weights = 0.0, []
    for _, rows_of_list in rows.sort("position").group_by("impression", maintain_order=True):
        query = int(rows_of_list["query"][0][1])
        order = tuple(int(name[1]) for name in rows_of_list["document"])
        for k in range(DEPTH):
            drawn_alike = sum(chance for one, chance in chances[query].items() if one[: k + 1] == order[: k + 1])
            ratio = drawn_alike / float(np.prod(rows_of_list["probability"].to_numpy()[: k + 1].astype(float)))
            clicks += rows_of_list["weight"][0] * ratio * rows_of_list["clicked"][k]
            weights.append((rows_of_list["weight"][0], ratio))
    counts, ratios = np.array(weights).T
    assert value(estimated, shown) == pytest.approx(clicks / (counts.sum() / DEPTH))
    assert estimated.largest == pytest.approx(ratios.max())
    assert estimated.effective == pytest.approx((counts @ ratios) ** 2 / (counts @ ratios**2) / DEPTH)


def test_what_is_lost_at_the_first_position_of_a_cascade_is_lost_for_all() -> None:
    # The best document of a query was never shown first, though below.
    rows = log_rows(expected_log(reading_on)).with_columns(
        first=pl.when(pl.col("position") == 1).then("document").drop_nulls().first().over("impression")
    )
    log = Log.from_rows(rows.filter((pl.col("query") == "q1") | (pl.col("first") != "d1")).lazy())
    shown = LoggedRows.drawn(log, "query")
    estimated = estimators.cascade(NEW.ravel(), shown, documents_of(log), DEPTH, bias=None)
    assert estimated.unsupported == 0.0
    assert estimated.balance == pytest.approx(TRAFFIC[1] / shown.traffic.sum())


def test_equal_scores_share_their_places() -> None:
    documents = LogCandidates(offsets=np.array([0, 3, 5]), rows=np.arange(5), relevance=np.zeros(5))
    places = RankRange.of(np.array([1.0, 2.0, 1.0, -np.inf, 0.0]), documents)
    curve = np.array([1.0, 0.5, 0.2])
    assert places.mean(curve, documents.queries).tolist() == pytest.approx([0.35, 1.0, 0.35, 0.0, 1.0])
    assert places.mean(curve[:2], documents.queries).tolist() == pytest.approx([0.25, 1.0, 0.25, 0.0, 1.0])
    assert places.chance(np.arange(5), np.array([3, 1, 1, 1, 1])).tolist() == [0.5, 1.0, 0.0, 0.0, 1.0]


def test_curves_by_segment_are_weighed_by_the_traffic_of_each_query() -> None:
    rows = {
        "query": ["a", "a", "a", "b"],
        "document": ["x", "x", "x", "x"],
        "impression": [1, 2, 3, 4],
        "position": [1, 1, 1, 1],
        "clicked": [0, 0, 1, 1],
        "segment": ["phone", "phone", "screen", "unknown"],
    }
    log = Log.from_rows(pl.LazyFrame(rows))
    curves = np.array([[0.8, 0.2], [1.0, 0.5]])
    known = Bias.known([1.0, 0.4])
    fields = {name: getattr(known, name) for name in known.__dataclass_fields__}
    bias = Bias(**{**fields, "segment_names": ("screen", "phone"), "by_segment": curves})
    alpha, _ = estimators.query_curves(LoggedRows.of(log, "query", bias), bias, 2, 2)
    assert alpha == pytest.approx(np.array([(curves[0] + 2 * curves[1]) / 3, [1.0, 0.4]]))


def test_refusals_name_what_is_missing() -> None:
    refuses(lambda: require_item_probabilities(expected_log(POSITION)), got="…given those above it…")
    rows = {"query": ["q"], "document": ["d"], "impression": [1], "position": [2], "clicked": [1]}

    def log(*probability: float, sessions: bool = True) -> Log:
        columns = rows | ({"probability": probability} if probability else {})
        return Log.from_rows(pl.LazyFrame(columns), sessions=sessions)

    refuses(lambda: LoggedRows.drawn(log(), "query"), got="a log without probabilities", hint="…position…")
    with refusal(what="rankers that always show the same list leave no estimator but the position-based one"):
        LoggedRows.drawn(log(1.0), "query")
    with refusal(what="logging probabilities of what was shown must be above 0 and at most 1"):
        LoggedRows.drawn(log(0.0), "query")
    with refusal(what="a cascade needs lists from the first position on without gaps"):
        require_lists_without_gaps(LoggedRows.drawn(log(0.5), "query"))
    refuses(lambda: LoggedRows.of(log(), "user"), got="a log without users")
    refuses(lambda: LoggedRows.drawn(log(0.5, sessions=False), "query"), got="a log without sessions")
