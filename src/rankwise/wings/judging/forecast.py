"""How many more judgements? The interval that is to be expected after so many more, by the same estimators."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Annotated, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check
from rankwise.base import tables
from rankwise.base.arrays import Array
from rankwise.check.docstrings import plain_signature
from rankwise.check.parameters import Above, Option, Within
from rankwise.evaluation import Run
from rankwise.metrics import Metric, MetricLike
from rankwise.metrics import metric as find_metric
from rankwise.statistics import Result
from rankwise.wings.judging.evaluation import (
    JudgedRuns,
    by_document,
    by_query,
    contrasts,
    join,
    of_every_query,
    require_labels,
)
from rankwise.wings.judging.plan import importance_of, inclusion
from rankwise.wings.judging.prediction_powered import JudgedMean
from rankwise.wings.judging.sampled import discounted, judge_errors

_MORE = (50, 100, 200, 500, 1000)


class Outlook(NamedTuple):
    """The interval of one mean, or of one difference, after more judgements."""

    system: str
    against: str | None
    more: int
    half_width: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Forecast(Result):
    """Half the width of intervals after more judgements; made by :func:`forecast`."""

    outlooks: tuple[Outlook, ...]
    needed: tuple[int | None, ...]
    """Judgements that ``within`` takes, for each mean or difference; None where all that there are do not do."""
    metric: str
    unit: str
    """What is judged: "queries", or "documents"."""
    left: int
    """How many there are left to judge."""
    level: float
    within: float | None

    def to_frame(self) -> pl.DataFrame:
        """One row per mean or difference and number of further judgements, with the fields of :class:`Outlook`."""
        return pl.DataFrame(self.outlooks, schema=list(Outlook.__annotations__), orient="row")

    @property
    def sentence(self) -> str:
        """What the interval of the first will be, and how many judgements the wanted one takes."""
        first = [one for one in self.outlooks if one[:2] == self.outlooks[0][:2]]
        halves = [tables.number(one.half_width, 3) for one in (first[0], first[-1])]
        text = f"±{halves[0]} now, about ±{halves[1]} after {first[-1].more:,} more {self.unit}."
        if self.within is None:
            return text
        if self.needed[0] is None:
            return f"{text} ±{self.within:g} takes more than the {self.left:,} that are left."
        return f"{text} ±{self.within:g} takes about {self.needed[0]:,} more."

    def table(self) -> tables.Table:
        """Return a row for each mean or difference, and a column for each number of further judgements."""
        steps = list(dict.fromkeys(one.more for one in self.outlooks))
        rows = []
        for at, needed in enumerate(self.needed):
            part = self.outlooks[at * len(steps) : (at + 1) * len(steps)]
            name = part[0].system if part[0].against is None else f"{part[0].system} − {part[0].against}"
            last = [] if self.within is None else [f"> {self.left:,}" if needed is None else f"{needed:,}"]
            rows.append((name, *(f"±{tables.number(one.half_width, 4)}" for one in part), *last))
        header = (self.metric, "now", *(f"+{more:,} {self.unit}" for more in steps[1:]))
        header += () if self.within is None else (f"for ±{self.within:g}",)
        return tables.Table(
            header=header, rows=tuple(rows), align="l" + "r" * (len(header) - 1), notes=(self.sentence,)
        )


@plain_signature
def forecast(
    systems: Mapping[str, Run],
    qrels: Run,
    *,
    judge: Run,
    metric: Annotated[MetricLike, "Metric, as of the comparison.", Option(metavar="METRIC")] = "ndcg@10",
    sampled: Annotated[str | None, "Column of probabilities, of a plan.", Option(metavar="COLUMN")] = None,
    more: Annotated[Sequence[int], "Numbers of further judgements."] = _MORE,
    within: Annotated[float | None, Above(0), "Half of the interval that is wanted."] = None,
    level: Annotated[float, Within(0, 1, open=True), "Confidence level.", Option(metavar="LEVEL")] = 0.95,
) -> Forecast:
    """Forecast the intervals of ``rw.evaluate`` and ``rw.compare`` with ``judge=`` after more human judgements.

    Of one system it is the interval of its mean, of several that of each difference. Without ``sampled`` whole queries
    are judged, drawn at random, for a difference among those whose lists differ. With ``sampled`` further documents are
    drawn by :func:`plan`. A forecast takes the judge's errors to be as they were so far: from 30 labelled queries it is
    off by about 15%, from 100 by half of that.

    >>> import rankwise as rw
    >>> rng = np.random.default_rng(0)
    >>> truth = {f"q{n}": {f"d{k}": int(g) for k, g in enumerate(rng.integers(0, 3, 8))} for n in range(300)}
    >>> run = {q: {d: g + 2.0 * rng.normal() for d, g in row.items()} for q, row in truth.items()}
    >>> people = {q: truth[q] for q in list(truth)[:40]}
    >>> found = forecast({"run": run}, people, judge=truth, more=[100], within=0.01)
    >>> found.sentence
    '±0.015 now, about ±0.013 after 100 more queries. ±0.01 takes more than the 260 that are left.'
    """
    check.number("level", level, least=0.0, most=1.0, open_ends=True)
    if within is not None:
        check.number("within", within, least=0.0, open_ends=True)
    steps = [0, *(check.integer("more", one, least=1) for one in more)]
    measured = of_every_query(find_metric(metric))
    joined = join(systems, qrels, judge, sampled)
    pairs = list(combinations(systems, 2))
    titles, signs = contrasts(list(systems), pairs)
    estimate: Callable[[int], list[JudgedMean]]
    if sampled is None:
        require_labels(joined, measured)
        title, left = str(measured), int((~joined.labelled).sum())
        estimate = partial(_by_query, joined, measured, signs, joined.copies)
    else:
        title, left, estimate = _by_document(joined, measured, signs)
    halves = {
        count: [_half(one, level) for one in estimate(count)] for count in sorted({min(one, left) for one in steps})
    }
    needed = [None if within is None else _fewest(estimate, at, within, left, level) for at in range(len(titles))]
    outlooks = [Outlook(*who, count, row[at]) for at, who in enumerate(titles) for count, row in halves.items()]
    unit = "queries" if sampled is None else "documents"
    return Forecast(outlooks=tuple(outlooks), needed=tuple(needed), metric=title, unit=unit, left=left, level=level,
                    within=within)  # fmt: skip


def _half(mean: JudgedMean, level: float) -> float:
    low, high = mean.test().interval(level)
    return (high - low) / 2.0


def _fewest(estimate: Callable[[int], list[JudgedMean]], at: int, within: float, left: int, level: float) -> int | None:
    """Return the fewest judgements whose interval is narrow enough, by bisection."""
    if _half(estimate(left)[at], level) > within:
        return None
    low, high = -1, left
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _half(estimate(middle)[at], level) <= within else (middle, high)
    return high


def _by_query(
    joined: JudgedRuns, metric: Metric, signs: Array, copies: NDArray[np.int64], count: int
) -> list[JudgedMean]:
    with warnings.catch_warnings(action="ignore") if count else nullcontext():  # once is enough
        return by_query(joined, metric, signs, copies, count)[1]


def _by_document(
    joined: JudgedRuns, metric: Metric, signs: Array
) -> tuple[str, int, Callable[[int], list[JudgedMean]]]:
    """Return the title, the documents left to judge, and the estimates with errors after more of them.

    As in a plan, those judged so far stand for themselves then, and the rest for what is drawn.
    """
    title, now = by_document(joined, metric, signs, joined.copies)
    sums = discounted(metric, joined.scores, np.nan_to_num(joined.human), np.nan_to_num(joined.judge), joined.offsets)
    importance, judged = importance_of(sums.discounts), ~np.isnan(joined.human)
    _, places, _, spreads = judge_errors(joined.judge, sums.human - sums.judge, judged & (importance > 0.0))
    rest, spread, n_queries = (importance > 0.0) & ~judged, spreads[places], joined.offsets.size - 1

    def estimate(count: int) -> list[JudgedMean]:
        if not count:
            return now
        chances = inclusion((importance * spread)[rest], count)
        left = (1.0 - chances) / np.where(chances > 0.0, chances, 1.0)
        fixed = [
            float(((weights * spread)[rest] ** 2 * left).sum()) / n_queries**2 for weights in signs @ sums.discounts
        ]
        return [one.with_fixed(variance) for one, variance in zip(now, fixed, strict=True)]

    return title, int(rest.sum()), estimate
