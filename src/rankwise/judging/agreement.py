"""How well a judge, such as a language model, agrees with people, and whether it favours one of the systems.

Intervals are over queries, as documents of a query are not independent: Student's for means (those of the calibration
weigh queries by their documents), the jackknife's for Cohen's κ.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Array
from rankwise.evaluation import trec
from rankwise.evaluation.systems import Run
from rankwise.metrics import Metric, MetricLike
from rankwise.metrics import metric as metric_of
from rankwise.metrics.base import require_scored, weighted_mean
from rankwise.statistics import tables
from rankwise.statistics.figures.comparisons import BLUE, figure
from rankwise.statistics.significance import FEWEST, TTest, holm, t_test

_MOST_GRADES = 12
_TITLES = {
    "kappa": "Cohen's κ, {}",
    "calibration": "people's mean grade where the judge's is {}",
    "leniency": "{1} of {0}, judge − people",
    "favour": "{1} of {0}, judge − people",
}


class AgreementEstimate(NamedTuple):
    """A number about a judge, with its interval over queries; the ends are NaN for fewer than 3 queries."""

    part: str
    """``kappa``, ``calibration`` (people's mean grade by the judge's grade), ``leniency`` (the metric by the judge's
    grades less that by people's, of a system) or ``favour`` (the leniency of one system less another's)."""
    name: str
    value: float
    low: float
    high: float
    queries: int
    p: float | None = None
    """Of ``favour``: two-sided, with Holm's correction over all pairs of systems."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Agreement:
    """How well a judge agrees with people; made by :func:`agreement`."""

    grades: tuple[float, ...]
    confusion: NDArray[np.int64]
    """(n_grades, n_grades) number of documents, by people's grade and by the judge's."""
    estimates: tuple[AgreementEstimate, ...]
    metric: str
    confidence: float
    basis: str
    """Which documents were compared, and how many were left out."""

    @property
    def kappa(self) -> float:
        """Cohen's κ: 1 for the same grades, 0 for agreement by chance."""
        return self.estimates[0].value

    def to_frame(self) -> pl.DataFrame:
        """One row per estimate, with the fields of :class:`AgreementEstimate`; ends that are NaN are null."""
        return pl.DataFrame(self.estimates, schema_overrides={"p": pl.Float64}, orient="row").fill_nan(None)

    def tables(self) -> list[tables.Table]:
        """Return the tables of the page: confusion, and estimates with their intervals."""
        names = [f"{grade:g}" for grade in self.grades]
        counts = [[f"{count:,}" for count in row] for row in self.confusion.tolist()]
        confusion = tuple((name, *row) for name, row in zip(names, counts, strict=True))
        rows = []
        for one in self.estimates:
            signed, name = one.part in ("leniency", "favour"), _TITLES[one.part].format(one.name, self.metric)
            value, ends = tables.number(one.value, signed=signed), tables.interval(one.low, one.high, signed=signed)
            rows.append((name, value, ends, f"{one.queries:,}"))
        pairs = self._part("favour")
        unfair = [one for one in pairs if one.p is not None and one.p < 1.0 - self.confidence]
        notes = [f"The judge favours {one.name} (p {tables.probability(one.p or 0.0)}, Holm)." for one in unfair]
        notes += [] if unfair or not pairs else ["These queries do not show that the judge favours a system."]
        title, header = ("people \\ judge", *names), ("", "estimate", f"{100 * self.confidence:g}% interval")
        return [
            tables.Table(header=title, rows=confusion, align="l" + "r" * len(names), notes=(self.basis,)),
            tables.Table(header=(*header, "queries"), rows=tuple(rows), align="lrlr", notes=tuple(notes)),
        ]

    def _part(self, part: str) -> list[AgreementEstimate]:
        return [one for one in self.estimates if one.part == part]

    def __repr__(self) -> str:
        return "\n\n".join(table.text() for table in self.tables())

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self.tables())

    def plot(self, path: str | Path, *, force: bool = False) -> Path:
        """Draw people's mean grade by the judge's, and the judge's leniency by system: .png, .svg or .pdf."""
        parts = {
            f"people's mean grade, by the judge's (κ {tables.number(self.kappa, 2)})": self._part("calibration"),
            f"{self.metric}: judge − people": self._part("leniency"),
        }
        shown = {title: rows for title, rows in parts.items() if rows}
        with figure(path, 4.5 * len(shown), 3.4, force=force) as drawing:
            panels = drawing.subplots(1, len(shown), squeeze=False)[0]
            for panel, (title, rows) in zip(panels, shown.items(), strict=True):
                for x, one in enumerate(rows):
                    panel.plot([x, x], [one.low, one.high], "_-", color=BLUE, markersize=8)
                    panel.plot(x, one.value, "o", color=BLUE, markersize=5)
                    agreed = float(one.name) if one.part == "calibration" else 0.0
                    panel.plot([x - 0.3, x + 0.3], [agreed, agreed], "--", color="#444444", linewidth=0.9)
                panel.set_xticks(range(len(rows)), [tables.shortened(one.name) for one in rows])
                panel.grid(axis="y", color="#DDDDDD", linewidth=0.6)
                panel.set_title(title, loc="left", fontweight="bold")
                panel.set_xlabel("dashed: the judge agrees with people")
        return Path(path)


