"""The search: recipes are trained, then again with other seeds and folds, and time is checked every round."""

import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from rankwise import Metric, Ranker, RankingDataset, bagged
from rankwise.base.arrays import Json, Keywords
from rankwise.rankers import TreeRanker, average_weights
from rankwise.rankers.training import StopTraining, UnmetConstraintWarning, interruption_unannounced, trains_at_once
from rankwise.statistics import t_test
from rankwise.wings.tuning.auto.budget import OVER, Budget, Timer, longest
from rankwise.wings.tuning.auto.choice import RankerCandidate, average_of, averaged
from rankwise.wings.tuning.auto.leaderboard import microseconds
from rankwise.wings.tuning.auto.live import Report, SearchState

if TYPE_CHECKING:
    from rankwise import Evaluation
    from rankwise.rankers.training import History
    from rankwise.wings.tuning.auto.store import SearchStore

SEEDS = 3
"""How often the recipes are gone through at most: one bag's luck is a few thousandths."""
NEGLIGIBLE = 0.001
"""The share of the metric below which a change of the average is not worth further bags."""
ENOUGH = 15.0
"""Rounds times the learning rate after which bags of trees are complete, by docs/benchmarks/auto.md#large-sets."""
FASTEST = 0.3
"""The greatest learning rate of a recipe that has little time."""
_SHARE = 0.5
"""The share of the time left in which a recipe is to be complete at most, so that others follow it."""
_PACED = 4
"""The number of rounds after which the pace of a training is known."""
_SLOW = "slow"
_FAILURES = (ValueError, RuntimeError, MemoryError)
"""Errors that end one recipe, and not the search."""
_STORED = ("finished", "state", "seconds", "first", "closing", "leaves", "rate", "reason")


@dataclass(eq=False, kw_only=True)
class RecipeRun:
    """A recipe, and its progress."""

    number: int
    name: str
    recipe: Ranker
    group: int
    """The number of the recipe, whatever the seed."""
    seed: int = 0
    """What is added to the seeds of the search, of rankers and of folds: 0 for the first bag of a recipe."""
    lap: int = 0
    """0 for recipes as they are listed; further bags of them come in laps 1 and 2."""
    floor: bool = True
    """Whether it is averaged without proof."""
    bag: bagged | None = None
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
    rate: float = 0.0
    """The learning rate for lack of time; 0: the recipe's own."""
    evaluation: "Evaluation | None" = None
    """Of its bag, out of fold."""
    microseconds: float = math.nan
    """Of scoring a document with its bag."""
    reason: str = ""

    @property
    def rounds(self) -> int:
        """The greatest number of rounds."""
        return 1 if trains_at_once(self.recipe) else int(getattr(self.recipe, self.recipe.unit))

    @property
    def value(self) -> float:
        """The value of its bag, out of fold; −inf where there is none."""
        return self.evaluation.mean[next(iter(self.evaluation.mean))] if self.evaluation is not None else -math.inf

    @property
    def nearly(self) -> bool:
        """Whether it is averaged without proof, and its trees have learned half of what is enough at least."""
        if not self.floor or self.bag is None or not isinstance(self.recipe, TreeRanker):
            return False
        rounds = len(next(iter(self.bag.history_.values())))
        return 2.0 * rounds * (self.rate or self.recipe.learning_rate) >= ENOUGH

    @property
    def hurried(self) -> Ranker:
        """The recipe, not trained, with its learning rate for lack of time."""
        recipe = self.recipe.__sklearn_clone__()
        return recipe.set_params(learning_rate=self.rate) if self.rate else recipe

    def record(self) -> Json:
        """Return the entry of the file of a search."""
        microseconds = None if math.isnan(self.microseconds) else self.microseconds
        head = {"recipe": self.name, "trained": self.bag is not None, "microseconds": microseconds}
        return head | {name: getattr(self, name) for name in _STORED}

    def restore(self, record: Json, bag: bagged | None) -> None:
        """Restore the entry of the file of a search, and its bag."""
        for name in _STORED:
            setattr(self, name, type(getattr(self, name))(record[name]))
        self.microseconds = math.nan if record["microseconds"] is None else float(record["microseconds"])
        if bag is not None:
            self.bag, self.evaluation = bag, bag.out_of_fold_

    def measure(self, data: RankingDataset) -> None:
        """Measure the other numbers of the leaderboard, while there is time for that."""
        if self.bag is not None and self.evaluation is not None:
            _ = self.evaluation.interval  # is computed on first use
            self.microseconds = microseconds(self.bag, data)

    def candidate(self, metric: str) -> RankerCandidate:
        """Return its bag as a candidate."""
        if self.bag is None or self.evaluation is None:
            raise LookupError(self.name)
        library, forest = self.recipe.name, hasattr(self.bag, "ranker_")
        if isinstance(self.recipe, TreeRanker) and self.recipe.transform is not None:
            library, forest = f"{library} with {self.recipe.transform}", False  # it cannot be added to plain forests
        how: Keywords = {"library": library, "forest": forest, "metric": metric}
        how |= {"group": self.group, "floor": self.floor}
        return RankerCandidate(name=self.name, ranker=self.bag, evaluation=self.evaluation, **how)


