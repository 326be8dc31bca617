"""Feature selection: which features can go, what they cost, and what that loses on queries that had no say in it."""

import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from rankwise import RankingDataset, check
from rankwise import metrics as metrics_
from rankwise.base import tables
from rankwise.base.arrays import Array, Json
from rankwise.base.progress import bar
from rankwise.check.docstrings import plain_signature
from rankwise.check.parameters import Above, AtLeast, Option, Unset, Within
from rankwise.metrics import MetricLike
from rankwise.model_selection import Fold, checked_ranker, fold_list
from rankwise.models import Schema
from rankwise.quality import leakage
from rankwise.statistics import (
    BLUE,
    GREY,
    VERMILLION,
    Result,
    TTest,
    canvas,
    interval_of_same,
    light_grid,
    t_test,
    weighted_mean,
)
from rankwise.wings.tuning.feature_steps import FeatureSteps, Step, Units, with_columns

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

_FEWEST = 10  # queries
_STEP, _LAST = 0.7, 0.05  # each point of the curve costs that share of the one before, down to that share of all


@dataclass(frozen=True)
class CurvePoint:
    """What a ranker reaches with features of at most a cost, on queries that had no say in which features these are."""

    budget: float
    cost: float
    """Of the features that were chosen, the mean over folds; and so is their number."""
    features: float
    value: float
    """The mean of the metric over all tested queries."""
    loss: float
    """By how much that is below the value with all features, with its interval over queries."""
    low: float
    high: float