def agreement(
    qrels: Run,
    judge: Run,
    systems: Mapping[str, Run] | None = None,
    *,
    metric: MetricLike = "ndcg@10",
    confidence: float = 0.95,
) -> Agreement:
    """Compare the grades of a judge with those of people, on the documents that both have graded.

    ``qrels`` and ``judge`` are files, tables or dictionaries of grades. Cohen's κ counts any difference of grades;
    with quadratic weights, its square. For each run of ``systems``, by name, the ``metric`` is computed from people's
    grades and from the judge's, on the same documents. The difference is the judge's leniency. Where that is larger
    for one system than for another, the judge alone cannot compare the two (Clarke and Dietz 2024). Queries that the
    metric skips by either grades are left out there.

    >>> people = {"a": {"d1": 2, "d2": 0, "d3": 1}, "b": {"d1": 0, "d2": 1}, "c": {"d1": 1, "d2": 0}}
    >>> model = {"a": {"d1": 2, "d2": 1, "d3": 1}, "b": {"d1": 0, "d2": 1}, "c": {"d1": 1, "d2": 1, "d9": 2}}
    >>> compared = agreement(people, model)
    >>> round(compared.kappa, 4), compared.confusion.tolist()
    (0.5333, [[1, 2, 0], [0, 3, 0], [0, 0, 1]])
    >>> compared.basis
    '7 documents of 3 queries have both grades. Left out: 0 graded by people alone, 1 by the judge alone.'
    """
    check.number("confidence", confidence, least=0.0, most=1.0, open_ends=True)
    human, machine = (
        trec.qrels_frame(one).filter(pl.col("grade") >= 0).select("query", "document", pl.col("grade").alias(name))
        for one, name in ((qrels, "people"), (judge, "judge"))
    )
    both = human.join(machine, on=["query", "document"]).sort("query", "document")
    if both.is_empty():
        got = f"{human.height:,} documents of people, {machine.height:,} of the judge"
        hint = "check that both spell the ids of queries and documents alike"
        raise check.error("people and the judge have graded no document in common", got=got, hint=hint)
    queries = both["query"].rle_id().cast(pl.Int64).to_numpy()
    grades, codes = np.unique(both.select("people", "judge").to_numpy(), return_inverse=True)
    if grades.size > _MOST_GRADES:
        hint = "turn the scores of the judge into the grades that people use"
        raise check.error(f"at most {_MOST_GRADES} different grades are compared", got=grades.size, hint=hint)
    cells = np.ravel_multi_index(tuple(codes.reshape(-1, 2).T), (grades.size, grades.size))
    shape = int(queries[-1]) + 1, grades.size, grades.size
    counts = np.bincount(queries * grades.size**2 + cells, minlength=int(np.prod(shape))).reshape(shape)
    square = (grades[:, None] - grades) ** 2
    kinds = {"unweighted": (square > 0.0).astype(np.float64), "quadratic weights": square}
    rows = [_kappa(name, counts, weights, confidence) for name, weights in kinds.items()]
    for code, sizes in enumerate(counts.sum(1).T.astype(np.float64)):
        graded = sizes > 0
        means = counts[graded, :, code] @ grades / sizes[graded]
        rows += [_mean("calibration", f"{grades[code]:g}", means, confidence, sizes[graded])] if graded.any() else []
    measured = metric_of(metric)
    alone = [frame.height - both.height for frame in (human, machine)]
    basis = f"{tables.count(both.height, 'document')} of {tables.count(len(counts), 'query', 'queries')} have both "
    basis += f"grades. Left out: {alone[0]:,} graded by people alone, {alone[1]:,} by the judge alone."
    return Agreement(
        grades=tuple(grades.tolist()),
        confusion=counts.sum(0),
        estimates=(*rows, *_of_systems(systems or {}, both, measured, confidence)),
        metric=str(measured),
        confidence=confidence,
        basis=basis,
    )