@dataclass(eq=False, kw_only=True)
class Search:
    """Trains recipes as bags until all are complete or the time is over."""

    data: RankingDataset
    metric: Metric
    runs: Sequence[RecipeRun]
    """All recipes, in the order in which they are tried, and then the same with other seeds and folds."""
    settings: Keywords
    """Parameters of every recipe: ``threads``, ``metrics``."""
    seed: int
    """Of the folds, and of every recipe that is the first of its kind."""
    bags: Keywords
    """Arguments of every bag: ``folds``, ``processes``, ``dask``."""
    budget: Budget
    store: "SearchStore"
    report: Report
    hurries: bool = False
    """Whether learning rates of trees are raised where the time is short: not those that the user has set."""

    def run(self) -> str:
        """Search; return why it ended: a key of ``leaderboard.STOPS``."""
        ended = "recipes"
        try:
            for one in self._schedule():
                if one.finished:
                    continue
                if self.usable and self.budget.left <= self._least(one):
                    ended = OVER  # others may begin faster
                    continue
                self._train(one)
                if one.state in (OVER, "interrupted"):
                    return one.state
        except KeyboardInterrupt:
            if not self.usable:
                raise
            return "interrupted"
        return self._enough if ended == "recipes" else ended

    def _schedule(self) -> Iterator[RecipeRun]:
        """Yield the recipe to train next: all of them, then again those that are averaged."""
        self._enough = "recipes"
        for lap in range(SEEDS):
            runs = [one for one in self.runs if one.lap == lap]
            if lap and runs:
                if not self._trained:
                    return
                if self._negligible(lap):
                    self._enough = "level"
                    return
                kept = averaged([one.candidate(str(self.metric)) for one in self._trained], self.data, self.metric)
                groups = [one.group for one in kept]
                values = np.stack([one.evaluation[one.metric] for one in kept])
                weights = average_weights(values, groups, self.data.weights)
                level = {group for group, weight in zip(groups, weights, strict=True) if weight > 0.0}
                runs = [one for one in runs if one.group in level]
                self._enough = "seeds"
            yield from runs

    @property
    def _trained(self) -> list[RecipeRun]:
        return [one for one in self.runs if one.bag is not None]

    def _negligible(self, lap: int) -> bool:
        """Whether the bags of the lap before changed the average of all by next to nothing, surely."""
        latest = [one for one in self._trained if one.lap < lap]
        before = [one for one in latest if one.lap < lap - 1]
        if not before or len(before) == len(latest):
            return False
        metric = str(self.metric)
        now, then = (
            average_of([one.candidate(metric) for one in some], self.data, self.metric) for some in (latest, before)
        )
        scored = ~np.isnan(now)
        gain = t_test((now - then)[scored], None if self.data.weights is None else self.data.weights[scored])
        return gain.mean + 2.0 * gain.error < NEGLIGIBLE * abs(float(np.mean(now[scored])))

    def _least(self, one: RecipeRun) -> float:
        """Return the seconds until the first round of a recipe: as of its library, or as expected from others."""
        begun = [other for other in self.runs if other.first > 0.0]
        alike = [other.first for other in begun if type(other.recipe) is type(one.recipe)]
        if alike:
            return longest(alike)
        return longest([other.first / other.recipe.first_round_pace * one.recipe.first_round_pace for other in begun])

    @property
    def usable(self) -> bool:
        """Whether there is a ranker to choose."""
        return any(one.bag is not None for one in self.runs)

    def _train(self, one: RecipeRun) -> None:
        """Train a recipe on from where it is."""
        changes: Keywords = {"progress": False, "checkpoint_every": max(1, math.ceil(one.rounds / 4))}
        recipe = one.hurried
        bags = self.bags | {"fold_seed": self.seed + one.seed}  # a further bag is of other folds
        bag, timer = bagged(recipe, **bags), Timer(self.budget, lambda rounds: rounds * self._leaves(recipe))
        original = {name: getattr(bag, name) for name in ("progress", "checkpoint_every")}
        checkpoint = self.store.checkpoint(one.number)
        bag.set_params(**self.settings, **changes, seed=self.seed + one.seed, checkpoint=checkpoint)

        def report(round: int, history: "History") -> None:
            self._report(one, round, history[str(self.metric)][-1])
            timer(round, history)
            if round == _PACED and not one.rate and not one.seed and (rate := self._rate(recipe, timer)):
                one.rate = rate
                raise StopTraining(_SLOW)

        self._report(one, 0, math.nan)
        before = one.seconds
        try:
            with interruption_unannounced(UnmetConstraintWarning):  # every candidate is measured at the end
                bag.fit(self.data, resume=True, callback=report)
        except _FAILURES as why:
            one.finished, one.state, one.reason = True, "failed", f"{why}" or type(why).__name__
        else:
            if bag.stopped_ == _SLOW:
                shutil.rmtree(checkpoint, ignore_errors=True)
                one.seconds = before + timer.seconds
                self.store.write(one, self.budget.spent)  # a search that is killed now resumes with this rate
                self._train(one)
                return
            # A bag that is chosen, or trained on by its user, has no parameters of the search.
            bag.set_params(**original, checkpoint=None)
            one.bag, one.evaluation, one.microseconds = bag, bag.out_of_fold_, math.nan
            one.finished = bag.stopped_ not in (OVER, "interrupted")
            one.state = "complete" if one.finished else bag.stopped_
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

    def _rate(self, recipe: Ranker, timer: Timer) -> float:
        """Return the learning rate with which trees are complete in their share of the time; 0 if theirs will do."""
        if not self.hurries or not isinstance(recipe, TreeRanker):
            return 0.0
        rate = (recipe.get_params() | recipe.settings_for(self.data.n_docs))["learning_rate"]
        pace, left = max(median(timer.rounds), 1e-9), self.budget.left
        raised = round(min(ENOUGH * pace / max(self._share * left, 1e-9), FASTEST), 3)
        # Training anew takes the time of the preparation and of an end once more.
        anew = (left - (timer.first or 0.0) - self.budget.closing_with(0.0)) / pace
        return raised if raised > 1.1 * rate and raised * anew > rate * (_PACED + left / pace) else 0.0

    @property
    def _share(self) -> float:
        """The share of the time left that a recipe may take: on small data, so that there is a bag of each kind."""
        floor = {one.group for one in self.runs if one.floor}
        if all(one.floor for one in self.runs):
            return _SHARE
        over = {one.group for one in self.runs if one.finished or one.bag is not None}  # what failed needs no time
        return min(_SHARE, 1.0 / max(len(floor - over), 1))

    def _leaves(self, recipe: Ranker) -> float:
        """Return the number of leaves that a bag of trees gains in a round; 0 for nets."""
        if not isinstance(recipe, TreeRanker):
            return 0.0
        leaves: int = recipe.settings_for(self.data.n_docs)["leaves"]
        return float(leaves * self.bags["folds"])

    def _reserve(self) -> None:
        """Reserve time for the end of a training, as it was so far, and for blends of the bags that there are."""
        self.budget.closings = [(one.leaves, one.closing) for one in self.runs if one.closing > 0.0]
        self.budget.reserve(2.0 * max(len(self._trained), 2) * self.budget.closing)  # averages of all, and of libraries

    def _report(self, one: RecipeRun, round: int, value: float, ended: str = "") -> None:
        best = max(self.runs, key=lambda other: other.value)
        self.report(
            SearchState(
                recipe=one.name,
                done=sum(other.finished for other in self.runs),
                recipes=len(self.runs),
                round=round,
                value=value,
                ended=ended,
                leader=best.name if best.bag is not None else "",
                leads_with=best.value,
                spent=self.budget.spent,
                seconds=self.budget.seconds,
            )
        )
