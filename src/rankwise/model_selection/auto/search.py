"""The search: recipes are trained on the same folds, the better half continues, and time is checked every round."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rankwise.arrays import Json, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import Metric
from rankwise.model_selection.auto.budget import OVER, Budget, Timer, longest
from rankwise.model_selection.auto.choice import NETS, TREES, RankerCandidate, blend_seconds
from rankwise.model_selection.auto.leaderboard import microseconds
from rankwise.model_selection.auto.live import Moment, Report
from rankwise.rankers.at_once import trains_at_once
from rankwise.rankers.base import Ranker
from rankwise.rankers.ensembles.bagged import bagged
from rankwise.rankers.training.session import interruption_unannounced
from rankwise.rankers.trees.ranker import TreeRanker

if TYPE_CHECKING:
    from rankwise.model_selection.auto.store import SearchStore
    from rankwise.rankers.training.loop import History
    from rankwise.statistics.evaluation import Evaluation

QUARTERS = (1, 2, 4)
"""The quarters of its rounds that a recipe is trained for before the better half continues."""
_FIRST_ROUND = {"lightgbm": 1.0, "xgboost": 2.0, "catboost": 2.0, "neural": 10.0}
"""The relative time of a library's first round, until it was measured: an epoch sees all lists."""
_FAILURES = (ValueError, RuntimeError, MemoryError)
"""Errors that end one recipe, and not the search."""
_STORED = ("finished", "state", "seconds", "first", "closing", "leaves", "reason")


@dataclass(eq=False, kw_only=True)
class RecipeRun:
    """A recipe, and its progress."""

    number: int
    name: str
    recipe: Ranker
    again: int = 0
    """The number of equal recipes before: its seed differs by that."""
    bag: bagged | None = None
    values: dict[int, float] = field(default_factory=dict)
    """Quarters of its rounds -> the best value of the metric up to there, out of fold."""
    finished: bool = False
    """Whether it is complete, or failed."""
    state: str = "not tried"
    seconds: float = 0.0
    first: float = 0.0
    """Seconds until its first round was done."""
    closing: float = 0.0
    """Seconds after its last round, until the bag was measured and written."""
    leaves: float = 0.0
    """Of its trees up to the best round; the end of a training takes time for each."""
    evaluation: "Evaluation | None" = None
    """Of its bag, out of fold; None for one that was read from a folder."""
    microseconds: float = math.nan
    """Of scoring a document with its bag."""
    reason: str = ""

    @property
    def rounds(self) -> int:
        """The greatest number of rounds."""
        return 1 if trains_at_once(self.recipe) else int(getattr(self.recipe, self.recipe.unit))

    @property
    def quarter(self) -> int:
        """A quarter of the rounds."""
        return max(1, math.ceil(self.rounds / 4))

    @property
    def value(self) -> float:
        """The best value so far; −inf where there is none."""
        return self.values[max(self.values)] if self.values else -math.inf

    def at(self, quarters: int) -> float:
        """Return the value after so many quarters, or after all that there were."""
        trained = [one for one in self.values if one <= quarters]
        return self.values[max(trained)] if trained else -math.inf

    def record(self) -> Json:
        """Return the entry of the file of a search."""
        scalars = {name: getattr(self, name) for name in _STORED}
        microseconds = None if math.isnan(self.microseconds) else self.microseconds
        head = {"recipe": self.name, "trained": self.bag is not None}
        return (
            head
            | {"values": {str(n): value for n, value in self.values.items()}, "microseconds": microseconds}
            | scalars
        )

    def restore(self, record: Json) -> None:
        """Restore the entry of the file of a search."""
        self.values = {int(quarters): float(value) for quarters, value in record["values"].items()}
        for name in _STORED:
            value = record.get(name, 0.0) if name == "leaves" else record[name]  # older files have no leaves
            setattr(self, name, type(getattr(self, name))(value))
        self.microseconds = math.nan if record["microseconds"] is None else float(record["microseconds"])

    def measure(self, data: RankingDataset) -> None:
        """Measure the other numbers of the leaderboard, while there is time for that."""
        if self.bag is not None and self.evaluation is not None:
            _ = self.evaluation.interval  # is computed on first use
            self.microseconds = microseconds(self.bag, data)

    def candidate(self, metric: str) -> RankerCandidate:
        """Return its bag as a candidate."""
        kind = TREES if isinstance(self.recipe, TreeRanker) else NETS
        bag = self.bag
        if bag is None:
            raise LookupError(self.name)
        evaluation = bag.out_of_fold_ if self.evaluation is None else self.evaluation
        return RankerCandidate(name=self.name, ranker=bag, kind=kind, evaluation=evaluation, metric=metric)