@dataclass(frozen=True)
class FeatureRow:
    """A feature: what it costs, what it overlaps with, and who kept it."""

    feature: str
    kept: bool
    cost: float
    """Of its computation, which others may share."""
    group: int
    """Features of a group overlap, and were permuted together, when all were there."""
    worth: float
    """What the metric loses without it, as estimated by permuting its group in queries that the models had not seen."""
    folds: int
    """The number of folds that kept it at the cost that was chosen."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FeatureSelection(Result):
    """Which features stay, which go, and what that loses; made by :func:`select_features`."""

    metric: str
    rows: tuple[FeatureRow, ...]
    """All features, in the order of the data."""
    curve: tuple[CurvePoint, ...]
    """From all features to the cheapest."""
    point: int
    """The number of the point of the curve that was chosen."""
    cost: float
    """What the features that stay cost."""
    loss: float
    """What is lost against all features, where the queries that measure it chose neither features nor their cost."""
    interval: tuple[float, float]
    level: float
    n_scored: int
    folds: int
    """The number of folds that were measured."""
    stopped: str
    """``"finished"``, ``"time"`` or ``"interrupted"``: whether all folds were measured."""

    @property
    def features(self) -> tuple[str, ...]:
        """The features that stay."""
        return tuple(row.feature for row in self.rows if row.kept)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The features that can go."""
        return tuple(row.feature for row in self.rows if not row.kept)

    def take(self, data: RankingDataset) -> RankingDataset:
        """Return data with the features that stay; they have the columns of the data that were passed."""
        if data.n_features != len(self.rows):
            got = f"{data.n_features} for {len(self.rows)}"
            raise check.error("data must have all features that were selected from", got=got)
        return with_columns(data, np.flatnonzero([row.kept for row in self.rows]))

    @property
    def sentence(self) -> str:
        """The result in words."""
        if not self.dropped:
            return f"All {len(self.rows)} features stay: any fewer lose more {self.metric} than chance would."
        number = f"{len(self.features)} of {tables.count(len(self.rows), 'feature')}"
        cost = f"at a cost of {self.cost:g} instead of {self.curve[0].cost:g}"
        lost = f"{tables.number(self.loss, signed=True)} {tables.interval(*self.interval, signed=True)}"
        return f"{number}, {cost}: {self.metric} loses {lost} on queries that had no say in the choice."

    def table(self) -> tables.Table:
        """Return one row for each point of the curve."""
        rows = tuple(
            (
                f"{one.budget:.4g}", f"{one.cost:.4g}", f"{one.features:.1f}", tables.number(one.value),
                tables.number(one.loss, signed=True), tables.interval(one.low, one.high, signed=True),
                "chosen" if number == self.point else "",
            )
            for number, one in enumerate(self.curve)
        )  # fmt: skip
        measured = f"{tables.count(self.n_scored, 'query', 'queries')} of {tables.count(self.folds, 'fold')}"
        why = {"time": ": the time was over", "interrupted": ": interrupted"}.get(self.stopped, "")
        notes = (
            self.sentence,
            f"Intervals of {self.level:.0%} over {measured}{why}; costs and numbers are means of folds.",
        )
        header = ("cost of at most", "cost", "features", self.metric, "loss", "interval", "")
        return tables.Table(header=header, rows=rows, align="rrrrrll", notes=notes)

    def feature_table(self) -> tables.Table:
        """Return one row for each feature: those that stay first, by what they are worth."""
        ordered = sorted(self.rows, key=lambda row: (not row.kept, -row.worth))
        rows = tuple(
            (
                tables.shortened(row.feature, 40), "yes" if row.kept else "no", f"{row.folds} of {self.folds}",
                f"{row.cost:.4g}", str(row.group + 1), tables.number(row.worth, signed=True),
            )
            for row in ordered
        )  # fmt: skip
        return tables.Table(
            header=("feature", "stays", "in folds", "cost", "group", "worth"), rows=rows, align="lllrrr"
        )

    def tables(self, *_: Any, **options: Any) -> list[tables.Table]:
        """Return the curve and the features."""
        return [self.table(**options), self.feature_table()]

    def to_frame(self) -> "pl.DataFrame":
        """One row for each feature."""
        import polars as pl

        return pl.DataFrame([asdict(row) for row in self.rows])

    def to_dict(self) -> Json:
        """Return plain data that JSON can hold."""
        facts = ("metric", "features", "dropped", "cost", "loss", "interval", "level", "folds", "stopped", "point")
        return {
            "sentence": self.sentence,
            **{name: getattr(self, name) for name in facts},
            "curve": [asdict(one) for one in self.curve],
            "rows": [asdict(one) for one in self.rows],
        }

    def figure(self) -> "Figure":
        """Draw what is lost against what features cost, with intervals."""
        with canvas(7.2, 4.2) as drawing:
            panel = drawing.subplots()
            costs, lost = ([getattr(one, name) for one in self.curve] for name in ("cost", "loss"))
            panel.axhline(0.0, color=GREY, linewidth=0.8)
            for number, one in enumerate(self.curve):
                colour = VERMILLION if number == self.point else BLUE
                panel.plot([one.cost] * 2, [-one.low, -one.high], color=colour, alpha=0.5, linewidth=2.0)
            panel.plot(costs, np.negative(lost), "o-", color=BLUE, label="features of at most a cost")
            panel.plot(costs[self.point], -lost[self.point], "D", color=VERMILLION, markersize=8, label="chosen")
            panel.set_xlabel("cost of features")
            panel.set_ylabel(f"{self.metric} less that of all features")
            light_grid(panel)
            drawing.legend(loc="outside lower center", ncols=2)
            panel.set_title(textwrap.fill(self.sentence, 85), loc="left", fontweight="bold")
        return drawing


