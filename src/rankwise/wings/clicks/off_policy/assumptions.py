"""What an off-policy comparison assumes, held against the log where the log can tell."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from rankwise import Ranker, RankingDataset, check
from rankwise.base import tables
from rankwise.base.arrays import Array, comparable
from rankwise.evaluation import Scored
from rankwise.statistics import FEWEST, TTest
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.off_policy.estimators import Estimated, LogCandidates, RankRange
from rankwise.wings.clicks.off_policy.log_rows import LoggedRows, require_lists_without_gaps
from rankwise.wings.clicks.positions.check import BiasCheck

Outcome = Literal["holds", "fails", "not checked"]
ALIKE = 0.95
"""The share of its impressions in which a logged ranker has production's lists if it is production."""
_LEVEL = 0.99  # of the interval of production's estimated clicks less its logged ones
_OFF = 0.01  # of production's clicks: less than that is rounding, or R̂ where propensities are clipped
_SEEN = 0.1  # of production's clicks: an error that the log must be able to show
_LEAST_QUERIES = 30  # that no system learned from
_LEAST_CLICKS = 20.0  # below a click that independent clicks would make
_FEWER = 0.1  # by how much clicks must be fewer below a click, beyond chance


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """Something that a comparison assumes, and what the log says to it."""

    name: str
    outcome: Outcome
    sentence: str
    """What was found, or why nothing could be checked."""
    refusal: str = ""
    """Why nothing can be decided, as the rest of a sentence after "because"; empty where it can."""
    caveat: str = ""
    """A sentence that belongs to any verdict."""


def click_model(outcome: BiasCheck, *, has_intervals: bool) -> Assumption:
    """Return what the check of the position bias says."""
    held: Outcome = "fails" if outcome.alarm else "holds"
    refusal = ""
    if outcome.alarm:
        why = "; ".join(outcome.alarms) or "it does not predict the clicks of a ranker that it has not seen"
        refusal = f"the click model fails its check: {why}"
    elif not outcome.possible:
        refusal, held = f"the click model cannot be checked: {outcome.reason}", "not checked"
    elif not has_intervals:
        refusal = "the propensities have no intervals, so that it is not known how wrong they may be"
    return Assumption(name="the click model", outcome=held, sentence=outcome.sentence, refusal=refusal)


def unseen_clicks(systems: Mapping[str, Scored], log: Log, features: RankingDataset | None) -> tuple[Log, Assumption]:
    """Return the clicks of queries by whose clicks no system was trained; raise where too few remain."""
    seen, unknown, sentences = np.zeros(log.n_queries, np.bool_), list[str](), list[str]()
    rankers = {name: system for name, system in systems.items() if isinstance(system, Ranker)}
    for name in systems:
        by_id = rankers[name].seen_in_training(log.query_ids.astype(np.str_)) if name in rankers else None
        unknown += [name] if by_id is None else []
        seen |= False if by_id is None else by_id
    if left_out := int(seen.sum()):
        if log.n_queries - left_out < _LEAST_QUERIES:
            raise check.error(
                "systems are compared by clicks of queries that they were not trained on",
                got=f"{log.n_queries - left_out:,} of {log.n_queries:,} queries, of at least {_LEAST_QUERIES}",
                hint="hold queries out before training: `rw.clicks.split(log)|clicks train --holdout`; for a model of "
                "other clicks of these queries `pass its scores, model.predict(features)|write a run with predict`",
            )
        sentences.append(f"{left_out:,} of {log.n_queries:,} queries are left out: a system learned from them.")
        log = log.only(queries=~seen)
    if unknown:
        sentences.append(f"Whether {' and '.join(unknown)} learned from these clicks is not known.")
    labelled = [] if features is None else [_labelled(name, ranker, log, features) for name, ranker in rankers.items()]
    caveat = " ".join(filter(None, labelled))
    sentence = " ".join(sentences) or "no system learned from them."
    held: Outcome = "not checked" if unknown or caveat else "holds"
    return log, Assumption(name="clicks new to all systems", outcome=held, sentence=sentence, caveat=caveat)


def _labelled(name: str, ranker: Ranker, log: Log, features: RankingDataset) -> str:
    """Return a sentence about queries whose labels a ranker was trained on, which may come from these clicks."""
    by_features = ranker.seen_in_training(features)
    ours, logged = comparable(np.asarray(features.query_ids), log.query_ids)
    in_log = np.isin(ours, logged)
    if by_features is None or not (both := int((by_features & in_log).sum())):
        return ""
    what = f"{name} was trained on labels of {both:,} of these {log.n_queries:,} queries"
    return f"{what}: it is flattered if they come from these clicks."


class _Logged(NamedTuple):
    """A ranker of the log, and the share of its impressions in which it has production's lists."""

    number: int
    alike: float


