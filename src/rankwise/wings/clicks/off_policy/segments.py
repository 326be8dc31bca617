"""Off-policy comparison by segment: who gains and who loses clicks."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from rankwise import RankingDataset, check
from rankwise.base import tables
from rankwise.base.arrays import index_of
from rankwise.wings.clicks.logs.log import Log

if TYPE_CHECKING:
    from rankwise.data.segments import Labels, Segment

SegmentVerdict = Literal["gains", "loses", "cannot tell"]
LOGGED = "segment"
"""The name of the log's own segments, of impressions."""


@dataclass(frozen=True, kw_only=True)
class SegmentClicks:
    """A candidate beside production by the clicks of a segment."""

    segment: str
    value: str
    impressions: float
    difference: float = np.nan
    """Expected clicks an impression, less those of production."""
    low: float = np.nan
    high: float = np.nan
    level: float
    """The level of the interval and the verdict, by Holm over segments and candidates."""
    verdict: SegmentVerdict = "cannot tell"
    reason: str = ""
    """Why it cannot tell."""


def log_parts(log: Log, segment: "Segment", features: RankingDataset | None) -> Iterator[tuple[str, str, Log]]:
    """Iterate over the segments of a log: kind, name and part of the log."""
    several = isinstance(segment, list | tuple) and len(segment) != log.n_queries
    for one in cast("list[Segment]", segment) if several else [segment]:
        if isinstance(one, str) and one == LOGGED:
            if len(log.segment_names) < 2:
                hint = "name its column where the log is read: `segment=…`"
                raise check.error("the log has no segments", got=repr(log), hint=hint)
            yield from ((LOGGED, name, log.only(segments=name)) for name in log.segment_names)
        else:
            for kind, names in _of_queries(log, one, features).items():
                for name in sorted(set(names.tolist())):
                    yield kind, name, log.only(queries=names == name)


def _of_queries(log: Log, segment: "Segment", features: RankingDataset | None) -> "Labels":
    """Return the segments of the queries of a log; traffic is that of the log."""
    from rankwise.data.segments import segments_of

    cells = log.queries * (log.n_positions + 1) + log.positions
    shown = np.bincount(cells, log.impressions, log.n_queries * (log.n_positions + 1))
    traffic = shown.reshape(log.n_queries, -1).max(1)
    data = None if features is None else features.take(index_of(log.query_ids, np.asarray(features.query_ids)))
    return segments_of(segment, log.query_ids, weights=traffic, data=data)


def outcome(kind: str, value: str, part: Log, level: float, compared: Callable[[Log], "object"]) -> SegmentClicks:
    """Return what a part of the log says of the candidate alone; a part that allows no comparison cannot tell."""
    found = SegmentClicks(segment=kind, value=value, impressions=part.n_impressions, level=level)
    try:
        one = compared(part)
    except check.InputError as wrong:
        return replace(found, reason=check.Message.of(wrong).problem)
    alone, verdict = one.alone, one.verdict  # type: ignore[attr-defined]
    ends = {"difference": alone.difference, "low": alone.low, "high": alone.high}
    words: dict[str, SegmentVerdict] = {"ship": "gains", "do not ship": "loses"}
    reason = alone.failure if verdict == "cannot tell" else ""
    return replace(found, **ends, verdict=words.get(verdict, "cannot tell"), reason=reason)


def segment_table(candidate: str, segments: tuple[SegmentClicks, ...]) -> tables.Table:
    """Return one row per segment."""
    rows = tuple(
        (
            *(one.segment, one.value, f"{one.impressions:,.0f}", tables.number(one.difference, signed=True)),
            *(tables.interval(one.low, one.high, signed=True), f"{one.level:.1%}", one.verdict),
        )
        for one in segments
    )
    header = ("segment", "", "impressions", "difference", "interval", "level", "verdict")
    notes = [f"{candidate} alone; levels of verdicts and intervals are Holm's over segments and candidates."]
    notes += [f"{one.segment} {one.value} cannot tell: {one.reason}." for one in segments if one.reason]
    return tables.Table(header=header, rows=rows, align="llrrlrl", notes=tuple(notes))


def as_rows(segments: tuple[SegmentClicks, ...]) -> list[dict[str, object]]:
    """Return plain data."""
    return [asdict(one) for one in segments]
