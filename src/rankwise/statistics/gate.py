"""Non-inferiority: whether a system is not worse than another by a margin, on all queries and on every segment."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base import tables
from rankwise.base.arrays import Array, Json
from rankwise.data.segments import Segment, segments_of
from rankwise.statistics import significance
from rankwise.statistics.result import Result, plain
from rankwise.statistics.segments import parts
from rankwise.statistics.titles import Titles, bounds_of, find, titles_of
from rankwise.statistics.verdict import listed

if TYPE_CHECKING:
    import polars as pl

    from rankwise.statistics.comparison import Comparison

GateVerdict = Literal["passes", "fails", "cannot tell"]
EXIT_CODES: dict[GateVerdict, int] = {"passes": 0, "fails": 3, "cannot tell": 4}
"""The exit code of the command line for each verdict."""
FEWEST_DIFFERENT = 10
"""Queries that must differ for Student's interval; with fewer, what could have been missed decides."""
POWER = 0.8
_MOST = 4  # checks that a sentence names
_SAME = 1e-9  # differences within this are ties


@dataclass(frozen=True, kw_only=True)
class GateCheck:
    """One metric on all queries, or on those of a segment."""

    metric: str
    segment: str
    """The kind of segments; empty for all queries."""
    value: str
    queries: int
    """Queries that both systems are scored on and that count."""
    different: int
    """Those of them on which the two have different values."""
    difference: float
    low: float
    """The lower end of the one-sided interval: the difference is above it, at the level of the gate."""
    high: float
    """The upper end of the other one-sided interval."""
    smallest_margin: float
    """The margin that such queries pass in 80% of cases if the systems are equally good; NaN where it is not known.
    Where fewer than ten queries differ, the margin that these would pass."""
    verdict: GateVerdict
    reason: str = ""
    """Why it cannot tell, where that is not just the width of the interval."""

    @property
    def name(self) -> str:
        """What is checked, in a sentence."""
        return f"{self.metric} on {f'{self.segment} {self.value}' if self.segment else 'all queries'}"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Gate(Result):
    """Whether a system is not worse than another by more than a margin; made by :meth:`Comparison.gate`."""

    system: str
    against: str
    margin: float
    level: float
    checks: tuple[GateCheck, ...]
    verdict: GateVerdict
    """"passes" where every check does, "fails" where one does, and else "cannot tell"."""
    metrics: tuple[str, ...]
    """Those of the comparison; checks are of some of them."""
    unchecked: tuple[str, ...] = ()
    """Checked metrics of which it is not known what documents that were never judged could change."""

    @property
    def exit_code(self) -> int:
        """The exit code of the command line: 0 passes, 3 fails, 4 cannot tell."""
        return EXIT_CODES[self.verdict]

    @property
    def smallest_margin(self) -> float:
        """The smallest margin that each check would show in 80% of cases if the systems were equally good."""
        return float(np.max([one.smallest_margin for one in self.checks]))

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        margin, which = f"{self.margin:g}", {one.verdict: [] for one in self.checks}  # type: ignore[var-annotated]
        for one in self.checks:
            which[one.verdict].append(one)
        if self.verdict == "passes":
            return f"{self.system} is not worse than {self.against} by {margin} or more."
        named = [one.name for one in which[self.verdict]]
        names = listed(named if len(named) <= _MOST else [*named[: _MOST - 1], f"{len(named) - _MOST + 1} others"])
        if self.verdict == "fails":
            return f"{self.system} is worse than {self.against} by more than {margin}: {names}."
        reasons = "; ".join(dict.fromkeys(one.reason for one in which[self.verdict] if one.reason))
        why = f" ({reasons})" if reasons else ""
        return (
            f"These queries cannot tell whether {self.system} is worse than {self.against} by {margin}: {names}{why}."
        )

    def table(self, *, titles: Titles | None = None) -> tables.Table:
        """Return one row per check; ``titles`` name the metrics of the comparison."""
        shown = titles_of(self.metrics, titles)
        titled = replace(self, checks=tuple(replace(one, metric=shown[one.metric]) for one in self.checks))
        rows = tuple(
            (
                *(one.metric, one.segment or "all", one.value, f"{one.queries:,}", f"{one.different:,}"),
                tables.number(one.difference, signed=True),
                tables.number(one.low, signed=True),
                tables.number(one.high, signed=True),
                tables.number(one.smallest_margin),
                one.verdict,
            )
            for one in titled.checks
        )
        ends = f"{100 * self.level:g}%"
        header = ["metric", "segment", "", "queries", "differ", "difference", f"above ({ends})", f"below ({ends})"]
        notes = [titled.sentence]
        notes.append(
            f"Margin {self.margin:g}: passes where the one-sided interval is above −{self.margin:g}, fails where it is "
            f"below. Smallest margin: passed in {POWER:.0%} of cases by systems that are equally good."
        )
        if len(self.checks) > 1:
            notes.append("All must pass, each at the full level: no correction is needed (intersection-union test).")
        if self.unchecked:
            what = listed([shown[name] for name in self.unchecked])
            notes.append(f"Not checked: what documents that were never judged could change in {what}.")
        header += ["smallest margin", "verdict"]
        return tables.Table(header=tuple(header), rows=rows, align="lllrrrrrrl", notes=tuple(notes))

    def to_frame(self) -> "pl.DataFrame":
        """One row per check."""
        import polars as pl

        return pl.DataFrame([asdict(one) for one in self.checks])

    def to_dict(self) -> Json:
        """Return the verdict and the checks as plain data that JSON can hold."""
        names = ("verdict", "sentence", "exit_code", "system", "against", "margin", "level", "smallest_margin")
        names += ("unchecked",)
        return plain({name: getattr(self, name) for name in names} | {"checks": self.to_frame().to_dicts()})  # type: ignore[no-any-return]


