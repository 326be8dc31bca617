"""The frontier of several goals: how much of one costs how much of another, by bags with different weights."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations, groupby, product
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise import Evaluation, Objective, RankingDataset, bagged, check, metrics, moved, objective
from rankwise.base import tables
from rankwise.base.arrays import Array, Json, Keywords
from rankwise.base.progress import bar
from rankwise.check.docstrings import plain_signature
from rankwise.check.parameters import AtLeast, Option
from rankwise.evaluation import Segment, segments
from rankwise.model_selection import Trainings, checked_ranker, finished_models
from rankwise.objectives.table import ObjectiveLike
from rankwise.objectives.wrappers import Sum, labels_learned
from rankwise.quality import leakage
from rankwise.rankers import fit_arguments, out_of_fold_of
from rankwise.rankers.training import reject
from rankwise.statistics import BLUE, GREY, VERMILLION, Result, canvas, light_grid, plain
from rankwise.wings.tuning.labels import label_points

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INTERVAL: Keywords = {"alpha": 0.3, "linewidth": 1.2, "solid_capstyle": "round"}


class Hypervolume(NamedTuple):
    """The volume that the points of a frontier dominate, with its interval over queries."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class Frontier(Result):
    """What different weights of two or three goals reach; made by :func:`frontier`."""

    goals: dict[str, Objective]
    """The metric of each goal -> the objective that is trained for it."""
    weights: tuple[tuple[float, ...], ...]
    """The weights of each point, which add up to 1: from the first goal alone to the last."""
    models: tuple[Any, ...]
    """The trained bag of each point."""
    evaluation: Evaluation
    """The values of all goals on every query, point after point."""

    @cached_property
    def means(self) -> Array:
        """(points, goals) the mean of each goal's metric."""
        return np.array([*self.evaluation.mean.values()]).reshape(-1, len(self.goals))

    @cached_property
    def intervals(self) -> Array:
        """(points, goals, 2) the ends of the interval of each mean."""
        return np.array([*self.evaluation.interval.values()]).reshape(-1, len(self.goals), 2)

    @cached_property
    def dominated(self) -> NDArray[np.bool_]:
        """(points,) whether another point is at least as good in every goal, and better in one."""
        rows, points = self.means[None], self.means[:, None]
        return np.asarray(((rows >= points).all(-1) & (rows > points).any(-1)).any(-1))

    @cached_property
    def reference(self) -> Array:
        """The lowest mean of each goal."""
        return np.asarray(self.means.min(axis=0))

    @cached_property
    def knee(self) -> int:
        """The point farthest above the plane through the best of each goal: past it a gain costs more than before.

        Goals are first put on one scale, on which the lowest mean is 0 and the highest is 1.
        """
        span = np.ptp(self.means, axis=0)
        return int(np.argmax(((self.means - self.reference) / np.where(span > 0.0, span, 1.0)).sum(axis=1)))

    def hypervolume(self, reference: Sequence[float] | Array | None = None) -> Hypervolume:
        """Return the volume that the points dominate above ``reference``, by default the lowest mean of each goal.

        To compare two frontiers, pass the same reference to both. The interval is a bootstrap over queries: all points
        see the same ones, and so do the lowest means.
        """
        if reference is not None and np.shape(reference) != self.reference.shape:
            raise check.error("reference must have a number for each goal", got=f"shape {np.shape(reference)}")

        def volume(means: Array) -> Array:
            return dominated_volume(means - (means.min(axis=-2, keepdims=True) if reference is None else reference))

        tail = (1.0 - self.evaluation.level) / 2.0
        resampled = volume(self.evaluation.resampled().reshape(-1, *self.means.shape))
        low, high = np.quantile(resampled, [tail, 1.0 - tail]).tolist()
        return Hypervolume(float(volume(self.means)), low, high)

    def table(self) -> tables.Table:
        """Return one row per point: weights, and the mean of each goal's metric with its interval."""
        marks = np.where(self.dominated, "dominated", "").tolist()
        marks[self.knee] = "knee"
        rows = []
        for weights, means, ends, mark in zip(self.weights, self.means, self.intervals, marks, strict=True):
            columns = [(tables.number(mean), tables.interval(*one)) for mean, one in zip(means, ends, strict=True)]
            rows.append((shares(weights), *(text for pair in columns for text in pair), mark))
        interval = f"{100 * self.evaluation.level:g}% interval"
        header = ("weights", *(text for name in self.goals for text in (name, interval)), "")
        above, scored = ", ".join(map(tables.number, self.reference)), self.evaluation.query_ids.size
        notes = (f"{self.sentence} above ({above}), over {tables.count(scored, 'query', 'queries')}.",)
        return tables.Table(header=header, rows=tuple(rows), align="l" + "rl" * len(self.goals) + "l", notes=notes)

    def segment_table(self) -> tables.Table:
        """Return one row per segment and point: the mean of each goal's metric with its interval."""
        interval = f"{100 * self.evaluation.level:g}% interval"
        rows = []
        for (segment, value), of_both in groupby(self.evaluation.by_segment, attrgetter("segment", "value")):
            means = [*of_both]
            for number, weights in enumerate(self.weights):
                goals = means[number * len(self.goals) : (number + 1) * len(self.goals)]
                cells = [(tables.number(one.mean), tables.interval(one.low, one.high)) for one in goals]
                row = segment, value, f"{goals[0].queries:,}", shares(weights)
                rows.append((*row, *(text for pair in cells for text in pair)))
        header = ("segment", "", "queries", "weights", *(text for name in self.goals for text in (name, interval)))
        return tables.Table(header=header, rows=tuple(rows), align="llrl" + "rl" * len(self.goals), notes=())

    @property
    def sentence(self) -> str:
        """The size of the frontier."""
        volume = self.hypervolume()
        return f"Hypervolume {tables.number(volume.value)} {tables.interval(volume.low, volume.high)}"

    def to_frame(self) -> "pl.DataFrame":
        """One row per point: weights, means and ends of intervals of every goal, which is dominated or the knee."""
        import polars as pl

        return pl.DataFrame(self.to_dict()["points"])

    def to_dict(self) -> Json:
        """Return plain data that JSON can hold."""
        rows: list[Json] = []
        for number, weights in enumerate(self.weights):
            row: Json = {f"weight of {name}": weight for name, weight in zip(self.goals, weights, strict=True)}
            for name, mean, (low, high) in zip(self.goals, self.means[number], self.intervals[number], strict=True):
                row |= {name: float(mean), f"{name} low": float(low), f"{name} high": float(high)}
            rows.append(row | {"dominated": bool(self.dominated[number]), "knee": number == self.knee})
        volume, objectives = self.hypervolume(), {name: repr(one) for name, one in self.goals.items()}
        size = {"value": volume.value, "low": volume.low, "high": volume.high, "reference": self.reference.tolist()}
        kinds = plain([asdict(one) for one in self.evaluation.by_segment])
        return {"objectives": objectives, "hypervolume": size, "points": rows} | ({"segments": kinds} if kinds else {})

    def tables(self) -> list[tables.Table]:
        """Return the table of points, and that of segments where there are any."""
        return [self.table(), *([self.segment_table()] if self.evaluation.segments else [])]

    def figure(self) -> "Figure":
        """Draw every two goals against each other with intervals.

        Points of two goals are labelled with the weight of the second; of three, which have many points, the knee and
        the goals alone.
        """
        names, two = list(self.goals), len(self.goals) == 2
        pairs = list(combinations(range(len(names)), 2))
        shown = [two or max(weights) == 1.0 or number == self.knee for number, weights in enumerate(self.weights)]
        texts = [
            shares(one[1:] if two else one) if chosen else "" for one, chosen in zip(self.weights, shown, strict=True)
        ]
        with canvas(6.4 * len(pairs), 5.0) as drawing:
            panels = drawing.subplots(1, len(pairs), squeeze=False)[0]
            for panel, (x, y) in zip(panels, pairs, strict=True):
                _draw(panel, self, x, y, connected=two)
                panel.set_xlabel(names[x])
                panel.set_ylabel(names[y])
            title = f"beside points: weight{'' if two else 's'} of {names[1] if two else ' / '.join(names)}"
            key = panels[0].get_legend_handles_labels()
            drawing.legend(*key, loc="outside lower left", ncols=4, title=title, alignment="left")
            heading = f"{' against '.join(names)}\n{self.sentence}"
            drawing.suptitle(heading, x=0.02, ha="left", fontsize=10, fontweight="bold")
            engine = drawing.get_layout_engine()
            if engine is not None:
                engine.execute(drawing)  # labels are placed where the panels are
            for panel, (x, y) in zip(panels, pairs, strict=True):
                arms = [arm for number in range(len(texts)) for arm in _arms(self, number, x, y)]
                lines = [_best_in_order(self, x, y), *arms] if two else arms
                label_points(panel, self.means[:, [x, y]], texts, lines)
        return drawing


