"""Comparisons over time: a file for each in a folder, with digests of its data and systems, and a line per system."""

import hashlib
import json
import math
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from rankwise import check
from rankwise._version import __version__
from rankwise.base import files, tables
from rankwise.base.arrays import Array, Json
from rankwise.statistics.comparison import Comparison
from rankwise.statistics.evaluation import Evaluation
from rankwise.statistics.figures.drawing import COLOURS, DASHES, canvas, light_grid
from rankwise.statistics.result import Result, as_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMAT = "rankwise comparison 1"
_SHOWN = 12  # comparisons in a table
_MARKS = "osD^vP*X"
_MOST_TICKS = 8
_APART = 0.12  # of the distance between comparisons, between intervals of two systems
_LABELS = np.uint64(0xFFFFFFFF)  # the half of a digest that knows labels alone, whether documents have ids or not


def append_history(comparison: Comparison, folder: str | Path) -> Path:
    """Keep a comparison in a folder, which is created where it is missing, and return the path of its file.

    The file appears as a whole or not at all, under a name of its own: several processes may append at once. It holds
    means, intervals and tests, the time, and digests of the queries with their labels and of the scores of each system.
    """
    if comparison.paired.unit != "query":
        hint = "compare scores, models or evaluations"
        raise check.error("a history is of comparisons by query", got=f"one by {comparison.paired.unit}", hint=hint)
    folder = files.check_writable_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    evaluations = comparison.paired.evaluations
    document = {
        "format": _FORMAT,
        "version": __version__,
        "time": now.isoformat(timespec="microseconds"),
        "data": {name: _digest_of_data(one) for name, one in evaluations.items()},
        "scores": {name: _digest_of_scores(one) for name, one in evaluations.items()},
        "comparison": comparison.to_dict(),
    }
    path = folder / f"{now:%Y%m%dT%H%M%S%fZ}-{secrets.token_hex(4)}.json"
    with files.replacing(path) as new:
        new.write_text(as_json(document), encoding="utf-8")
    return path


def read_history(folder: str | Path) -> "History":
    """Read the comparisons that :func:`append_history` kept; other files of the folder are named and left out."""
    folder = Path(folder)
    if not folder.is_dir():
        hint = "name the folder of 'rankwise compare --history'"
        raise FileNotFoundError(check.Message(f"there is no folder {folder}", hint=hint))
    points: list[Point] = []
    skipped = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or files.is_part(path):
            continue
        try:
            points += [*_points(json.loads(path.read_text(encoding="utf-8")))]  # all of a file, or none
        except (ValueError, TypeError, KeyError, AttributeError, OSError, OverflowError, RecursionError):
            skipped.append(path.name)
    if not points:
        beside = f"{len(skipped)} other files" if skipped else "an empty folder"
        raise check.error(f"there are no comparisons in {folder}", got=beside, hint="append one first: --history")
    points.sort(key=lambda one: one.time)
    return History(tuple(points), tuple(skipped))


@dataclass(frozen=True, kw_only=True)
class Point:
    """A system under a metric in one comparison."""

    time: datetime
    metric: str
    system: str
    mean: float
    low: float
    high: float
    queries: int
    data: str
    """Digest of the queries and their labels."""
    scores: str
    """Digest of the system's scores."""