def gate(
    comparison: "Comparison",
    margin: float,
    *,
    metric: str | Sequence[str] | None,
    system: str | None,
    against: str | None,
    segment: Segment | None,
) -> Gate:
    """Test that a system is not worse by more than a margin; see :meth:`Comparison.gate`."""
    margin = check.number("margin", margin, least=0.0, open_ends=True)
    check.number("level of a gate, which is one-sided,", comparison.level, least=0.5, most=1.0, open_ends=True)
    paired, names = comparison.paired, comparison.systems
    if paired.unit != "query":
        what, hint = "a gate goes by queries", "compare evaluations, scores or models"
        raise check.error(what, got=f"pairs by {paired.unit}", hint=hint)
    against = check.choice("against", against or comparison.baseline or names[0], names)
    others = [name for name in names if name != against]
    if system is None and len(others) > 1:
        raise check.error("a gate is for one system", got=", ".join(others), hint="`pass system=…|name two rankings`")
    system = check.choice("system", system or others[0], names)
    if system == against:
        raise check.error("a gate needs two systems", got=f"{system!r} against itself")
    labels = {} if comparison.segments is None else comparison.segments.labels
    if segment is not None:
        labels = segments_of(segment, paired.ids, weights=paired.weights, known=paired.segments | labels)
    chosen = comparison.metrics[:1] if metric is None else [metric] if isinstance(metric, str) else metric
    if not len(chosen):
        raise check.error("a gate needs a metric", got="none", hint=f"choose one of {', '.join(comparison.metrics)}")
    known = [
        find(title, comparison.metrics) or check.choice("metric", str(title), comparison.metrics) for title in chosen
    ]
    for name in known:
        lowest, highest = bounds_of(name)
        if margin >= highest - lowest:
            got, hint = f"{margin:g} for {name}", "give it in units of the metric, such as 0.01 for one point of 100"
            raise check.error("no difference is as large as the margin", got=got, hint=hint)
    checks = []
    everything = np.ones(paired.ids.size, np.bool_)
    for name in known:
        values = paired.values[name]
        pair = names.index(system), names.index(against)
        readings = [one[pair[0]] - one[pair[1]] for one in (values, paired.filled.get(name)) if one is not None]
        for kind, value, rows in [("", "", everything), *parts(labels)]:
            counted = rows & ~np.isnan(readings[0])
            counted &= True if paired.weights is None else paired.weights > 0.0
            weights = None if paired.weights is None else paired.weights[counted]
            found, *filled = (checked(one[counted], weights, name, margin, comparison.level) for one in readings)
            if any(one["verdict"] != found["verdict"] for one in filled):
                found |= {"verdict": "cannot tell", "reason": "it depends on documents that were never judged"}
            checks.append(GateCheck(metric=name, segment=kind, value=value, **found))
    verdicts = {one.verdict for one in checks}
    verdict: GateVerdict = "fails" if "fails" in verdicts else "cannot tell" if "cannot tell" in verdicts else "passes"
    holes = ()
    if paired.judged:
        from rankwise.statistics.hole_verdicts import unchecked

        holes = tuple(name for name in known if name in unchecked(comparison))
    return Gate(
        system=system, against=against, margin=margin, level=comparison.level, checks=tuple(checks), verdict=verdict,
        metrics=comparison.metrics, unchecked=holes,
    )  # fmt: skip


