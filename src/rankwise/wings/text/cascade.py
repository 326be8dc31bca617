"""Cascades: how many candidates of a first phase a second one must rank, so that the whole loses little."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from time import perf_counter
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from rankwise import RankingDataset, check, metrics
from rankwise.base import tables
from rankwise.base.arrays import Array, Json
from rankwise.data import columns
from rankwise.evaluation import Scored, scores_of
from rankwise.statistics import BLUE, GREY, Result, canvas, gate, weighted_mean

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

DEPTHS = (1000, 750, 500, 400, 300, 200, 150, 100, 75, 50, 40, 30, 25, 20, 15, 10, 5)
"""Numbers of candidates that are tried, the largest first."""
_TIMES = 3  # scorings of which the fastest is the cost


@dataclass(frozen=True, kw_only=True)
class Depth:
    """A number of candidates, and what the cascade loses with so many."""

    keep: int
    documents: float
    """Candidates of a query on average, where some have fewer."""
    value: float
    """The metric of the cascade."""
    loss: float
    bound: float
    """The upper end of the one-sided interval of the loss, for itself."""
    smallest_margin: float
    """The margin that such queries would pass in 80% of cases where nothing is lost."""
    verdict: Literal["passes", "fails", "cannot tell", "not tested"]
    seconds: float
    """Of both phases for a query; NaN where the first was not measured."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Cascade(Result):
    """How many candidates to keep; made by :func:`rankwise.text.cascade`."""

    metric: str
    margin: float
    level: float
    queries: int
    depths: tuple[Depth, ...]
    """From all candidates downwards."""
    first_seconds: float
    """Of the first phase for a query."""
    second_seconds: float
    """Of the second phase for a document."""

    @property
    def chosen(self) -> Depth:
        """The smallest number that passes where all larger ones do."""
        return [*takewhile(lambda one: one.verdict == "passes", self.depths)][-1]

    @property
    def keep(self) -> int:
        """How many candidates the first phase keeps."""
        return self.chosen.keep

    @property
    def verdict(self) -> Literal["keeps fewer", "keeps all"]:
        """Whether any candidates need not be ranked."""
        return "keeps all" if self.chosen is self.depths[0] else "keeps fewer"

    @property
    def sentence(self) -> str:
        """The number of candidates in words."""
        queries, lost, most = (
            tables.count(self.queries, "query", "queries"),
            f"{self.margin:g} {self.metric}",
            self.depths[1],
        )
        if self.verdict == "keeps all":
            could = f"they could show {most.smallest_margin:.2g}"
            return f"These {queries} do not show that {most.keep:,} candidates lose less than {lost}; {could}."
        saved = f"{1.0 - self.chosen.documents / self.depths[0].documents:.0%}"
        return f"{self.keep:,} candidates lose less than {lost}, and the second phase ranks {saved} fewer documents."

    def table(self) -> tables.Table:
        """Return a row for each number of candidates."""
        rows = []
        for one in self.depths:
            numbers = (tables.number(value) for value in (one.value, one.loss, one.bound))
            cost = tables.NOTHING if math.isnan(one.seconds) else f"{1e3 * one.seconds:.3g}"
            mark = " *" if one is self.chosen else ""
            rows.append((f"{one.keep:,}{mark}", f"{one.documents:,.1f}", *numbers, cost, one.verdict))
        ends = f"{100 * self.level:g}%"
        header = ("candidates", "ranked", self.metric, "loss", f"below ({ends})", "ms a query", "verdict")
        note = (
            "Tested from the largest number to the first that does not pass, so that the choice is as sure as one test"
        )
        notes = (self.sentence, f"{note}, {ends}; each bound holds for itself.")
        return tables.Table(header=header, rows=tuple(rows), align="rrrrrrl", notes=notes)

    def to_frame(self) -> "pl.DataFrame":
        """Return a row for each number of candidates, with the fields of :class:`Depth`."""
        import polars as pl

        return pl.DataFrame([asdict(one) for one in self.depths])

    def figure(self) -> "Figure":
        """Draw the loss and its bound against the number of candidates."""
        keeps, losses, bounds = zip(*((one.keep, one.loss, one.bound) for one in self.depths), strict=True)
        with canvas(6.4, 3.6) as drawing:
            panel = drawing.subplots()
            panel.fill_between(keeps, losses, bounds, color=BLUE, alpha=0.2)
            panel.plot(keeps, losses, "o-", color=BLUE, markersize=3)
            panel.axhline(self.margin, color=GREY, linestyle="--")
            panel.axvline(self.keep, color=GREY, linewidth=0.8)
            panel.set_xscale("log")
            panel.set_xlabel("candidates of the first phase")
            panel.set_ylabel(f"loss of {self.metric}")
            panel.set_title(f"{self.keep:,} candidates", loc="left", fontweight="bold")
        return drawing