def production_clicks(
    name: str,
    scores: Array,
    log: Log,
    shown: LoggedRows,
    documents: LogCandidates,
    cutoff: int,
    estimates: Sequence[Callable[..., Estimated]],
    *,
    drawn: bool,
) -> Assumption:
    """Compare production's estimated clicks an impression with those that it had in the log.

    Production is the logged ranker of its name, or else the one with its lists in 95% of impressions or more. Queries
    count by its own traffic. Clicks differ where a 99% interval by unit excludes 0, at each of the ``estimates`` (the
    bias, and the ends of its intervals), and by more than a hundredth. Where the log's lists were drawn and those of
    the comparison are not, or the other way round, there is nothing to compare; where they are others than those of the
    scores, equal clicks say nothing, and any verdict has a caveat.
    """
    what = "production's own clicks"
    number, alike = _logged_as(name, RankRange.of(scores, documents), log, documents, cutoff)
    label = repr(log.ranker_names[number])
    if log.ranker_names[number] != name and alike < ALIKE:
        closest = f"no ranker of the log is {name}, by its name or by its lists (the closest, {label}, has {alike:.0%})"
        return Assumption(name=what, outcome="not checked", sentence=f"{closest}.")
    random = log.probabilities is not None and bool((log.probabilities[log.rankers == number] < 1.0).any())
    if random != drawn:
        drew, shows = ("drew its lists", "shows the best") if random else ("drew nothing", "draws its lists")
        sentence = f"{label} {drew} at random in the log, and {name} {shows} here."
        return Assumption(name=what, outcome="not checked", sentence=sentence)
    produced = (shown.rankers == number) & (shown.positions <= cutoff)
    impressions = _impressions(shown, shown.rankers == number)
    own_traffic, traffic_of = (np.bincount(shown.queries, one, log.n_queries) for one in (impressions, shown.traffic))
    share = np.divide(own_traffic, traffic_of, out=np.zeros(log.n_queries), where=traffic_of > 0.0)
    of_list = share[shown.queries]
    of_row = of_list[shown.lists]
    weighed = replace(
        shown, weights=shown.weights * of_row, clicks=shown.clicks * of_row, traffic=shown.traffic * of_list
    )
    units = shown.unit_traffic.size
    clicks = np.bincount(shown.units[shown.lists][produced], shown.clicks[produced], units)
    traffic = np.bincount(shown.units, impressions, units)
    if np.count_nonzero(traffic) < FEWEST:
        return Assumption(name=what, outcome="not checked", sentence=f"{label} was hardly shown.")
    freedom = max(1, round(traffic.sum() ** 2 / (traffic @ traffic)) - 1)

    def gap(estimate: Callable[..., Estimated]) -> TTest:
        """Return the difference of two ratios of sums over units."""
        parts = (estimate(scores, shown=weighed).totals, weighed.unit_traffic), (clicks, traffic)
        new, old = (values.sum() / of.sum() for values, of in parts)
        spread = (parts[0][0] - new * parts[0][1]) / parts[0][1].sum() - (clicks - old * traffic) / traffic.sum()
        return TTest(float(new - old), _error(spread), freedom)

    tests = [gap(one) for one in estimates]
    logged = clicks.sum() / traffic.sum()
    ends = [test.interval(_LEVEL) for test in tests]
    beyond = all(low > 0.0 for low, _ in ends) or all(high < 0.0 for _, high in ends)
    fails = beyond and all(abs(test.mean) > _OFF * logged for test in tests)
    numbers = f"{tables.number(logged + tests[0].mean)} estimated and {tables.number(logged)} logged"
    other_lists = alike < ALIKE and not random
    lists = f"; its lists are as scored in {alike:.0%} of impressions" if other_lists else ""
    caveat = f"{name} is compared by its scores, which are not what it showed: {lists[2:]}." if other_lists else ""
    where = f"{numbers} over {traffic.sum():,.0f} impressions of {label}"
    if not fails and (ends[0][1] - ends[0][0]) / 2.0 > _SEEN * logged:
        sentence = f"{where}, too few to see a difference of a tenth{lists}."
        return Assumption(name=what, outcome="not checked", sentence=sentence, caveat=caveat)
    agreement = "NOT within chance" if fails else "within a hundredth" if beyond else "within chance"
    return Assumption(
        name=what,
        outcome="fails" if fails else "not checked" if other_lists else "holds",  # equal clicks of other lists are luck
        sentence=f"{where}, {agreement}{lists}.",
        refusal=f"the log contradicts the estimate of {name}: {numbers}{lists}" if fails else "",
        caveat="" if fails else caveat,
    )


