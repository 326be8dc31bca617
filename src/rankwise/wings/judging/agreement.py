"""How well a judge, such as a language model, agrees with people, and whether it favours one of the systems.

Intervals are over queries, as documents of a query are not independent: Student's for means (those of the calibration
weigh queries by their documents), the jackknife's for Cohen's κ.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check, moved
from rankwise.base import tables
from rankwise.base.arrays import Array
from rankwise.evaluation import Run, trec
from rankwise.metrics import Metric, MetricLike
from rankwise.metrics import metric as metric_of
from rankwise.metrics.base import require_scored, weighted_mean
from rankwise.statistics import BLUE, FEWEST, Result, TTest, canvas, holm, t_test

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_GRADES = 12
_COLUMNS = ("part", "name", "value", "low", "high", "queries", "p")
_TITLES = {
    "kappa": "Cohen's κ, {}",
    "calibration": "people's mean grade where the judge's is {}",
    "leniency": "{1} of {0}, judge − people",
    "favour": "{1} of {0}, judge − people",
}
_Row = tuple[str, str, float, float, float, int, float]


@moved.renamed("rw.judging.Agreement")
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Agreement(Result):
    """How well a judge agrees with people; made by :func:`agreement`."""

    grades: tuple[float, ...]
    confusion: NDArray[np.int64]
    """(n_grades, n_grades) number of documents, by people's grade and by the judge's."""
    estimates: tuple[_Row, ...]
    """The rows of :meth:`to_frame`."""
    metric: str
    level: float
    basis: str
    """Which documents were compared, and how many were left out."""

    @property
    def kappa(self) -> float:
        """Cohen's κ: 1 for the same grades, 0 for agreement by chance."""
        return self.estimates[0][2]

    def to_frame(self) -> pl.DataFrame:
        """One row per estimate: part, name, value, ends of its interval, queries and p.

        Ends are NaN for fewer than 3 queries, and where all queries are equal: that shows no spread, and no certainty.

        Parts are ``kappa``, ``calibration`` (people's mean grade by the judge's grade), ``leniency`` (the metric by the
        judge's grades less that by people's, of each system) and ``favour`` (the leniency of one system less
        another's, with the p-value after Holm's correction; elsewhere p is NaN).
        """
        return pl.DataFrame(self.estimates, schema=_COLUMNS, orient="row")

    def tables(self) -> list[tables.Table]:
        """Return the tables of the page: confusion, and estimates with their intervals."""
        names = [f"{grade:g}" for grade in self.grades]
        counts = zip(names, self.confusion.tolist(), strict=True)
        confusion = tuple((name, *(f"{count:,}" for count in row)) for name, row in counts)
        rows = []
        for part, name, value, low, high, queries, _ in self.estimates:
            signed, title = part in ("leniency", "favour"), _TITLES[part].format(name, self.metric)
            ends = tables.interval(low, high, signed=signed)
            rows.append((title, tables.number(value, signed=signed), ends, f"{queries:,}"))
        grid, header = ("people \\ judge", *names), ("", "estimate", f"{100 * self.level:g}% interval", "queries")
        return [
            tables.Table(header=grid, rows=confusion, align="l" + "r" * len(names), notes=(self.basis,)),
            tables.Table(header=header, rows=tuple(rows), align="lrlr", notes=self.favours()),
        ]

    def favours(self) -> tuple[str, ...]:
        """Return which systems the judge favours beyond chance, in sentences."""
        alpha, pairs = 1.0 - self.level, self._part("favour")
        found = [
            f"The judge favours {row[1]} (p {tables.probability(row[-1])}, Holm)." for row in pairs if row[-1] < alpha
        ]
        nothing = ["These queries do not show that the judge favours a system."] if pairs else []
        return tuple(found or nothing)

    @property
    def sentence(self) -> str:
        """Cohen's κ, and which systems the judge favours."""
        return " ".join((f"Cohen's κ is {tables.number(self.kappa)}.", *self.favours()))

    def _part(self, part: str) -> list[_Row]:
        return [row for row in self.estimates if row[0] == part]

    def figure(self) -> "Figure":
        """Draw people's mean grade by the judge's, and the judge's leniency by system."""
        calibration, leniency = self._part("calibration"), self._part("leniency")
        shown = {f"people's mean grade, by the judge's (κ {tables.number(self.kappa, 2)})": calibration}
        shown |= {f"{self.metric}: judge − people": leniency} if leniency else {}
        with canvas(4.5 * len(shown), 3.4) as drawing:
            panels = drawing.subplots(1, len(shown), squeeze=False)[0]
            for panel, (title, rows) in zip(panels, shown.items(), strict=True):
                for x, (_, name, value, low, high, *_) in enumerate(rows):
                    panel.plot([x, x], [low, high], "_-", color=BLUE, markersize=8)
                    panel.plot(x, value, "o", color=BLUE, markersize=5)
                    agreed = float(name) if rows is calibration else 0.0
                    panel.plot([x - 0.3, x + 0.3], [agreed, agreed], "--", color="#444444", linewidth=0.9)
                panel.set_xticks(range(len(rows)), [tables.shortened(row[1]) for row in rows])
                panel.set_title(title, loc="left", fontweight="bold")
                panel.set_xlabel("dashed: the judge agrees with people")
        return drawing