@moved.renamed("rw.frontier")
@plain_signature
def frontier(
    ranker: object,
    train: RankingDataset,
    valid: RankingDataset | None,
    objectives: Sequence[ObjectiveLike] | Mapping[str, ObjectiveLike],
    points: Annotated[int, AtLeast(2), "Number of weights between two goals, ends included."] = 9,
    *,
    folds: Annotated[int, AtLeast(2), "Number of members of each bag."] = 5,
    checkpoint: Annotated[
        str | Path | None, "Folder that keeps the model of every point.", Option(metavar="DIR", group="Running")
    ] = None,
    resume: Annotated[bool, "Whether finished points are taken from that folder.", Option(group="Running")] = False,
    progress: Annotated[bool | None, "Whether to show progress.", Option(group="Running")] = None,
    level: float = 0.95,
    resamples: int = 2000,
    segment: Segment | None = None,
) -> Frontier:
    """Train a bag for each of several weights of two or three goals, and measure what each reaches.

    ``objectives`` maps the metric of each goal to the objective that is trained for it. A list of objectives stands for
    NDCG@10, of the label of each: ``["xendcg", "on(purchase, xendcg)"]`` is ``{"ndcg@10": "xendcg",
    "ndcg(label=purchase)@10": "on(purchase, xendcg)"}``. Each point trains the sum of the objectives by its weights,
    such as ``0.25*xendcg + 0.75*on(purchase, xendcg)``, and stops by the mean of the metrics whose weight is not 0.

    ``ranker`` is a ranker or its expression, and stays untrained. Each point is a bag of it, of ``folds`` members on
    the same folds of ``train``, unless it is a bag already, and is measured on ``valid``, which no training sees.
    Without validation data (None) points are measured out of fold. ``points`` is the number of weights between two
    goals, ends included; three goals have points · (points + 1) / 2.

    ``checkpoint`` is a folder that keeps every trained point; ``resume=True`` takes them from there after an
    interruption. ``segment`` adds the means of each point by segment of the queries, as in :func:`evaluate`.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=90, n_docs=10, goals={"purchase": 90}, seed=1)
    >>> train, valid = rw.split(data, (0.6, 0.4), seed=1)
    >>> ranker = rw.LightGBMRanker(rounds=10, leaves=4, threads=1)
    >>> curve = rw.frontier(ranker, train, valid, ["xendcg", "on(purchase, xendcg)"], points=3, folds=2)
    >>> curve.weights
    ((1.0, 0.0), (0.5, 0.5), (0.0, 1.0))
    >>> bool(curve.means[0, 0] > curve.means[2, 0]), bool(curve.means[0, 1] < curve.means[2, 1])
    (True, True)
    >>> best = curve.models[curve.knee]
    """
    goals = _goals(objectives)
    bag = _bag(ranker, folds)
    plan = _weights(check.integer("points", points, least=2), len(goals))
    data = train if valid is None else valid
    measured = [metrics.metric(name) for name in goals]
    for metric in measured:  # a label that is not there is an error before any training
        metric.of(np.zeros(data.n_docs), data)
    kinds = segments.of_data(segment, data)
    for goal in goals.values():
        fit_arguments.document_columns(train, goal, debias=False)
    texts = {"what": "frontier", "same": "ranker, objectives, points and data"}
    points_: Json = {"objectives": {name: repr(one) for name, one in goals.items()}, "weights": list(map(list, plan))}
    finished = finished_models(checkpoint, bag, [(train, valid)], **texts, resume=resume, **points_)
    models: list[Any] = []
    columns: dict[str, Array] = {}
    with bar(progress, len(plan), f"point 1 of {len(plan)}") as update, leakage.checked():
        trainings = Trainings("point", len(plan), update, finished, resume)
        for number, weights in enumerate(plan, 1):
            model = trainings.model(number, _of_point(bag, goals, weights), train)
            scores = out_of_fold_of(model).cross_fitted if valid is None else model.predict(data.without_rows())
            checked = check.scores(scores, data.offsets, data.query_ids)
            columns |= {f"{metric}, point {number}": metric.of(checked, data) for metric in measured}
            models.append(model)
    ids = np.arange(data.n_queries) if data.query_ids is None else data.query_ids
    evaluation = Evaluation(columns, ids, data.weights, level=level, resamples=resamples, segments=kinds)
    return Frontier(goals, tuple(plan), tuple(models), evaluation)