def cascade(
    first: str | Scored, second: Scored, data: RankingDataset, *, margin: float = 0.01,
    metric: metrics.MetricLike = "ndcg@10", depths: Sequence[int] | None = None, level: float = 0.95,
    seconds: tuple[float, float] | None = None, seed: int = 0,
) -> Cascade:  # fmt: skip
    """Find how few candidates of a first phase lose less than ``margin`` when a second phase ranks them.

    ``first`` is the name of a feature, such as ``"bm25(text)"``, a model or scores; ``second`` a model or scores. The
    first N documents by ``first`` are ranked by ``second``, and the others follow in the order of ``first``. The loss
    is against ``second`` on all candidates, on queries that it was not trained on. ``depths`` are the numbers N to
    try; they are tested from the largest downwards until one does not pass, which keeps the error of the choice.

    ``seconds`` are the cost of the first phase for a query and of the second for a document; by default models are
    measured here, in one process, and a feature costs what your engine takes, which is not known.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=800, n_docs=60, n_features=4, seed=1)
    >>> train, test = rw.split(data, (0.3, 0.7), seed=1)
    >>> second = rw.LightGBMRanker(rounds=20, leaves=7, threads=1).fit(train)
    >>> first = rw.LinearRanker(transform=None, threads=1).fit(train)
    >>> found = rw.text.cascade(first, second, test, margin=0.02, depths=[50, 40, 30, 20], seconds=(0.001, 0.0001))
    >>> found.keep, found.verdict, round(found.chosen.seconds, 4)
    (20, 'keeps fewer', 0.003)
    """
    if not isinstance(data, RankingDataset):
        raise check.error(
            "a cascade is measured on a RankingDataset", got=type(data).__name__, hint="see rw.text.dataset"
        )
    margin = check.number("margin", margin, least=0.0, open_ends=True)
    check.number("level of an interval with one end", level, least=0.5, most=1.0, open_ends=True)
    measure, sizes = metrics.metric(metric), data.sizes
    tried = sorted({check.integer("depths", one, least=1) for one in (DEPTHS if depths is None else depths)})
    longest, stream = int(sizes.max()), data.stream(check.integer("seed", seed, least=0)).child("cascade")
    if tried[0] >= longest:
        got = f"{tried[0]:,}, and lists of {longest:,} documents at most"
        raise check.error(
            "a cascade tries fewer candidates than there are", got=got, hint="`set depths=…` to smaller ones"
        )
    for phase, system in (("first", first), ("second", second)):
        _check_new(phase, system, data)
    order, first_time = _scored(first, data)
    # Documents in an order that the labels may have given must not be chosen by it.
    ranked = np.lexsort((stream.documents(data.offsets), -order, np.repeat(np.arange(sizes.size), sizes)))
    place = np.empty(data.n_docs, np.int64)
    place[ranked] = np.arange(data.n_docs) - np.repeat(data.offsets[:-1], sizes)
    scores, second_time = _scored(second, data)
    costs = (first_time / sizes.size, second_time / data.n_docs)
    if seconds is not None:
        costs = tuple(check.number("seconds", one, least=0.0) for one in seconds)  # type: ignore[assignment]
    full = measure.of(scores, data)
    counted = ~np.isnan(full) & (True if data.weights is None else data.weights > 0.0)
    weights = None if data.weights is None else data.weights[counted]
    found: list[Depth] = []
    for keep in [longest, *(one for one in reversed(tried) if one < longest)]:
        kept = place < keep
        own = scores if keep == longest or not _by_list(second) else _rescored(second, data, kept)
        values = measure.of(np.where(kept, np.unique(own, return_inverse=True)[1], -1.0 - place), data)
        if keep == longest:
            tested: Json = {"difference": 0.0, "low": 0.0, "smallest_margin": 0.0, "verdict": "passes"}
        else:
            tested = gate.checked((values - full)[counted], weights, str(measure), margin, level)
        if any(one.verdict != "passes" for one in found):
            tested["verdict"] = "not tested"
        documents = float(np.minimum(sizes, keep).mean())
        numbers: Json = {"keep": keep, "documents": documents, "value": weighted_mean(values, data.weights)}
        numbers |= {"loss": 0.0 - tested["difference"], "bound": 0.0 - tested["low"]}
        numbers |= {name: tested[name] for name in ("smallest_margin", "verdict")}
        found.append(Depth(**numbers, seconds=costs[0] + costs[1] * documents))
    return Cascade(
        metric=str(measure), margin=margin, level=level, queries=int(counted.sum()), depths=tuple(found),
        first_seconds=costs[0], second_seconds=costs[1],
    )  # fmt: skip


