"""Checks of ranking data as one page: what is wrong in their parts, and what they can show."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from scipy.special import stdtrit

from rankwise import check
from rankwise.base import tables
from rankwise.base.arrays import Array
from rankwise.data.dataset import RankingDataset
from rankwise.data.segments import Segment
from rankwise.evaluation import segments
from rankwise.models.schema import ModelInput, Schema
from rankwise.quality import features, labels, leakage, parts
from rankwise.quality.findings import DataFinding
from rankwise.quality.labels import SUSPECT, NdcgRange
from rankwise.quality.learning_curve import learning_curve
from rankwise.rankers import fit_arguments
from rankwise.rankers.trees.lightgbm.ranker import LightGBMRanker
from rankwise.statistics.diagnostics import Findings
from rankwise.statistics.figures.drawing import COLOURS, GREY, canvas
from rankwise.statistics.result import Result
from rankwise.statistics.segments import parts as parts_of
from rankwise.statistics.significance import RESAMPLED, t_test

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MEASURED, _LEARNED = 1_000_000, 100_000  # documents by which features are judged, and from which quick rankers learn
_SHOWN = 14  # orders in the figure


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DataCheck(Result):
    """Findings on ranking data; printed, they are a page."""

    parts: Mapping[str, str]
    """Part -> its numbers of queries, documents and features, in words."""
    findings: tuple[DataFinding, ...]
    """Most severe first."""
    ndcg: Mapping[str, Mapping[str, float]]
    """Part -> order -> NDCG@10 without learning: random order, order of rows, and by each feature, the best first."""

    def failed(self, *, strict: bool = False) -> bool:
        """Whether there is an error, or with ``strict`` a warning."""
        return any(one.severity == "error" or (strict and one.severity == "warning") for one in self.findings)

    def to_frame(self) -> pl.DataFrame:
        """Return one row for each finding."""
        names = ("severity", "part", "topic", "size", "sentence", "hint")
        types = {name: pl.Float64 if name == "size" else pl.String for name in names}
        return pl.DataFrame({name: [getattr(one, name) for one in self.findings] for name in names}, types)

    def table(self) -> tables.Table:
        """Return the findings with their hints, each hint once."""
        title = "".join(f"{name}: {text}\n" for name, text in self.parts.items())
        marked = []
        for one, following in zip(self.findings, (*self.findings[1:], None), strict=True):
            hint = "" if (following and following.hint == one.hint) or not one.hint else f" Hint: {one.hint}."
            marked.append((one.severity, f"{one.part}: {one.sentence}{hint}"))
        return Findings.of(marked, title)

    @property
    def sentence(self) -> str:
        """The number of findings of each severity."""
        counts = {word: sum(one.severity == word for one in self.findings) for word in ("error", "warning", "note")}
        return f"{', '.join(tables.count(count, word) for word, count in counts.items())}."

    def figure(self) -> "Figure":
        """Draw NDCG@10 of orders without learning in each part."""
        if not self.ndcg:
            raise check.error("there is nothing to draw", got="queries in which no order is better than another")
        first = next(iter(self.ndcg.values()))
        orders = [order for order, value in first.items() if not np.isnan(value)][:_SHOWN][::-1]
        with canvas(7.2, 1.5 + 0.22 * len(orders)) as drawing:
            panel = drawing.subplots()
            suspect = first["random order"] + SUSPECT * (1.0 - first["random order"])
            panel.axvspan(suspect, 1.0, color=GREY, alpha=0.15, linewidth=0, label="suspect")
            for number, (part, values) in enumerate(self.ndcg.items()):
                heights = np.arange(len(orders)) - 0.22 * (number - 0.5 * (len(self.ndcg) - 1))
                places = [values[order] for order in orders]
                panel.plot(places, heights, "osD"[number], color=COLOURS[number], markersize=5, label=part)
            panel.set_yticks(range(len(orders)), [tables.shortened(order) for order in orders])
            panel.set_ylim(-0.6, len(orders) - 0.4)
            panel.set_xlim(0.0, 1.02)
            panel.set_xlabel("NDCG@10")
            panel.set_title("Orders without learning, and single features up or down", loc="left", fontweight="bold")
            panel.grid(color="#DDDDDD", linewidth=0.6)
            panel.set_axisbelow(True)
            panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return drawing


def examine(
    train: ModelInput, valid: ModelInput | None = None, test: ModelInput | None = None, *, curve: bool = False,
    segment: Segment | None = None,
) -> DataCheck:  # fmt: skip
    """Examine ranking data before anything is trained on them: what is wrong, and what they can show.

    Findings are errors (what is measured on these data means nothing), warnings (probably wrong, or hardly useful) and
    notes. The smallest difference that the last part can show is estimated with two quick rankers. ``curve`` adds what
    twice the training queries would be worth on it, which takes some thirty trainings: :func:`learning_curve`.
    ``segment``, as in :func:`evaluate`, adds the smallest difference that each segment of that part can show.

    >>> import rankwise as rw
    >>> train, test = rw.split(rw.synthetic(n_queries=200, n_docs=20, seed=1), (0.6, 0.4), seed=0)
    >>> page = rw.examine(train, test=test)
    >>> page.failed(strict=True), page.findings[-1].topic, page.findings[-1].size < 0.1
    (False, 'smallest difference', True)
    """
    data = {"train": fit_arguments.dataset(train)}
    for name, held_out in (("valid", valid), ("test", test)):
        if held_out is not None:
            data[name] = fit_arguments.aligned(held_out, data["train"], extend=True)
    if empty := [name for name, one in data.items() if not one.n_docs]:
        raise check.error("data must have documents", got="none", where=empty[0])
    groups: list[Iterator[DataFinding]] = [parts.shared(data), parts.missing(data), parts.categories(data)]
    ndcg: dict[str, dict[str, float]] = {}
    for name, one in data.items():
        scale, sampled = NdcgRange(one), NdcgRange(features.sample(one, _MEASURED))
        values = features.ndcg_by_feature(sampled)
        groups += [labels.labels(one, name), labels.lists(one, name), labels.order(scale, name)]
        groups += [features.copies(one, name), features.leaks(sampled, name, values)]
        groups += [features.marks(sampled.data, name), features.missing_by_label(sampled.data, name)]
        groups += [features.constants(one, name), features.doubled(one, name), features.own_categories(one, name)]
        if sampled.deciding:
            rows = scale.ndcg(-np.arange(one.n_docs, dtype=np.float64))
            titles = {Schema.of(one).title(column): float(values[column]) for column in np.argsort(-values)}
            ndcg[name] = {"random order": scale.random, "order of rows": rows, **titles}
    groups.append(_smallest_difference(data, segment))  # findings that need trained rankers come last
    if curve:
        groups.append(_doubling(data))
    findings = [*itertools.chain(*groups)]
    topics = list(dict.fromkeys(finding.topic for finding in findings))
    findings.sort(key=lambda finding: (finding.rank, topics.index(finding.topic)))
    counts = {name: repr(one).partition("(")[2][:-1] for name, one in data.items()}
    return DataCheck(parts=counts, findings=tuple(findings), ndcg=ndcg)


def _smallest_difference(data: Mapping[str, RankingDataset], segment: Segment | None) -> Iterator[DataFinding]:
    """Iterate over the smallest difference that held-out queries can show, by those of two quick rankers."""
    (*_, part), topic = data, "smallest difference"
    kinds = segments.of_data(segment, data[part])
    if part == "train" or not data["train"].n_features:
        return
    scale = NdcgRange(data[part])
    train, held_out = (  # features and labels alone
        RankingDataset(one.features, one.labels, one.offsets, weights=one.weights, categorical=one.categorical)
        for one in (features.sample(data["train"], _LEARNED), data[part])
    )
    try:
        with leakage.checked():
            rankers = [LightGBMRanker(loss, rounds=50, progress=False).fit(train) for loss in ("xendcg", "lambdarank")]
        first, second = (scale.values(ranker.predict(held_out)) for ranker in rankers)
        differences = (first - second)[~np.isnan(first)]
        n_queries = tables.count(differences.size, "query", "queries")
        if differences.size < RESAMPLED or not differences.any():
            raise check.error("two quick rankers must differ on some queries", got=n_queries)
    except ValueError as wrong:
        sentence = f"The smallest difference that can be shown is not known: {check.Message.of(wrong).problem}"
        yield DataFinding("note", topic, sentence, part, np.nan)
        return
    weights = None if held_out.weights is None else held_out.weights[~np.isnan(first)]
    smallest = _shown(differences, weights)
    sentence = f"{n_queries} with relevant documents cannot tell differences in NDCG@10 below {smallest:.3f} (power "
    sentence += f"80%, α = 0.05; two quick rankers differ by ±{differences.std():.3f} a query)."
    yield DataFinding("note", topic, sentence, part, smallest, "half of it takes four times the queries")
    for kind, value, rows in parts_of(kinds):
        rows = rows[~np.isnan(first)]
        size = _shown(differences[rows], None if weights is None else weights[rows])
        n_queries = tables.count(int(rows.sum()), "query", "queries")
        sentence = f"{kind} {value} cannot tell differences below {size:.3f}, by {n_queries}."
        if np.isnan(size):
            sentence = f"{kind} {value} cannot tell: {n_queries}, or none on which two quick rankers differ."
        yield DataFinding("note", topic, sentence, part, size)


def _shown(differences: Array, weights: Array | None) -> float:
    """Return the smallest difference that is shown with a power of 80%; NaN where queries are too few."""
    counted = differences if weights is None else differences[weights > 0.0]
    if counted.size < RESAMPLED or not counted.any():
        return np.nan
    test = t_test(differences, weights)
    return test.error * float(stdtrit(test.freedom, 0.975) + stdtrit(test.freedom, 0.8))


def _doubling(data: Mapping[str, RankingDataset]) -> Iterator[DataFinding]:
    """Iterate over what twice the training queries would be worth on the held-out ones."""
    *_, part = data
    if part == "train":
        what, hint = "a learning curve needs held-out queries", "pass `valid` or `test`, or `set curve=False`"
        raise check.error(what, got="training data alone", hint=hint)
    try:
        curve = learning_curve(data["train"], data[part], valid=data.get("valid") if part == "test" else None)
    except ValueError as wrong:
        sentence = f"What more queries are worth is not known: {check.Message.of(wrong).problem}"
        yield DataFinding("note", "learning curve", sentence, part, np.nan)
    else:
        yield DataFinding("note", "learning curve", curve.sentence, part, curve.gain)