def dominated_volume(values: Array) -> Array:
    """Return the volume between 0 and the points of (…, points, goals), of two or three goals.

    >>> dominated_volume(np.array([[2.0, 1.0], [1.0, 3.0], [0.5, 0.5]]))
    array(4.)
    """
    values = np.maximum(values, 0.0)
    order = np.argsort(-values[..., -1], axis=-1)[..., None]
    values = np.take_along_axis(values, order, axis=-2)
    heights = -np.diff(values[..., -1], axis=-1, append=0.0)
    if values.shape[-1] == 2:
        return np.asarray((np.maximum.accumulate(values[..., 0], axis=-1) * heights).sum(axis=-1))
    slices = [dominated_volume(values[..., : k + 1, :-1]) for k in range(values.shape[-2])]
    return np.asarray((np.stack(slices, axis=-1) * heights).sum(axis=-1))


def shares(weights: Sequence[float]) -> str:
    """Write the weights of a point.

    >>> shares((0.25, 0.75))
    '0.25 / 0.75'
    """
    return " / ".join(f"{weight:.3g}" for weight in weights)


def _goals(objectives: Sequence[ObjectiveLike] | Mapping[str, ObjectiveLike]) -> dict[str, Objective]:
    """Return the objective of each goal by its metric."""
    hint = 'pass ["xendcg", "on(purchase, xendcg)"], or {"ndcg@10": "xendcg", …} with a metric for each'
    if isinstance(objectives, Mapping):
        goals = {str(metrics.metric(name)): objective(one) for name, one in objectives.items()}
    elif isinstance(objectives, Sequence) and not isinstance(objectives, str):
        parts = [objective(one) for one in objectives]
        goals = {str(metrics.NDCG(cutoff=10, label=_label_of(one))): one for one in parts}
    else:
        raise check.error("a frontier has a list of objectives", got=repr(objectives), hint=hint)
    if len(goals) not in (2, 3) or len(goals) != len(objectives):
        got = f"{tables.count(len(objectives), 'objective')} with {tables.count(len(goals), 'metric')}"
        raise check.error("a frontier has two or three goals with different metrics", got=got, hint=hint)
    return goals