@moved.renamed("rw.judging.agreement")
def agreement(
    qrels: Run,
    judge: Run,
    systems: Mapping[str, Run] | None = None,
    *,
    metric: MetricLike = "ndcg@10",
    level: float = 0.95,
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
    check.number("level", level, least=0.0, most=1.0, open_ends=True)
    human, machine = (
        trec.qrels_frame(one).filter(pl.col("grade") >= 0).select("query", "document", pl.col("grade").alias(name))
        for one, name in ((qrels, "people"), (judge, "judge"))
    )
    both = human.join(machine, on=["query", "document"]).sort("query", "document")
    if both.is_empty():
        got = f"{human.height:,} documents of people, {machine.height:,} of the judge"
        hint = "check that both spell the ids of queries and documents alike"
        raise check.error("people and the judge have graded no document in common", got=got, hint=hint)
    grades, counts = counted(both, "people", "judge")
    square = (grades[:, None] - grades) ** 2
    kinds = {"unweighted": (square > 0.0).astype(np.float64), "quadratic weights": square}
    rows: list[_Row] = []
    for name, weights in kinds.items():
        rows.append(("kappa", name, *kappa(counts, weights, level), len(counts), np.nan))
    for grade, table in zip(grades.tolist(), np.moveaxis(counts, 2, 0), strict=True):
        sizes = table.sum(1).astype(np.float64)
        means = table[sizes > 0] @ grades / sizes[sizes > 0]
        rows += [_mean("calibration", f"{grade:g}", means, level, sizes[sizes > 0])] if means.size else []
    measured = metric_of(metric)
    alone = [frame.height - both.height for frame in (human, machine)]
    basis = f"{tables.count(both.height, 'document')} of {tables.count(len(counts), 'query', 'queries')} have both "
    basis += f"grades. Left out: {alone[0]:,} graded by people alone, {alone[1]:,} by the judge alone."
    return Agreement(
        grades=tuple(grades.tolist()),
        confusion=counts.sum(0),
        estimates=(*rows, *_of_systems(systems or {}, both, measured, level)),
        metric=str(measured),
        level=level,
        basis=basis,
    )


def counted(both: pl.DataFrame, one: str, other: str) -> tuple[Array, NDArray[np.int64]]:
    """Return the grades, and (n_queries, n_grades, n_grades) documents by two columns of them; queries are sorted."""
    queries = both["query"].rle_id().cast(pl.Int64).to_numpy()
    grades, codes = np.unique(both.select(one, other).to_numpy(), return_inverse=True)
    if grades.size > _MOST_GRADES:
        hint = "turn the scores of the judge into the grades that people use"
        raise check.error(f"at most {_MOST_GRADES} different grades are compared", got=grades.size, hint=hint)
    shape = int(queries[-1]) + 1, grades.size, grades.size
    cells = np.ravel_multi_index((queries, *codes.reshape(-1, 2).T), shape)
    return grades, np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def kappa(counts: NDArray[np.int64], weights: Array, level: float) -> tuple[float, float, float]:
    """Compute 1 − observed/expected disagreement, and the ends of its interval by the jackknife over queries."""

    def of(confusion: NDArray[np.int64]) -> Array:
        observed = np.tensordot(confusion, weights) * confusion.sum((1, 2))
        expected = np.einsum("qa,ab,qb->q", confusion.sum(2), weights, confusion.sum(1), optimize=True)
        ratio: Array = np.divide(observed, expected, out=np.full(len(confusion), np.nan), where=expected > 0.0)
        return 1.0 - ratio

    total, n = counts.sum(0, keepdims=True), len(counts)
    value, without = float(of(total)[0]), of(total - counts)
    test = TTest(value, float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())), n - 1)
    low, high = _ends(test, n, level)
    return value, low, float(np.minimum(high, 1.0))


def _ends(test: TTest, n_queries: int, level: float) -> tuple[float, float]:
    """Return the interval; NaN for few queries, or where all are equal: that shows no spread, and no certainty."""
    return test.interval(level) if n_queries >= FEWEST and test.error > 0.0 else (np.nan, np.nan)


def _mean(part: str, name: str, values: Array, level: float, weights: Array | None = None, p: float = np.nan) -> _Row:
    """Compute a mean over queries and its interval."""
    low, high = _ends(t_test(values, weights), values.size, level) if values.size >= FEWEST else (np.nan, np.nan)
    return part, name, weighted_mean(values, weights), low, high, values.size, p


def _of_systems(systems: Mapping[str, Run], both: pl.DataFrame, metric: Metric, level: float) -> list[_Row]:
    """Compute the leniency of the judge to each system, and the difference for each pair of systems."""
    leniency: dict[str, Array] = {}
    for name, system in systems.items():
        with check.naming(name):
            run = trec.run_frame(system)
            graded = (both.rename({grader: "grade"}) for grader in ("judge", "people"))
            judge, people = (metric.of(*trec.join(run, qrels, all_topics=True)) for qrels in graded)
            leniency[name] = judge - people
            require_scored(metric, leniency[name])
    rows = [_mean("leniency", name, values[~np.isnan(values)], level) for name, values in leniency.items()]
    pairs = {}
    for one, other in itertools.combinations(leniency, 2):
        difference = leniency[one] - leniency[other]
        require_scored(metric, difference)
        difference = difference[~np.isnan(difference)]
        favoured = difference.sum() >= 0.0
        pairs[f"{one} over {other}" if favoured else f"{other} over {one}"] = difference if favoured else -difference
    p = holm([t_test(values).p if values.size >= FEWEST else 1.0 for values in pairs.values()]).tolist()
    return rows + [_mean("favour", name, pairs[name], level, p=p[k]) for k, name in enumerate(pairs)]
