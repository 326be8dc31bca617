"""The result of a comparison: means with significance marks, every paired test, and how they are shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankwise import check, moved
from rankwise.base import hooks, tables
from rankwise.base.arrays import Ids, Json
from rankwise.metrics.base import weighted_mean
from rankwise.statistics import significance
from rankwise.statistics.evaluation import WEIGHTED, Evaluation, JudgedShare, varies
from rankwise.statistics.result import Result, plain
from rankwise.statistics.titles import Titles, bounds_of, titles_of
from rankwise.statistics.verdict import listed

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from rankwise.data.segments import Labels, Segment
    from rankwise.statistics.gate import Gate
    from rankwise.statistics.segments import SegmentComparison

UNJUDGED = "unjudged"
"""The verdict of a pair that depends on documents that were not judged."""
FILLED = ("filled_difference", "filled_low", "filled_high", "filled_p_adjusted", "lowest", "highest")
_HOLES = 0.01  # shares of judged documents that differ by less hardly change a verdict
TESTS = {
    "fisher": "Fisher's randomization test",
    "t": "Student's paired t-test",
    "wilcoxon": "Wilcoxon's signed-rank test",
    "corrected_t": "Student's paired t-test with the correction of Nadeau and Bengio",
}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two systems under one metric. A positive difference says that ``system`` is better than ``against``."""

    metric: str
    system: str
    against: str
    difference: float
    low: float
    high: float
    p_t: float
    p_fisher: float
    p_wilcoxon: float
    p_corrected_t: float | None
    """The t-test with the correction of Nadeau and Bengio, for trials whose split is known."""
    p_adjusted: float
    """The p-value of the test that decides, after the correction for many comparisons."""
    significant: bool
    effect_size: float
    """Cohen's d of the paired differences: their mean over their standard deviation."""
    wins: int
    ties: int
    losses: int
    verdict: str
    """``system`` is "better", "worse", or it is "unclear"; "unjudged": it depends on documents that were not judged."""
    filled_difference: float | None = None
    """The difference if unjudged documents are like judged ones at their depth; None where that is not known."""
    filled_low: float | None = None
    filled_high: float | None = None
    filled_p_adjusted: float | None = None
    lowest: float | None = None
    """The lowest difference that was found with any labels of unjudged documents, the same for both systems."""
    highest: float | None = None

    @property
    def unsettled(self) -> bool:
        """Whether the verdict depends on documents that were not judged."""
        return self.verdict == UNJUDGED


@dataclass(frozen=True, eq=False, kw_only=True)
class Paired:
    """Values of each metric as (n_systems, n_units): a unit is a query or a trial that every system saw."""

    unit: str
    """"query" or "trial"."""
    values: Mapping[str, NDArray[np.float64]]
    """Metric -> (n_systems, n_units); NaN where the metric skips the query."""
    ids: Ids
    """(n_units,) query ids, or numbers of trials."""
    weights: NDArray[np.float64] | None
    """(n_units,) query weights; None: all the same."""
    evaluations: Mapping[str, Evaluation]
    """System -> its evaluation, where units are queries."""
    filled: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """``values`` of metrics if unjudged documents are as judged ones at their depth, where that is known: gates and
    claims on segments need both."""

    @property
    def segments(self) -> "Labels":
        """Kind -> the segment of each query, where evaluations were made with segments."""
        return next((one.segments for one in self.evaluations.values()), {})

    @property
    def candidates(self) -> dict[str, str]:
        """System -> which documents it ranked, where that is known."""
        return {name: one.candidates for name, one in self.evaluations.items() if one.candidates}

    @property
    def judged(self) -> dict[str, JudgedShare]:
        """System -> how many of the documents that it ranks first were judged, where not all are."""
        return {name: one.judged for name, one in self.evaluations.items() if one.judged is not None}

    @property
    def holes(self) -> str:
        """A warning where more documents of one system than of another were never judged; empty otherwise."""
        # All documents are judged where labels are known and nothing else is said.
        shares = {name: 1.0 for name, one in self.evaluations.items() if one.judgements}
        shares |= {name: one.mean for name, one in self.judged.items()}
        if not self.judged or len({one.cutoff for one in self.judged.values()}) > 1:
            return ""
        (least, lowest), (most, highest) = (end(shares.items(), key=itemgetter(1)) for end in (min, max))
        if highest - lowest < _HOLES:
            return ""
        first = next(iter(self.judged.values())).cutoff
        return (
            f"{highest:.0%} of the first {first} documents of {most} were judged, but {lowest:.0%} of {least}'s: "
            "documents that were never judged count as not relevant, so that a difference may come from them and not "
            f"from the rankings; judge what {least} ranks first before you trust it"
        )