@plain_signature
def select_features(
    ranker: object,
    data: RankingDataset,
    budget: Annotated[
        float | None, Above(0), Unset("the cheapest that loses nothing that can be told from chance"),
        "What features may cost.", Option(metavar="COST")
    ] = None,
    *,
    costs: Mapping[Any, float] | None = None,
    metric: Annotated[MetricLike, "What is measured.", Option(metavar="METRIC")] = "ndcg@10",
    tolerance: Annotated[float, AtLeast(0), "Loss of the metric that is accepted, beyond chance."] = 0.0,
    folds: Annotated[int, AtLeast(2), "Number of parts of the queries, each measured without a say."] = 5,
    minutes: Annotated[
        float | None, Above(0), "No fold starts that would end later.", Option(metavar="MINUTES", group="Running")
    ] = None,
    seed: Annotated[int, AtLeast(0), "Seed of folds and permutations.", Option(group="Running")] = 0,
    level: Annotated[float, Within(0, 1, open=True), "Confidence level.", Option(metavar="LEVEL")] = 0.95,
    progress: Annotated[bool | None, "Whether to show progress.", Option(group="Running")] = None,
) -> FeatureSelection:  # fmt: skip
    """Select features by what they cost and what they add, and measure what is lost on queries that had no say in it.

    ``costs`` maps features, by name or number, to costs, as in ``{"bm25": 2.0, ("first", "second"): 30.0}``: what one
    computation makes is kept or dropped as one, and costs once. Features that are not named cost 1.

    Features go step by step, down to a twentieth of the cost. In every step the ranker is trained anew on those that
    are left, and features are permuted within the queries of held-out folds (those with one value per query, between
    queries). Features whose ranks correlate by 0.8 are permuted together, so that a copy hides nobody's worth, and of
    duplicates the cheapest stays. What loses nothing on average goes first, then what loses no more than one standard
    error, and then what is worth least for its cost.

    All of that is done without a fifth of the queries at a time (``folds``), on which every step is measured. Taken is
    the cheapest step within the ``budget`` that loses at most ``tolerance`` against the best one, beyond one standard
    error; for the loss that is reported, other folds choose it. Intervals and errors are over queries, with the luck of
    one training. ``minutes`` and Ctrl-C end the measuring, after two folds at the earliest. Some 200 to 300 models are
    trained; a ranker that stops early holds out a fifth of its queries.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=90, n_docs=12, n_features=5, seed=1)
    >>> copied = data.with_(features=data.features[:, [0, 1, 2, 3, 4, 0]], feature_names=[*"abcde", "copy of a"])
    >>> ranker = rw.LightGBMRanker(rounds=10, leaves=4, min_documents=5, patience=None, threads=1)
    >>> chosen = rw.select_features(ranker, copied, budget=3, costs={"a": 2.0}, folds=2)
    >>> "a" in chosen.dropped, chosen.cost <= 3, chosen.take(copied).n_features == len(chosen.features)
    (True, True, True)
    """
    seed, measure = check.integer("seed", seed, least=0), metrics_.metric(metric)
    steps = FeatureSteps(checked_ranker(ranker), data, Units.of(data, costs), measure, seed)
    if not data.n_features:
        raise check.error("there are no features to select from", got=repr(data))
    weights = np.ones(data.n_queries) if data.weights is None else data.weights
    scored = np.count_nonzero(weights[~np.isnan(measure.of(np.zeros(data.n_docs), data))])
    if scored < _FEWEST:
        raise check.error(f"selecting features needs at least {_FEWEST} queries that {measure} scores", got=scored)
    total, least = float(steps.units.costs.sum()), float(steps.units.costs.min())
    most = total if budget is None else check.number("budget", budget, least=0.0)
    if most < least:
        raise check.error("no feature is that cheap", got=f"budget={most:g}", hint=f"the cheapest costs {least:g}")
    smaller = {total * _STEP**power for power in range(1, 1 + int(np.log(_LAST) / np.log(_STEP)))} | {most}
    budgets = [total, total, total, *sorted((one for one in smaller if least <= one < total), reverse=True)]
    plan = fold_list(data, check.integer("folds", folds, least=2), valid=0.0, seed=seed)
    paths: list[list[Step]] = []
    stopped, start = "finished", time.monotonic()
    with bar(progress, (len(plan) + 1) * len(budgets), "all queries") as update, leakage.checked():
        try:
            for number in range(len(plan) + 1):  # the first with all queries, which measures nothing
                taken = (time.monotonic() - start) / max(number, 1)
                if minutes is not None and number > 2 and taken * (number + 1) > 60.0 * minutes:
                    stopped = "time"
                    break
                train, _, test = plan[number - 1].parts() if number else (data, None, None)
                path = []
                for done, step in enumerate(steps.walk(train, test, budgets), number * len(budgets) + 1):
                    path.append(step)
                    if update is not None:
                        what = f"fold {number} of {len(plan)}" if number else "all queries"
                        update(done, f"{what}: {tables.count(steps.units.columns_of(step.chosen).size, 'feature')}")
                paths.append(path)
        except KeyboardInterrupt:
            if len(paths) < 3:
                message = check.Message("interrupted before two folds were measured", hint="pass fewer folds")
                raise KeyboardInterrupt(message) from None
            stopped = "interrupted"
    # Of budgets that leave everybody with the same features, the least counts.
    sizes = np.array([[step.chosen.size for step in path] for path in paths])
    different = [*np.flatnonzero(np.diff(sizes, axis=1).any(axis=0)).tolist(), len(budgets) - 1]
    paths, budgets = [[path[number] for number in different] for path in paths], [budgets[one] for one in different]
    return _selected(steps, paths, plan, budgets, most, tolerance, level, stopped)