@dataclass(eq=False, kw_only=True)
class Search:
    """Trains recipes as bags until all are complete or the time is over."""

    data: RankingDataset
    metric: Metric
    runs: Sequence[RecipeRun]
    """All recipes, in the order in which they are tried."""
    settings: Keywords
    """Parameters of every recipe: ``threads``, ``metrics``."""
    seed: int
    """Of the folds, and of every recipe that is the first of its kind."""
    bags: Keywords
    """Arguments of every bag: ``folds``, ``fold_seed``, ``processes``, ``dask``."""
    budget: Budget
    store: "SearchStore"
    report: Report

    def run(self) -> str:
        """Search; return why it ended: ``recipes``, ``minutes`` or ``interrupted``."""
        ended = "recipes"
        try:
            for one, quarters in self._schedule():
                if one.finished or quarters in one.values:
                    continue
                if self.usable and self.budget.left <= self._least(one):
                    ended = OVER  # others may begin faster
                    continue
                self._train(one, quarters)
                if one.state in (OVER, "interrupted"):
                    return one.state
        except KeyboardInterrupt:
            if not self.usable:
                raise
            return "interrupted"
        return ended

    def _least(self, one: RecipeRun) -> float:
        """Return the seconds until the first round of a recipe: as of its library, or as expected from others."""
        begun = [other for other in self.runs if other.first > 0.0]
        alike = [other.first for other in begun if other.recipe.name == one.recipe.name]
        if alike:
            return longest(alike)
        pace = _FIRST_ROUND.get(one.recipe.name, 1.0)
        return longest([other.first * pace / _FIRST_ROUND.get(other.recipe.name, 1.0) for other in begun])

    @property
    def usable(self) -> bool:
        """Whether there is a ranker to choose."""
        return any(one.bag is not None for one in self.runs)

    def _schedule(self) -> Iterator[tuple[RecipeRun, int]]:
        """Yield the recipe to train next, and for how many quarters of its rounds.

        The first recipe is trained to its end, so that there is a ranker. The others have a quarter of their rounds,
        the better half of them two, and the better half of these all. Those that are left come last, the best first.
        """
        last = QUARTERS[-1]
        waiting = list(self.runs)
        while waiting:
            first = waiting.pop(0)
            yield first, last
            if first.bag is not None:
                break
        racing = waiting
        for quarters in QUARTERS[:-1]:
            until = self.budget.left / 2.0  # the other half is for those that go on
            for one in racing:
                if self.budget.left >= until:
                    yield one, quarters
            ranked = sorted((one for one in racing if one.bag is not None), key=lambda one: -one.at(quarters))
            racing = ranked[: (len(ranked) + 1) // 2]
        for one in racing:
            yield one, last
        for one in sorted(waiting, key=lambda one: -one.value):
            yield one, last

    def _train(self, one: RecipeRun, quarters: int) -> None:
        """Train a recipe on from where it is."""
        rounds = min(one.rounds, quarters * one.quarter)
        changes: Keywords = {one.recipe.unit: rounds, "progress": False, "checkpoint_every": one.quarter}
        recipe = one.recipe.__sklearn_clone__()
        bag, timer = bagged(recipe, **self.bags), Timer(self.budget, lambda rounds: rounds * self._leaves(recipe))
        original = {name: getattr(bag, name) for name in ("progress", "checkpoint_every")}
        checkpoint = self.store.checkpoint(one.number)
        bag.set_params(**self.settings, **changes, seed=self.seed + one.again, checkpoint=checkpoint)

        def watch(round: int, history: "History") -> None:
            self._report(one, round, history[str(self.metric)][-1])
            timer(round, history)

        self._report(one, 0, math.nan)
        before = one.seconds
        try:
            with interruption_unannounced():
                bag.fit(self.data, resume=True, watch=watch)
        except _FAILURES as why:
            one.finished, one.state, one.reason = True, "failed", f"{why}" or type(why).__name__
        else:
            # A bag that is chosen, or trained on by its user, has no parameters of the search.
            bag.set_params(**original, **{one.recipe.unit: one.rounds}, checkpoint=None)
            one.bag, one.evaluation, one.microseconds = bag, bag.out_of_fold_, math.nan
            if bag.stopped_ in (OVER, "interrupted"):
                one.state = bag.stopped_
            else:
                one.finished = quarters == QUARTERS[-1] or rounds >= one.rounds or bag.stopped_ != bag.unit
                one.state = "complete" if one.finished else "partial"
                one.values[quarters] = one.evaluation.mean[str(self.metric)]
        one.seconds, one.first = before + timer.seconds, max(one.first, timer.first or 0.0)
        one.measure(self.data)
        self.store.write(one, self.budget.spent)
        one.closing = timer.since
        if one.bag is not None:
            one.leaves = one.bag.best_round_ * self._leaves(recipe)
        self._reserve()
        if not self.budget.least and one.bag is not None:
            self.budget.least = timer.began - self.budget.began + (timer.first or 0.0) + one.closing
        if one.bag is not None and one.evaluation is not None:
            self._report(one, one.bag.best_round_, one.evaluation.mean[str(self.metric)], one.state)
        else:
            self._report(one, 0, math.nan, one.state)

    def _leaves(self, recipe: Ranker) -> float:
        """Return the number of leaves that a bag of trees gains in a round; 0 for nets."""
        if not isinstance(recipe, TreeRanker):
            return 0.0
        leaves: int = recipe.settings_for(self.data.n_docs)["leaves"]
        return float(leaves * self.bags["folds"])

    def _reserve(self) -> None:
        """Reserve time for the end of a training, as it was so far, and for blends of the bags that there are."""
        self.budget.closings = [(one.leaves, one.closing) for one in self.runs if one.closing > 0.0]
        bags = [one.candidate(str(self.metric)) for one in self.runs if one.bag is not None]
        self.budget.reserve(blend_seconds(bags, self.data, self.metric, self.budget) if bags else 0.0)

    def _report(self, one: RecipeRun, round: int, value: float, ended: str = "") -> None:
        best = max(self.runs, key=lambda other: other.value)
        self.report(
            Moment(
                recipe=one.name,
                done=sum(other.finished for other in self.runs),
                recipes=len(self.runs),
                round=round,
                value=value,
                ended=ended,
                leader=best.name if best.values else "",
                leads_with=best.value,
                spent=self.budget.spent,
                seconds=self.budget.seconds,
            )
        )