def _label_of(objective: Objective) -> str | None:
    """Return the name of the labels that an objective learns from, whatever wraps it; None for ``labels``."""
    names = labels_learned(objective)
    if len(names) > 1:
        hint = f'name the metric of each goal, {{"ndcg@10": "{objective}", …}}'
        raise check.error("the metric of an objective of several labels is not known", got=repr(objective), hint=hint)
    return names.pop()


def _bag(ranker: object, folds: int) -> bagged:
    single = checked_ranker(ranker)
    bag = single if isinstance(single, bagged) else bagged(single, folds)
    if "objective" not in bag.ranker.get_params():
        raise check.error("a frontier needs a ranker that has an objective", got=type(bag.ranker).__name__)
    reject(bag.ranker, "a frontier weighs goals, and constraints weigh them otherwise", "leave constraints out")
    return bag


def _weights(points: int, goals: int) -> list[tuple[float, ...]]:
    """Return all weights in equal steps that add up to 1, from the first goal alone to the last."""
    steps = points - 1
    rest = product(range(steps, -1, -1), repeat=goals - 1)
    return [(*(n / steps for n in one), (steps - sum(one)) / steps) for one in rest if sum(one) <= steps]


def _of_point(bag: bagged, goals: Mapping[str, Objective], weights: Sequence[float]) -> bagged:
    """Return the bag of some weights; goals without weight take part neither in training nor in stopping."""
    terms = [(weight, name) for weight, name in zip(weights, goals, strict=True) if weight > 0.0]
    total = Sum(tuple((weight, goals[name]) for weight, name in terms)) if len(terms) > 1 else goals[terms[0][1]]
    chosen = tuple(name for _, name in terms)
    return bag.__sklearn_clone__().set_params(objective=total, metrics=chosen, stop_on="mean")


