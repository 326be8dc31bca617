"""Results by segment: means with their intervals, and who gains and who loses by more than chance."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankwise.base import tables
from rankwise.base.arrays import Json, Keywords
from rankwise.data.segments import PARTS, Labels
from rankwise.statistics import significance
from rankwise.statistics.evaluation import Evaluation
from rankwise.statistics.result import Result, plain
from rankwise.statistics.titles import Titles, titles_of
from rankwise.statistics.verdict import listed

if TYPE_CHECKING:
    import polars as pl

    from rankwise.statistics.comparison import Comparison, Pair

SegmentVerdict = Literal["gains", "loses", "cannot tell"]
UNCLEAR: SegmentVerdict = "cannot tell"


@dataclass(frozen=True, kw_only=True)
class SegmentPair:
    """Two systems on the queries of a segment. A positive difference says that ``system`` is better."""

    metric: str
    system: str
    against: str
    segment: str
    """The kind, such as "device"."""
    value: str
    """The segment itself, such as "phone"."""
    queries: int
    """Queries that both are scored on and that count."""
    mean: float
    mean_against: float
    difference: float
    low: float
    high: float
    p: float
    p_adjusted: float = np.nan
    """After Holm's correction over the segments and pairs of the metric; NaN where queries are too few to be tested."""
    verdict: SegmentVerdict = "cannot tell"
    unsettled: bool = False
    """Whether it cannot tell because documents were never judged."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SegmentComparison(Result):
    """Paired tests between systems on each segment; ``segments`` of a :class:`Comparison`."""

    labels: Labels
    """Kind of segments -> the segment of each query."""
    pairs: tuple[SegmentPair, ...]
    level: float
    correction: str

    @property
    def verdicts(self) -> dict[tuple[str, str], SegmentVerdict]:
        """(kind, segment) -> the verdict by the first metric, of the first pair of systems."""
        first = self.pairs[0]
        key = first.metric, first.system, first.against
        return {(one.segment, one.value): one.verdict for one in self.pairs if key == _key(one)}

    @property
    def sentence(self) -> str:
        """Who gains and who loses."""
        return " ".join(self.sentences()) or "No segment gains or loses more than chance."

    def sentences(self, titles: Titles | None = None) -> Iterator[str]:
        """Iterate over sentences on the pairs of systems that differ on some segment."""
        shown = titles_of(list(dict.fromkeys(one.metric for one in self.pairs)), titles)
        for (metric, system, against), rows in groupby(self.pairs, _key):
            names: dict[str, list[str]] = {"gains": [], "loses": [], "cannot tell": [], "unjudged": []}
            for one in rows:
                names["unjudged" if one.unsettled else one.verdict].append(f"{one.segment} {one.value}")
            words = [f"{word} on {listed(names[word])}" for word in ("gains", "loses") if names[word]]
            if words:
                rest = f"; these queries cannot tell on {listed(names['cannot tell'])}" if names["cannot tell"] else ""
                yield f"By {shown[metric]}, {system} {' and '.join(words)}, against {against}{rest}."
            if names["unjudged"]:
                where = listed(names["unjudged"])
                yield (
                    f"By {shown[metric]}, whether {system} gains or loses on {where}, against {against}, depends on "
                    "documents that were never judged."
                )

    def table(self, *, titles: Titles | None = None) -> tables.Table:
        """Return one row per metric, pair and segment."""
        shown = titles_of(list(dict.fromkeys(one.metric for one in self.pairs)), titles)
        header = ["metric", "system", "against", "segment", "", "queries", "difference"]
        header += [f"{100 * self.level:g}% interval", "p adjusted", "verdict"]
        rows = tuple(
            (
                *(shown[one.metric], one.system, one.against, one.segment, one.value, f"{one.queries:,}"),
                tables.number(one.difference, signed=True),
                tables.interval(one.low, one.high, signed=True),
                tables.probability(one.p_adjusted),
                one.verdict,
            )
            for one in self.pairs
        )
        how = "Holm's correction over segments and pairs of each metric" if self.correction == "holm" else "uncorrected"
        notes = [*self.sentences(titles)] or [self.sentence]
        notes.append(f"Gains and losses: α = {significance.alpha(self.level):g}, {how}; intervals are uncorrected.")
        if any(np.isnan(one.p) for one in self.pairs):
            notes.append(f"A segment with fewer than {significance.RESAMPLED} queries cannot tell, and is not tested.")
        return tables.Table(header=tuple(header), rows=rows, align="lllllrrrrl", notes=tuple(notes))

    def to_frame(self) -> "pl.DataFrame":
        """One row per metric, pair and segment: the fields of :class:`SegmentPair`."""
        import polars as pl

        return pl.DataFrame([asdict(one) for one in self.pairs])

    def to_dict(self) -> Json:
        """Return the sentence and the rows as plain data that JSON can hold."""
        return {"sentence": self.sentence, "pairs": plain([asdict(one) for one in self.pairs])}


def compared(
    comparison: "Comparison", labels: Labels, compare: Callable[[Mapping[str, Any]], "Comparison"]
) -> SegmentComparison:
    """Test the pairs of a comparison on each segment: ``compare`` tests them on some queries, without a correction.

    Where documents were not judged, a verdict is that which both readings of them share.
    """
    pairs, filled = (
        _decided(comparison, labels, compare, values) for values in (comparison.paired.values, comparison.paired.filled)
    )
    others = {(_key(one), one.segment, one.value): one.verdict for one in filled}
    said = [others.get((_key(one), one.segment, one.value), one.verdict) for one in pairs]
    shared = [
        one if one.verdict == other else replace(one, verdict=UNCLEAR, unsettled=True)
        for one, other in zip(pairs, said, strict=True)
    ]
    return SegmentComparison(
        labels=labels, pairs=tuple(shared), level=comparison.level, correction=comparison.correction
    )


def _decided(
    comparison: "Comparison",
    labels: Labels,
    compare: Callable[[Mapping[str, Any]], "Comparison"],
    values: Mapping[str, NDArray[np.float64]],
) -> list[SegmentPair]:
    """Test pairs on each segment, pair after pair, by metric -> (n_systems, n_queries) values."""
    if not values:
        return []
    paired, pairs = comparison.paired, []
    systems = {
        name: Evaluation({metric: rows[number] for metric, rows in values.items()}, paired.ids, paired.weights)
        for number, name in enumerate(comparison.systems)
    }
    chosen = [pair for pair in comparison.pairs if pair.metric in values]
    for segment, value, rows in parts(labels):
        numbers = {}
        for metric in values:
            counted = [rows & one.counted(metric) for one in systems.values()]
            numbers[metric] = int(np.logical_and.reduce(counted).sum())
        enough = [metric for metric, count in numbers.items() if count >= significance.RESAMPLED]
        tested = {}
        if enough:
            within = compare({name: part_of(one, rows, enough) for name, one in systems.items()})
            tested = {_key(pair): (pair, within.mean[pair.metric]) for pair in within.pairs}
        for pair in chosen:
            about = {"metric": pair.metric, "system": pair.system, "against": pair.against}
            kind = {"segment": segment, "value": value, "queries": numbers[pair.metric]}
            one, means = tested.get(_key(pair), (None, {}))
            found = dict.fromkeys(("difference", "low", "high"), np.nan)
            found = {name: getattr(one, name) for name in found} if one else found
            found |= {"mean": means.get(pair.system, np.nan), "mean_against": means.get(pair.against, np.nan)}
            pairs.append(SegmentPair(**about, **kind, **found, p=one.p_adjusted if one else np.nan))  # type: ignore[arg-type]
    order = {_key(pair): number for number, pair in enumerate(chosen)}
    pairs.sort(key=lambda one: order[_key(one)])
    corrected = significance.holm if comparison.correction == "holm" else np.asarray
    decided: list[SegmentPair] = []
    for _, group in groupby(pairs, lambda one: one.metric):
        rows_ = [*group]
        p = np.array([one.p for one in rows_])
        p[~np.isnan(p)] = corrected(p[~np.isnan(p)])
        for row, adjusted in zip(rows_, p.tolist(), strict=True):
            verdict: SegmentVerdict = "gains" if row.difference > 0.0 else "loses"
            sure = adjusted < significance.alpha(comparison.level)
            decided.append(replace(row, p_adjusted=adjusted, verdict=verdict if sure else UNCLEAR))
    return decided


@dataclass(frozen=True)
class SegmentMean:
    """The mean of a metric on a segment, with its interval; NaN where the metric scores no query of it."""

    segment: str
    value: str
    metric: str
    queries: int
    mean: float
    low: float
    high: float


def means_of(evaluation: Evaluation) -> tuple[SegmentMean, ...]:
    """Return the mean of each metric on each segment."""
    found = []
    for segment, value, rows in parts(evaluation.segments):
        scored = {name: int((rows & evaluation.counted(name)).sum()) for name in evaluation.metrics}
        part = part_of(evaluation, rows, [name for name, count in scored.items() if count])
        for name, count in scored.items():
            ends = part.interval[name] if part and count else (np.nan, np.nan)
            found.append(SegmentMean(segment, value, name, count, part.mean[name] if part and count else np.nan, *ends))
    return tuple(found)


def means_table(evaluation: Evaluation, titles: Titles | None = None) -> tables.Table:
    """Return one row per segment and metric."""
    shown = titles_of(evaluation.metrics, titles)
    rows = []
    for one in evaluation.by_segment:
        numbers = tables.number(one.mean), tables.interval(one.low, one.high), f"{one.queries:,}"
        rows.append((one.segment, one.value, shown[one.metric], *numbers))
    header = ("segment", "", "metric", "mean", f"{100 * evaluation.level:g}% interval", "queries")
    return tables.Table(header=header, rows=tuple(rows), align="lllrlr", notes=())


def part_of(evaluation: Evaluation, rows: NDArray[np.bool_], metrics: Sequence[str]) -> Evaluation | None:
    """Return the values of some queries and metrics, without their documents; None without metrics."""
    if not metrics:
        return None
    weights = None if evaluation.weights is None else evaluation.weights[rows]
    settings: Keywords = {"seed": evaluation.seed, "level": evaluation.level, "resamples": evaluation.resamples}
    return Evaluation(
        {name: evaluation[name][rows] for name in metrics}, evaluation.query_ids[rows], weights, **settings
    )


def parts(labels: Labels) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Iterate over kinds, segments and which queries they have; head, torso and tail in this order."""
    for kind, names in labels.items():
        known = set(names.tolist())
        for value in [one for one in PARTS if one in known] if known <= {*PARTS} else sorted(known):
            yield kind, value, names == value


def _key(pair: "SegmentPair | Pair") -> tuple[str, str, str]:
    return pair.metric, pair.system, pair.against
