"""Weights of runs that are chosen from judgements, and what they gain on queries that did not choose them."""

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

import rankwise as rw
from rankwise import RankingDataset, check
from rankwise.base import progress as bars
from rankwise.base import tables
from rankwise.base.arrays import Array, Json
from rankwise.base.tables import Table
from rankwise.data.splits import fold_of_query
from rankwise.evaluation import Run, trec
from rankwise.metrics import MetricLike
from rankwise.models import storage
from rankwise.statistics import Result, bounds_of, significance
from rankwise.wings.text.fusion import Found, Minimum, fuse, weights_of

if TYPE_CHECKING:
    import polars as pl

_KIND = "tuned fusion"
_MOST = 500
TUNED, RRF, EQUAL = "tuned", "rrf", "equal weights"


@dataclass(frozen=True, repr=False, kw_only=True)
class TunedFusion(Result):
    """Weights of a convex combination, and what they are worth on queries that did not choose them."""

    weights: Mapping[str, float]
    scale: str
    minimum: Minimum
    depth: int | None
    metric: str
    means: Mapping[str, float]
    """System -> mean of the metric; of ``"tuned"`` with weights chosen without the fold of each query."""
    gains: Mapping[str, tuple[float, float, float]]
    """System -> by how much ``"tuned"`` is above it, with the ends of the interval."""
    grid: int
    """How many weights were tried."""
    optimism: float
    """How much better the best weights of the grid look on the queries that chose them than on others."""
    n_queries: int
    level: float

    def fuse(self, runs: Mapping[str, Run]) -> "pl.DataFrame":
        """Fuse runs of new queries, which have the same names."""
        settings: Json = {"scale": self.scale, "minimum": self.minimum, "depth": self.depth}
        return fuse(runs, "convex", weights=self.weights, **settings)

    @property
    def sentence(self) -> str:
        """The weights, and what they gain over reciprocal rank fusion."""
        shares = ", ".join(f"{name} {value:.2f}" for name, value in self.weights.items())
        gain, low, high = self.gains[RRF]
        return f"{shares}: {tables.number(gain, signed=True)} {tables.interval(low, high, signed=True)} over {RRF}"

    def table(self) -> Table:
        """Return means of all systems, and by how much the tuned weights are above them."""
        rows = []
        for name, mean in self.means.items():
            gain, low, high = self.gains.get(name, (math.nan,) * 3)
            above = f"{tables.number(gain, signed=True)} {tables.interval(low, high, signed=True)}"
            rows.append((name, tables.number(mean), above if name in self.gains else ""))
        shares = ", ".join(f"{name} {value:.2f}" for name, value in self.weights.items())
        notes = (
            f"Weights: {shares}. In the row {TUNED}, those of each query were chosen without its fold "
            f"({tables.count(self.n_queries, 'query', 'queries')}; intervals of {100 * self.level:g}%).",
            f"The best of {self.grid} weights looks {tables.number(self.optimism, signed=True)} better on the queries "
            "that chose it than on others.",
        )
        header = ("system", self.metric, f"{TUNED} − system")
        return Table(header=header, rows=tuple(rows), align="lrr", notes=notes)

    def to_frame(self) -> "pl.DataFrame":
        """One row for each system: mean, gain, low and high."""
        import polars as pl

        rows = [(name, mean, *self.gains.get(name, (None,) * 3)) for name, mean in self.means.items()]
        return pl.DataFrame(rows, schema=["system", "mean", "gain", "low", "high"], orient="row")

    def to_dict(self) -> Json:
        """Return all fields, as ``save`` writes them to a .json file and :meth:`load` reads them."""
        return {"kind": _KIND, "sentence": self.sentence, **asdict(self)}

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a .json file that ``save`` wrote."""
        with storage.malformed_as_error(Path(path)):
            read: Any = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(read, dict) or read.pop("kind", None) != _KIND:
                hint = "pass a .json file that the result of rw.text.tune_fusion saved"
                raise check.error("the file holds no tuned fusion", where=str(path), hint=hint)
            read.pop("sentence")
            weights_of(read["weights"], list(read["weights"]))
            read["gains"] = {name: tuple(gain) for name, gain in read["gains"].items()}
            return cls(**read)


def tune_fusion(
    runs: Mapping[str, Run],
    qrels: Run,
    metric: MetricLike = "ndcg@10",
    *,
    folds: int = 5,
    scale: str = "min-max",
    minimum: Minimum = 0.0,
    depth: int | None = None,
    level: float = 0.95,
    seed: int = 0,
    progress: bool | None = None,
) -> TunedFusion:
    """Choose weights of a convex combination by judged queries, and say what they gain on others.

    Weights are the mean over a grid of at most 500, each counting exp(−t²/2), t the number of standard errors by which
    it is behind the best: where queries are few and the metric jumps, that is steadier than the best. What is reported
    of each query is with weights chosen without its fold. Other arguments are those of :func:`rankwise.fuse`.

    >>> import rankwise as rw
    >>> runs, qrels = {"good": {}, "poor": {}}, {}
    >>> for number in range(20):
    ...     runs["good"][f"q{number}"] = {"a": 3.0, "b": 2.0 + number % 3, "c": 1.0}
    ...     runs["poor"][f"q{number}"] = {"a": 0.1 * (number % 5), "b": 0.3, "c": 0.2}
    ...     qrels[f"q{number}"] = {"a": 1}
    >>> tuned = rw.text.tune_fusion(runs, qrels, "rr")
    >>> tuned.weights["good"] > 0.6, tuned.fuse(runs).columns
    (True, ['query', 'document', 'score'])
    """
    check.number("level", level, least=0.0, most=1.0, open_ends=True)
    check.integer("folds", folds, least=2)
    found, measured = Found.of(runs, depth), rw.metric(metric)
    if len(found.names) < 2:
        raise check.error("weights are chosen for two runs or more", got="1 run")
    parts = found.scaled(scale, minimum)
    _, data = trec.join(found.run(parts, np.ones(len(found.names))), qrels)
    columns = np.stack([_placed(found, column, data) for column in parts.T])
    retrieved = np.isfinite(columns[0])
    columns[:, ~retrieved] = 0.0
    systems = {RRF: (1.0 / (60.0 + found.ranks)).sum(axis=1), **dict(zip(found.names, found.scores.T, strict=True))}
    values = {name: measured.of(_placed(found, column, data), data) for name, column in systems.items()}
    scored = ~np.isnan(values[RRF])
    if scored.sum() < folds:
        got, hint = f"{scored.sum()} for {folds} folds", "judge more queries"
        raise check.error("tuning needs a query with relevant documents for each fold", got=got, hint=hint)

    def of(weights: Array) -> Array:
        return measured.of(np.where(retrieved, weights @ columns, -np.inf), data)[scored]

    grid = simplex(len(found.names))
    tried = np.empty((len(grid), int(scored.sum())))
    with bars.bar(progress, len(grid)) as update:
        for place, weights in enumerate(grid):
            tried[place] = of(weights)
            if update:
                update(place + 1, f"{place + 1} of {len(grid)} weights")
    fold = fold_of_query(data.take(scored), folds, seed=seed)
    tuned, plain = np.empty((2, fold.size))
    for number in range(folds):
        inside, others = fold == number, tried[:, fold != number]
        tuned[inside] = of(_steady(grid, others))[inside]
        plain[inside] = tried[others.mean(axis=1).argmax(), inside]
    of_all = {TUNED: tuned, RRF: values.pop(RRF)[scored], EQUAL: of(np.full(len(parts.T), 1.0 / len(parts.T)))}
    of_all |= {name: one[scored] for name, one in values.items()}
    least, most = bounds_of(str(measured))
    gains = {}
    for name in (RRF, EQUAL):
        apart = tuned - of_all[name]
        low, high = significance.interval_of_mean(apart, bounds=(least - most, most - least), level=level)
        gains[name] = (float(apart.mean()), low, high)
    return TunedFusion(
        weights=dict(zip(found.names, _steady(grid, tried).tolist(), strict=True)),
        scale=scale,
        minimum=minimum,
        depth=depth,
        metric=str(measured),
        means={name: float(one.mean()) for name, one in of_all.items()},
        gains=gains,
        grid=len(grid),
        optimism=float(tried.mean(axis=1).max() - plain.mean()),
        n_queries=fold.size,
        level=level,
    )


def _placed(found: Found, column: Array, data: RankingDataset) -> Array:
    """Return scores of pairs, of which NaN are not retrieved, as those of the documents of a data set."""
    import polars as pl

    frame = found.pairs.with_columns(score=pl.Series(np.ascontiguousarray(column)))
    return trec.scores_of_run(frame.filter(~pl.col("score").is_nan()), data)


def simplex(count: int) -> Array:
    """Return weights, as many and as fine as there may be: all of some number of equal shares among ``count`` runs.

    >>> simplex(2).shape, simplex(3).shape, simplex(3)[1].round(3).tolist()
    ((101, 2), (496, 3), [0.0, 0.033, 0.967])
    """
    shares = next(n for n in range(100, 0, -1) if math.comb(n + count - 1, count - 1) <= _MOST or n == 1)
    cuts = np.array(list(itertools.combinations(range(shares + count - 1), count - 1)))
    ends = np.hstack([np.full((len(cuts), 1), -1), cuts, np.full((len(cuts), 1), shares + count - 1)])
    return (np.diff(ends) - 1) / shares


def _steady(grid: Array, values: NDArray[np.float64]) -> Array:
    """Return the mean of weights, each counting by how surely it is behind the best of them on these queries."""
    means = values.mean(axis=1)
    behind = values[means.argmax()] - values
    error = behind.std(axis=1) / math.sqrt(values.shape[1])
    gaps = means.max() - means
    steps = np.divide(gaps, error, out=np.where(gaps > 0.0, np.inf, 0.0), where=error > 0.0)
    counts = np.exp(-0.5 * steps**2)
    return np.asarray(counts @ grid / counts.sum())