def checked(values: Array, weights: Array | None, metric: str, margin: float, level: float) -> Json:
    """Return the numbers of a check and its verdict."""
    low, high, smallest, reason = _ends(values, weights, metric, level)
    verdict: GateVerdict = "passes" if low > -margin else "fails" if high < -margin else "cannot tell"
    return {
        "queries": values.size,
        "different": int((np.abs(values) > _SAME).sum()),
        "difference": float(np.average(values, weights=weights)) if values.size else np.nan,
        "low": low,
        "high": high,
        "smallest_margin": smallest,
        "verdict": verdict,
        "reason": reason if verdict == "cannot tell" else "",
    }


def _ends(values: Array, weights: Array | None, metric: str, level: float) -> tuple[float, float, float, str]:
    """Return the ends of the one-sided intervals, the smallest margin, and what is said if they cannot tell.

    Where fewer than ten queries differ they say too little of those that were not seen to differ: a difference is at
    least −range · P(loss) and at most range · P(win), whose shares have bounds of Clopper and Pearson.
    """
    if values.size < 2:
        return np.nan, np.nan, np.nan, tables.count(values.size, "query", "queries")
    lowest, highest = bounds_of(metric)
    different, span = int((np.abs(values) > _SAME).sum()), highest - lowest
    if different < FEWEST_DIFFERENT:
        low, high = -span * _most(values < -_SAME, weights, level), span * _most(values > _SAME, weights, level)
        reason = (
            f"only {tables.count(different, 'query differs', 'queries differ')}" if different else "no query differs"
        )
        return (low, high, -low, reason) if np.isfinite(span) else (np.nan, np.nan, np.nan, reason)
    two_sided = 2.0 * level - 1.0
    same = significance.interval_of_same(values, weights, bounds=(-span, span), level=two_sided)
    if same is not None:  # which has no spread: a difference like this would pass where it does now
        return *same, float(np.mean(values)) - same[0], "the difference is the same on every query"
    mean = MeanDifference.of(values, weights)
    low, high = (mean.test.mean - mean.quantile(part) * mean.test.error for part in (level, 1.0 - level))
    plain = mean.test.interval(two_sided)
    return min(low, plain[0]), max(high, plain[1]), mean.smallest_margin(level), ""


@dataclass(frozen=True)
class MeanDifference:
    """The mean of differences between two systems: most are near 0, and few are large.

    Student's t is for values without long tails. Where few queries lose much, samples that have fewer of them look both
    better and surer than they are. Degrees of freedom are as many as would estimate the error as well, 2n / (kurtosis −
    1), and quantiles of (mean − truth) / error are those of Cornish and Fisher, t − skewness · (1 + 2t²) / 6.
    """

    test: significance.TTest
    skewness: float = 0.0
    """Of the mean: that of the values over √n."""

    @classmethod
    def of(cls, values: Array, weights: Array | None = None) -> Self:
        """Return the mean of some queries."""
        test = significance.t_test(values, weights)
        deviations = (values - test.mean) * (1.0 if weights is None else weights)
        second, third, fourth = (float((deviations**power).sum()) for power in (2, 3, 4))
        freedom = 2.0 / max(fourth / second**2 - 1.0 / values.size, 1e-12)
        freedom = min(test.freedom, freedom)
        return cls(significance.TTest(test.mean, test.error, freedom), third / second**1.5)

    def quantile(self, part: float) -> float:
        """Return a quantile of (mean − truth) / error."""
        from scipy.special import stdtrit

        t = float(stdtrit(self.test.freedom, part))
        return t - self.skewness * (1.0 + 2.0 * t**2) / 6.0

    def smallest_margin(self, level: float = 0.95, power: float = POWER) -> float:
        """Return the margin that systems which are equally good would pass with a probability of ``power``.

        That is (t_level + t_power) · s/√n, where differences have no skewness.

        >>> round(MeanDifference(significance.TTest(0.0, 0.01, 10**6)).smallest_margin(), 4)
        0.0249
        """
        plain = MeanDifference(self.test)
        width = max(self.quantile(level), plain.quantile(level))  # no interval is narrower than Student's
        return self.test.error * (width - self.quantile(1.0 - power))


def _most(happened: NDArray[np.bool_], weights: Array | None, level: float) -> float:
    """Return the upper end of the one-sided interval of a share."""
    interval = significance.interval_of_share(happened.astype(np.float64), weights, level=2.0 * level - 1.0)
    return 1.0 if interval is None else interval[1]