def _selected(
    steps: FeatureSteps, paths: list[list[Step]], plan: Sequence[Fold], budgets: list[float], most: float,
    tolerance: float, level: float, stopped: str,
) -> FeatureSelection:  # fmt: skip
    """Choose a step, and measure the choice."""
    final, *tested = paths
    queries = np.concatenate([fold.queries for fold in plan[: len(tested)] if fold.queries is not None])
    values = np.concatenate([np.stack([step.values for step in path]) for path in tested], axis=1)
    fold = np.repeat(np.arange(len(tested)), [path[0].values.size for path in tested])
    kept = ~np.isnan(values[0])
    values, fold = values[:, kept], fold[kept]
    weights = np.ones(fold.size) if steps.data.weights is None else steps.data.weights[queries][kept]
    allowed = np.flatnonzero(np.array(budgets) <= most)
    again = len(tested) / (len(plan) - 1)
    span, costs = steps.metric.bounds[1] - steps.metric.bounds[0], steps.units.costs

    def lost(points: Array | int) -> tuple[float, float, float]:
        if not np.any(points):
            return 0.0, 0.0, 0.0  # all features against themselves
        gaps = values[0] - values[points, np.arange(fold.size)]
        ends = interval_of_same(gaps, weights, bounds=(-span, span), level=level)
        test = _test(gaps, weights, again)
        return test.mean, *(test.interval(level) if ends is None else ends)

    curve = tuple(
        CurvePoint(
            budget,
            float(np.mean([costs[path[number].chosen].sum() for path in tested])),
            float(np.mean([steps.units.columns_of(path[number].chosen).size for path in tested])),
            weighted_mean(values[number], weights),
            *lost(number),
        )
        for number, budget in enumerate(budgets)
    )
    rule = (allowed, tolerance, again)
    point = _cheapest(values, weights, *rule)
    by_others = [_cheapest(values[:, fold != k], weights[fold != k], *rule) for k in range(len(tested))]
    loss, *interval = lost(np.array(by_others)[fold])
    rows = []
    for unit, columns in enumerate(steps.units.columns):
        there = [step for step in final[: point + 1] if unit in step.chosen]
        facts = (
            unit in final[point].chosen, float(costs[unit]), int(final[0].groups[unit]),
            float(there[-1].worth[there[-1].chosen == unit][0]), sum(unit in path[point].chosen for path in tested),
        )  # fmt: skip
        rows += [(column, facts) for column in columns.tolist()]
    schema = Schema.of(steps.data)
    return FeatureSelection(
        metric=str(steps.metric),
        rows=tuple(FeatureRow(schema.title(column), *facts) for column, facts in sorted(rows)),
        curve=curve,
        point=point,
        cost=float(costs[final[point].chosen].sum()),
        loss=loss,
        interval=(interval[0], interval[1]),
        level=level,
        n_scored=int(fold.size),
        folds=len(tested),
        stopped=stopped,
    )


def _test(gaps: Array, weights: Array, again: float) -> TTest:
    """Test differences of models whose training queries overlap, as Nadeau and Bengio (2003) do for trials.

    Folds have ``again`` more of their variance than 1 / folds, as one training has luck that others do not share.
    """
    return t_test(gaps, weights, overlap=again / gaps.size)


def _cheapest(values: Array, weights: Array, allowed: NDArray[np.int64], tolerance: float, again: float) -> int:
    """Return the cheapest point that loses at most so much against the best one, beyond one standard error."""
    best = values[allowed[np.argmax(values[allowed] @ weights)]]
    for point in allowed[::-1]:
        test = _test(best - values[point], weights, again)
        if test.mean <= tolerance + test.error:
            return int(point)
    return int(allowed[0])