@dataclass(frozen=True, eq=False, repr=False)
class History(Result):
    """Means of systems over time, from the comparisons of a folder; made by :func:`read_history`.

    Values on other data, by their digest, are other lines: the plot does not join them, and the table has a letter for
    each.
    """

    points: tuple[Point, ...]
    """In the order of time."""
    skipped: tuple[str, ...] = ()
    """Names of files that are no comparison, or are damaged."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics, those of the newest comparison first."""
        return tuple(dict.fromkeys(one.metric for one in sorted(self.points, key=lambda one: one.time, reverse=True)))

    @property
    def data(self) -> dict[str, str]:
        """Digest of data -> its letter, in the order of time."""
        digests = list(dict.fromkeys(one.data for one in self.points))
        return dict(zip(digests, tables.labels(len(digests)), strict=True))

    @property
    def sentence(self) -> str:
        """How much there is."""
        times = sorted({one.time for one in self.points})
        systems = tables.count(len({one.system for one in self.points}), "system")
        since = f" since {times[0]:%Y-%m-%d}" if len(times) > 1 else ""
        return f"{tables.count(len(times), 'comparison')} of {systems}{since}."

    def lines(self, metric: str | None = None) -> dict[tuple[str, str], list[Point]]:
        """System and digest of data -> its points in the order of time."""
        name = self.metrics[0] if metric is None else check.choice("metric", metric, self.metrics)
        found: dict[tuple[str, str], list[Point]] = {}
        for one in self.points:
            if one.metric == name:
                found.setdefault((one.system, one.data), []).append(one)
        return found

    def table(self, *, metric: str | None = None) -> tables.Table:
        """One row per system and comparison, the newest comparisons of a metric."""
        lines = self.lines(metric)
        times = sorted({one.time for line in lines.values() for one in line})
        first = times[-_SHOWN:][0]
        rows = []
        for (system, data), line in sorted(lines.items(), key=lambda item: item[0][0]):
            before = ""
            for one in line:
                same = "as before" if one.scores == before else ""
                before = one.scores
                if one.time >= first:
                    cells = (tables.number(one.mean), tables.interval(one.low, one.high), f"{one.queries:,}")
                    rows.append((system, f"{one.time:%Y-%m-%d %H:%M}", *cells, self.data[data], same))
        name = next(iter(lines.values()))[0].metric
        notes = [self.sentence]
        if len(times) > _SHOWN:
            notes.append(f"Shown are the newest {_SHOWN}.")
        if len(self.data) > 1:
            notes.append("Data: values with other letters are on other queries or labels, and are not to be compared.")
        if self.skipped:
            notes.append(f"Skipped, as no comparison or damaged: {', '.join(self.skipped)}.")
        header = ("system", "compared (UTC)", name, "interval", "queries", "data", "scores")
        return tables.Table(header=header, rows=tuple(rows), align="llrlrll", notes=tuple(notes))

    def to_frame(self) -> pl.DataFrame:
        """One row per system, metric and comparison: the fields of :class:`Point`."""
        return pl.DataFrame(
            [vars(one) for one in self.points], schema_overrides={"low": pl.Float64, "high": pl.Float64}
        )

    def figure(self, *, metric: str | None = None) -> "Figure":
        """Draw a line per system with intervals; values on other data have a line of their own.

        Comparisons stand at even distances, whatever the time between.
        """
        lines = self.lines(metric)
        points = [one for line in lines.values() for one in line]
        times = sorted({one.time for one in points})
        systems = list(dict.fromkeys(one.system for one in points))
        shown = list(dict.fromkeys(data for _, data in lines))
        with canvas(max(6.0, min(12.0, 3.0 + 0.5 * len(times))), 3.6) as drawing:
            panel = drawing.subplots()
            for (system, data), line in lines.items():
                number, which = systems.index(system), shown.index(data)
                shift = (number - 0.5 * (len(systems) - 1)) * min(_APART, 0.6 / len(systems))
                places = [times.index(one.time) + shift for one in line]
                means = np.array([one.mean for one in line])
                ends = np.array([[one.mean - one.low, one.high - one.mean] for one in line]).T
                colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
                panel.errorbar(
                    places, means, np.nan_to_num(np.maximum(ends, 0.0)), color=colour, linestyle=dash,
                    marker=_MARKS[which % len(_MARKS)], linewidth=1.4, elinewidth=0.8, capsize=2, markersize=5,
                    markeredgecolor="white",
                    label=system if len(shown) == 1 else f"{system}, data {self.data[data]}",
                )  # fmt: skip
            step = -(-len(times) // _MOST_TICKS)
            days = len({f"{one:%Y-%m-%d}" for one in times}) == len(times)
            ticks = range(0, len(times), step)
            panel.set_xticks(ticks, [f"{times[place]:{'%Y-%m-%d' if days else '%m-%d %H:%M'}}" for place in ticks])
            panel.tick_params(axis="x", labelsize=8)
            panel.set_ylabel(points[0].metric)
            panel.set_xlabel("compared (UTC)")
            light_grid(panel)
            panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
        return drawing


def _points(document: Any) -> Iterator[Point]:
    """Yield the points of a file, whose every value is checked on the way."""
    if document["format"] != _FORMAT:
        raise ValueError(document["format"])
    time = datetime.fromisoformat(document["time"]).astimezone(UTC)
    compared = document["comparison"]
    for metric, means in compared["mean"].items():
        for system, mean in means.items():
            low, high = compared["interval"][metric][system] or (math.nan, math.nan)
            values = [float(value) for value in (mean, low, high)]
            digests = document["data"][system], document["scores"][system]
            if not all(isinstance(text, str) for text in digests) or not math.isfinite(values[0]):
                raise ValueError(system)
            yield Point(
                time=time, metric=metric, system=system, mean=values[0], low=values[1], high=values[2],
                queries=int(np.int64(compared["units"])), data=digests[0], scores=digests[1],
            )  # fmt: skip


def _digest_of_data(evaluation: Evaluation) -> str:
    """Digest ids, labels and weights of the queries, in whichever order; and the lengths of lists, but not of runs."""
    order = np.argsort(evaluation.query_ids.astype(np.str_), kind="stable")
    columns: Json = {"ids": evaluation.query_ids.astype(np.str_), "weights": evaluation.query_weights}
    columns |= {f"labels {name}": found & _LABELS for name, found in evaluation.label_digests.items()}
    if evaluation.ranked is not None and evaluation.ranked.judged is None:
        columns["sizes"] = np.diff(evaluation.ranked.offsets)
    return _digest({name: column[order] for name, column in columns.items()} | {"of": evaluation.candidates})


def _digest_of_scores(evaluation: Evaluation) -> str:
    """Digest the scores of all documents, or where these are not known the values of all queries."""
    if evaluation.ranked is not None:
        return _digest({"scores": evaluation.ranked.scores, "offsets": evaluation.ranked.offsets})
    order = np.argsort(evaluation.query_ids.astype(np.str_), kind="stable")
    return _digest({name: column[order] for name, column in evaluation.values.items()})


def _digest(parts: Json) -> str:
    found = hashlib.sha256()
    for name, part in sorted(parts.items()):
        is_text = isinstance(part, str) or part.dtype.kind == "U"
        found.update(f"{name}\n".encode())
        found.update(json.dumps(part if isinstance(part, str) else part.tolist()).encode() if is_text else _bytes(part))
    return found.hexdigest()


def _bytes(numbers: Array) -> bytes:
    """Return numbers as bytes that are the same on any machine."""
    return numbers.astype("<f8" if numbers.dtype.kind == "f" else "<u8").tobytes()