def _logged_as(name: str, places: RankRange, log: Log, documents: LogCandidates, cutoff: int) -> _Logged:
    """Return the logged ranker of a name, or the one that has most of these lists."""
    rows = documents.rows[log.pairs]
    same = (places.first[rows] < log.positions) & (log.positions <= places.last[rows] + 1)
    cells = pl.DataFrame({"ranker": log.rankers, "query": log.queries, "position": log.positions})
    cells = cells.with_columns(shown=pl.Series(log.impressions), same=pl.Series(log.impressions * same))
    cells = cells.filter(pl.col("position") <= cutoff)
    # A list agrees where all its positions do: the least share of a position is that of lists, or a little more.
    cells = cells.group_by("ranker", "query", "position").agg(pl.sum("shown", "same"))
    lists = cells.group_by("ranker", "query").agg(pl.max("shown"), alike=(pl.col("same") / pl.col("shown")).min())
    alike = lists.group_by("ranker").agg(alike=(pl.col("alike") * pl.col("shown")).sum() / pl.col("shown").sum())
    share = dict.fromkeys(range(len(log.ranker_names)), 0.0) | dict(alike.sort("ranker").iter_rows())
    number = log.ranker_names.index(name) if name in log.ranker_names else max(share, key=lambda one: share[one])
    return _Logged(number, share[number])


def _error(values: Array) -> float:
    """Return the standard error of a sum over independent units, from their values less the mean."""
    n = int(np.count_nonzero(values))
    return math.sqrt(float(values @ values) * n / max(n - 1, 1))


def _impressions(shown: LoggedRows, rows: Array) -> Array:
    """Return how often these rows were shown as lists: of each list, at the position that was shown most often."""
    frame = pl.DataFrame({"list": shown.lists, "position": shown.positions, "shown": shown.weights * rows})
    frame = frame.group_by("list", "position").agg(pl.sum("shown")).group_by("list").agg(pl.max("shown"))
    column = np.zeros(shown.traffic.size)
    column[frame["list"].to_numpy()] = frame["shown"].to_numpy()
    return column


def independent_clicks(log: Log, by: str, level: float) -> Assumption:
    """Compare clicks below a click with those of the same document at the same position without a click above.

    The ratio is Mantel-Haenszel's over documents, positions and segments, with an interval by query: 1 where clicks do
    not depend on each other, and 0 where users leave with their first. Above 1 users differ, which hides who leaves.
    """
    what = "the independence of clicks"
    if (sessions := log.sessions) is None:
        return Assumption(name=what, outcome="not checked", sentence="the log has no impressions one by one.")
    starts, sizes = sessions.offsets[:-1], np.diff(sessions.offsets)
    before = np.cumsum(sessions.clicked, dtype=np.int64) - sessions.clicked
    below = before > np.repeat(before[starts], sizes)
    rows = pl.LazyFrame(
        {
            "pair": sessions.pairs,
            "position": sessions.positions,
            "segment": np.repeat(sessions.segments, sizes),
            "weight": np.repeat(sessions.weights, sizes),
            "below": below,
            "clicked": sessions.clicked,
        }
    )
    weight, is_below, clicked = pl.col("weight"), pl.col("below"), pl.col("clicked")
    sums = {
        "below": is_below,
        "free": ~is_below,
        "clicks_below": clicked & is_below,
        "clicks_free": clicked & ~is_below,
    }
    strata = (
        rows.group_by("pair", "position", "segment", maintain_order=True)
        .agg(**{name: weight.filter(part).sum() for name, part in sums.items()})
        .collect()
    )
    shown = strata["below"] + strata["free"]
    queries = log.query_of_pair[strata["pair"].to_numpy()]
    observed, expected = (
        np.bincount(queries, (strata[clicks] * strata[without] / shown).to_numpy(), log.n_queries)
        for clicks, without in (("clicks_below", "free"), ("clicks_free", "below"))
    )
    total = expected.sum()
    if total < _LEAST_CLICKS or np.count_nonzero(expected) < FEWEST:
        return Assumption(name=what, outcome="not checked", sentence="there are too few clicks below a click.")
    ratio = observed.sum() / total
    freedom = int(np.count_nonzero((observed > 0.0) | (expected > 0.0))) - 1
    low, high = TTest(ratio, _error(observed - ratio * expected) / total, freedom).interval(level)
    number = f"{ratio:.2f} {tables.interval(max(low, 0.0), high, 2)}"
    sentence = f"clicks below a click are {number} times those at the same place without one above"
    if ratio > 1.0 + _FEWER and low > 1.0:
        sentence += ", as where some users click more than others: whether they stop after a click cannot be seen."
        return Assumption(name=what, outcome="not checked", sentence=sentence)
    if not (ratio < 1.0 - _FEWER and high < 1.0):
        return Assumption(name=what, outcome="holds", sentence=f"{sentence}.")
    caveat = f"Users click less below a click, {number} times: the size of the difference is likely overstated"
    if allows_cascade(log, by):
        caveat += '; this log allows `estimator="cascade"`'
    return Assumption(name=what, outcome="fails", sentence=f"{sentence}.", caveat=f"{caveat}.")


def allows_cascade(log: Log, by: str) -> bool:
    """Whether a log has what the cascade estimator needs."""
    try:
        require_lists_without_gaps(LoggedRows.drawn(log, by))
    except ValueError:
        return False
    return True