def _kappa(name: str, counts: NDArray[np.int64], weights: Array, confidence: float) -> AgreementEstimate:
    """Compute 1 − observed/expected disagreement, and its jackknife over queries."""

    def kappa(tables: NDArray[np.int64]) -> Array:
        observed = np.tensordot(tables, weights) * tables.sum((1, 2))
        expected = np.einsum("qa,ab,qb->q", tables.sum(2), weights, tables.sum(1), optimize=True)
        ratio: Array = np.divide(observed, expected, out=np.full(len(tables), np.nan), where=expected > 0.0)
        return 1.0 - ratio

    total, n = counts.sum(0, keepdims=True), len(counts)
    value, without = float(kappa(total)[0]), kappa(total - counts)
    test = TTest(value, float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())), n - 1)
    return AgreementEstimate("kappa", name, value, *(test.interval(confidence) if n >= FEWEST else (np.nan, np.nan)), n)


def _mean(
    part: str, name: str, values: Array, confidence: float, weights: Array | None = None, p: float | None = None
) -> AgreementEstimate:
    """Compute a mean over queries and its interval."""
    ends = t_test(values, weights).interval(confidence) if values.size >= FEWEST else (np.nan, np.nan)
    return AgreementEstimate(part, name, weighted_mean(values, weights), *ends, values.size, p)


def _of_systems(
    systems: Mapping[str, Run], both: pl.DataFrame, metric: Metric, confidence: float
) -> list[AgreementEstimate]:
    """Compute the leniency of the judge to each system, and the difference for each pair of systems."""
    leniency: dict[str, Array] = {}
    for name, system in systems.items():
        with check.naming(name):
            run = trec.run_frame(system)
            people, judge = (
                metric.of(*trec.judge(run, both.rename({grader: "grade"}), all_topics=True))
                for grader in ("people", "judge")
            )
            leniency[name] = judge - people
            require_scored(metric, leniency[name])
    rows = [_mean("leniency", name, values[~np.isnan(values)], confidence) for name, values in leniency.items()]
    pairs = {}
    for one, other in itertools.combinations(leniency, 2):
        difference = leniency[one] - leniency[other]
        require_scored(metric, difference)
        difference = difference[~np.isnan(difference)]
        name = f"{one} over {other}" if difference.sum() >= 0.0 else f"{other} over {one}"
        pairs[name] = difference if difference.sum() >= 0.0 else -difference
    p = holm([t_test(values).p if values.size >= FEWEST else 1.0 for values in pairs.values()]).tolist()
    return rows + [_mean("favour", name, pairs[name], confidence, p=p[k]) for k, name in enumerate(pairs)]