def _best_in_order(frontier: Frontier, x: int, y: int) -> Array:
    """Return the points that are not dominated, by the mean of the first goal."""
    points = frontier.means[~frontier.dominated][:, [x, y]]
    return points[np.argsort(points[:, 0], kind="stable")]


def _arms(frontier: Frontier, number: int, x: int, y: int) -> list[Array]:
    """Return the intervals of a point as two lines."""
    mean, ends = frontier.means[number], frontier.intervals[number]
    return [np.array([(end, mean[y]) for end in ends[x]]), np.array([(mean[x], end) for end in ends[y]])]


def _draw(panel: "Axes", frontier: Frontier, x: int, y: int, *, connected: bool) -> None:
    """Draw the points of two goals, each kind with its own shape and a line in the legend."""
    numbers = np.arange(len(frontier.weights))
    knee = numbers == frontier.knee
    best = ~frontier.dominated & ~knee
    if connected:
        panel.plot(*_best_in_order(frontier, x, y).T, color=BLUE, linewidth=1.4, zorder=2)
    kinds: tuple[tuple[str, NDArray[np.bool_], Keywords], ...] = (
        ("not dominated", best, {"marker": "o", "color": BLUE}),
        ("knee", knee, {"marker": "D", "color": VERMILLION}),
        ("dominated", frontier.dominated & ~knee, {"marker": "o", "color": GREY, "markerfacecolor": "white"}),
    )
    for name, rows, style in kinds:
        for number in numbers[rows]:
            for arm in _arms(frontier, number, x, y):
                panel.plot(*arm.T, color=style["color"], zorder=1, **_INTERVAL)
        if rows.any():
            points = frontier.means[rows]
            panel.plot(points[:, x], points[:, y], linestyle="", markersize=6.5, zorder=4, label=name, **style)
    panel.plot([], [], color=BLUE, label=f"{100 * frontier.evaluation.level:g}% interval", **_INTERVAL)
    panel.margins(0.1)
    light_grid(panel)