def _scored(system: str | Scored, data: RankingDataset) -> tuple[Array, float]:
    """Return scores, and the seconds that they took; NaN of what is not computed here."""
    if isinstance(system, str):
        if data.feature_names is None:
            hint = "name them: data.with_(feature_names=…)"
            raise check.error("the features of these data have no names", got=repr(system), hint=hint)
        place = data.feature_names.index(check.choice("first", system, data.feature_names))
        column = np.asarray(data.features[:, place], np.float64)  # NaN where the engine did not find it
        return np.where(np.isnan(column), -np.inf, column), math.nan
    taken = []
    for _ in range(_TIMES if hasattr(system, "predict") else 1):
        start = perf_counter()
        scores = scores_of(system, data)
        taken.append(perf_counter() - start)
    known = hasattr(system, "predict") or callable(system)
    return check.scores(scores, data.offsets, data.query_ids), min(taken) if known else math.nan


def _by_list(system: object) -> bool:
    return bool(getattr(getattr(system, "model_", system), "needs_lists", False))


def _rescored(system: Scored, data: RankingDataset, kept: NDArray[np.bool_]) -> Array:
    """Return scores of a model that looks at whole lists: those of the candidates, by the candidates alone."""
    rows, queries = np.flatnonzero(kept), np.arange(data.n_queries)
    offsets = np.append(0, np.cumsum(np.add.reduceat(kept, data.offsets[:-1], dtype=np.int64)))
    part = data.with_(features=data.features[rows], offsets=offsets, **columns.take(data, rows, queries))
    scores = np.zeros(data.n_docs)
    scores[rows] = check.scores(scores_of(system, part), offsets, data.query_ids)
    return scores


def _check_new(phase: str, system: object, data: RankingDataset) -> None:
    """Raise if a model was trained on queries of the data, which it ranks better than others."""
    seen = system.seen_in_training(data) if hasattr(system, "seen_in_training") else None
    if seen is not None and seen.any():
        got = f"{seen.sum():,} of {seen.size:,} queries that it was trained on"
        raise check.error(f"a {phase} phase is judged on other queries", got=got, hint="pass validation or test data")