@moved.renamed("rw.Comparison")
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Comparison(Result):
    """Means of several systems and paired tests between them; made by :func:`compare`."""

    systems: tuple[str, ...]
    paired: Paired
    pairs: tuple[Pair, ...]
    baseline: str | None
    test: str
    correction: str
    level: float
    overlap: float | None
    """test/train of the trials' split, for the correction of Nadeau and Bengio."""
    letters: tuple[str, ...] = ()
    """The short name of each system where other tables have given it one; by default a, b, c …"""
    segments: "SegmentComparison | None" = None
    """The same tests on each segment of the queries, where ``segment`` asked for them."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The expressions of the metrics."""
        return tuple(self.paired.values)

    @cached_property
    def mean(self) -> dict[str, dict[str, float]]:
        """Metric -> system -> mean."""
        means = {}
        for metric, rows in self.paired.values.items():
            numbers = (weighted_mean(row, self.paired.weights) for row in rows)
            means[metric] = dict(zip(self.systems, numbers, strict=True))
        return means

    @cached_property
    def interval(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Metric -> system -> interval of the mean: by bootstrap over queries, or Student's over trials.

        Of fewer than three trials there is none: its ends are NaN. Trials that all have the same mean have one that
        allows for means that were not seen.
        """
        found: dict[str, dict[str, tuple[float, float]]] = {}
        for metric, rows in self.paired.values.items():
            found[metric] = dict.fromkeys(self.systems, (np.nan, np.nan))
            for system, row in zip(self.systems, rows, strict=True):
                if system in self.paired.evaluations:
                    found[metric][system] = self.paired.evaluations[system].interval[metric]
                elif np.count_nonzero(~np.isnan(row)) >= significance.FEWEST:
                    bounds = bounds_of(metric)
                    found[metric][system] = significance.interval_of_mean(row, bounds=bounds, level=self.level)
        return found

    def differences(self, system: str, against: str, metric: str | None = None) -> NDArray[np.float64]:
        """``system`` minus ``against`` on each query (or trial) that both are scored on."""
        rows = self.paired.values[self.metrics[0] if metric is None else metric]
        names = [check.choice("system", name, self.systems) for name in (system, against)]
        values = rows[self.systems.index(names[0])] - rows[self.systems.index(names[1])]
        return np.asarray(values[~np.isnan(values)])

    def gate(
        self, margin: float, *, metric: str | Sequence[str] | None = None, system: str | None = None,
        against: str | None = None, segment: "Segment | None" = None,
    ) -> "Gate":  # fmt: skip
        """Test whether ``system`` is not worse than ``against`` by ``margin`` or more.

        It passes where the one-sided interval of the difference in the first metric, or in each of ``metric``, is above
        −margin, fails where it is below, and cannot tell in between. The segments of the comparison, or these, must
        pass as well, each at the full level. Where fewer than ten queries differ, the interval allows for what so few
        could have missed. ``against`` is by default the baseline, or the first system.

        >>> import rankwise as rw
        >>> old = rw.Evaluation({"ap": [0.2, 0.5, 0.8] * 20}, range(60))
        >>> new = rw.Evaluation({"ap": [0.21, 0.5, 0.8, 0.2, 0.49, 0.81] * 10}, range(60))
        >>> gate = rw.compare({"old": old, "new": new}).gate(0.01)
        >>> gate.verdict, round(gate.smallest_margin, 4), gate.exit_code
        ('passes', 0.0023, 0)
        """
        from rankwise.statistics.gate import gate

        return gate(self, margin, metric=metric, system=system, against=against, segment=segment)

    def legend(self, *, hint: bool = True) -> str:
        """Return the legend of the marks: test, level and correction, and with ``hint`` what to ask for instead."""
        counts = {pair.wins + pair.ties + pair.losses for pair in self.pairs}
        fewest = "" if len(counts) == 1 else "at least "
        units = fewest + tables.count(min(counts), self.paired.unit, {"query": "queries"}.get(self.paired.unit))
        per_metric = len(self.pairs) // len(self.metrics)
        ratio = f" (test/train = {self.overlap:.3g})" if self.test == "corrected_t" else ""
        family = {
            "holm": f"Holm's correction over the {tables.count(per_metric, 'pair')} of each metric",
            "none": "no correction for many comparisons",
        }[self.correction]
        marks = "A raised letter" if self.labels[0].isalpha() else "A raised number"
        text = f"{marks}: significantly better than that system. {TESTS[self.test]}{ratio}, two-sided, paired by "
        text += f"{self.paired.unit} ({units}), α = {significance.alpha(self.level):g}, {family}."
        if self.baseline is not None:
            text += f" Only pairs with the baseline, {self.baseline}, were tested."
        if self.paired.unit == "trial" and self.test != "corrected_t":
            text += " Trials that share data make this test too sure"
            if self.overlap is not None:
                text += "; intervals of differences allow for them"
            elif hint:
                text += ": split=(train, …, test) adds the correction for it"
            text += "."
        return text

    def notes(self) -> tuple[str, ...]:
        """What stands below the table of means."""
        notes = [WEIGHTED] if varies(self.paired.weights) else []
        if not any(pair.significant or pair.unsettled for pair in self.pairs):
            notes.append("No difference is significant.")
        notes.append(self.legend())
        if unknown := [name for name, one in self.paired.evaluations.items() if one.judgements == {}]:
            evaluated = f"{listed(unknown)} {'was' if len(unknown) == 1 else 'were'} evaluated"
            notes.append(f"Not checked: by which labels {evaluated}; files of earlier versions do not keep that.")
        if self._judged_title:
            notes += {one.note for one in self.paired.judged.values()}
        if self.paired.holes:
            notes.append(f"{self.paired.holes}.")
        return (*notes, *self.of_holes())

    def of_holes(self) -> list[str]:
        """Return what unjudged documents could change, in sentences that explain the raised question marks."""
        from rankwise.statistics import hole_verdicts

        return hole_verdicts.notes(self) if self.paired.judged else []

    @property
    def _judged_title(self) -> str:
        """The title of the column of judged documents; empty where there is none, or it is a metric asked for."""
        titles = {one.title for one in self.paired.judged.values()}
        return titles.pop() if len(titles) == 1 and not titles & set(self.metrics) else ""

    @property
    def labels(self) -> list[str]:
        """The short name of each system, which marks refer to."""
        return list(self.letters) or tables.labels(len(self.systems))

    def table(self, *, titles: Titles | None = None) -> tables.Table:
        """Means with marks: one row per system, one column per metric; ``titles`` name the columns."""
        short = dict(zip(self.systems, self.labels, strict=True))
        beaten: dict[tuple[str, str], list[str]] = {}
        for pair in self.pairs:
            if pair.significant:
                better, worse = (pair.system, pair.against) if pair.difference > 0 else (pair.against, pair.system)
                beaten.setdefault((pair.metric, better), []).append(worse)
        unsettled = {
            (pair.metric, name) for pair in self.pairs if pair.unsettled for name in (pair.system, pair.against)
        }
        rows = []
        for system in self.systems:
            cells: list[tables.TableCell | str] = [short[system], system]
            for metric in self.metrics:
                text = tables.number(self.mean[metric][system])
                best = text == tables.number(max(self.mean[metric].values()))
                below = beaten.get((metric, system), [])
                marks = tables.join_marks([short[name] for name in self.systems if name in below])
                marks += "?" if (metric, system) in unsettled else ""
                cells.append(tables.TableCell(text, marks, best))
            if self._judged_title:
                share = self.paired.judged.get(system)
                cells.append(tables.NOTHING if share is None else tables.number(share.mean))
            rows.append(tuple(cells))
        candidates = [f"Candidates of {name}: {documents}." for name, documents in self.paired.candidates.items()]
        if len(set(self.paired.candidates.values())) == 1:
            candidates = [f"Candidates: {next(iter(self.paired.candidates.values()))}."]
        return tables.Table(
            header=("", "system", *titles_of(self.metrics, titles).values(), *filter(None, [self._judged_title])),
            rows=tuple(rows),
            align="ll" + "r" * (len(self.metrics) + bool(self._judged_title)),
            notes=(*self.notes(), *candidates),
        )

    def pairs_table(self, *, titles: Titles | None = None) -> tables.Table:
        """One row per pair and metric: difference, interval, p-values, effect size, wins / ties / losses."""
        from rankwise.statistics.pairs import pairs_table

        return pairs_table(self, titles)

    def tables(self, *, pairs: bool = False, titles: Titles | None = None) -> list[tables.Table]:
        """Return the table of means, with ``pairs`` that of every test, and that of segments where there are any.

        ``titles`` name the metrics: a list in their order, or a dictionary such as ``{"ap": "MAP"}``.
        """
        by_segment = [] if self.segments is None else [self.segments.table(titles=titles)]
        return [self.table(titles=titles), *([self.pairs_table(titles=titles)] if pairs else []), *by_segment]

    def to_frame(self) -> "pl.DataFrame":
        """One row per pair and metric: the fields of :class:`Pair`, and shares of judged documents if not all are."""
        import polars as pl

        rows: list[Json] = [asdict(pair) for pair in self.pairs]
        if self.paired.judged:
            shares = {name: one.mean for name, one in self.paired.judged.items()}
            for row in rows:
                row |= {"judged": shares.get(row["system"]), "judged_against": shares.get(row["against"])}
        return pl.DataFrame(rows, schema_overrides=dict.fromkeys(("p_corrected_t", *FILLED), pl.Float64))

    def to_dict(self) -> Json:
        """Everything as plain data that JSON can hold."""
        ends = {
            metric: {system: None if np.isnan(both[0]) else list(both) for system, both in intervals.items()}
            for metric, intervals in self.interval.items()
        }
        settings = {name: getattr(self, name) for name in ("baseline", "test", "correction", "overlap")}
        settings["alpha"] = significance.alpha(self.level)
        units = {"unit": self.paired.unit, "units": int(self.paired.ids.size)}
        tests = [plain(asdict(pair)) for pair in self.pairs]  # an effect size may be infinite
        if self.paired.candidates:
            units["candidates"] = self.paired.candidates
        if self.paired.judged:
            units["judged"] = {name: one._asdict() for name, one in self.paired.judged.items()}
        units |= {} if self.segments is None else {"segments": self.segments.to_dict()}
        return settings | units | {"systems": list(self.systems), "mean": self.mean, "interval": ends, "pairs": tests}

    def figure(self, *, metric: str | None = None, system: str | None = None, against: str | None = None) -> "Figure":
        """Draw, for pairs of systems, the difference on every query, sorted: who wins where, and by how much.

        Without ``system`` and ``against`` there is a panel for each system minus the baseline. Where there is no
        baseline and there are more than two systems, it is the one with the best mean minus each other.
        """
        from rankwise.statistics.figures.comparisons import differences_figure

        return differences_figure(self, metric=metric, system=system, against=against)

    def plot_means(self, path: str | Path, *, force: bool = False) -> Path:
        """Draw the mean of each system with its interval, one panel per metric: .png, .svg or .pdf."""
        from rankwise.statistics.figures import drawing
        from rankwise.statistics.figures.comparisons import means_figure

        return drawing.plot(partial(means_figure, self), path, force=force)

    def to_report(
        self,
        path: str | Path,
        *,
        titles: Titles | None = None,
        about: "Mapping[str, str] | None" = None,
        gate: "Gate | None" = None,
        force: bool = False,
    ) -> Path:
        """Write it as one HTML page for a browser; see :func:`rankwise.lab.write_comparison`."""
        write: Callable[..., Path] = hooks.find("report", "Comparison")
        return write(self, path, titles=titles, about=about, gate=gate, force=force)
