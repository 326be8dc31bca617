"""AutoRanker: the best of a portfolio of rankers within a time budget."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self, Unpack

from numpy.typing import ArrayLike

from rankwise import Evaluation, Ranker, RankingDataset, bagged, check, moved
from rankwise import metric as find_metric
from rankwise.base import caches
from rankwise.base.arrays import Keywords
from rankwise.check.docstrings import documented
from rankwise.check.parameters import Above, AtLeast, OneOf, Option, Unset, check_declared
from rankwise.metrics import MetricLike
from rankwise.models import ModelInput, Schema
from rankwise.objectives.table import ObjectiveLike
from rankwise.quality import leakage
from rankwise.rankers import DelegatingRanker, check_fitted, expressions, fit_arguments, monotone
from rankwise.rankers.training import (
    Constraints,
    InterruptedWarning,
    constraints,
    exponential_labels,
    metrics_of,
    trains_at_once,
)
from rankwise.rankers.training import parameters as training
from rankwise.statistics import WEIGHTED, listed, varies
from rankwise.wings.tuning.auto import portfolio, store
from rankwise.wings.tuning.auto.budget import Budget
from rankwise.wings.tuning.auto.choice import BEST, FAST, averages, choose, keeping
from rankwise.wings.tuning.auto.leaderboard import DEFAULT, Entry, Leaderboard, measured, microseconds, ordered
from rankwise.wings.tuning.auto.live import showing
from rankwise.wings.tuning.auto.search import SEEDS, RecipeRun, Search


@moved.renamed("rw.AutoRanker")
@documented
@dataclass(eq=False, repr=False)
class AutoRanker(DelegatingRanker):
    """AutoML within a time budget: an average of many bags, or one forest of the best library.

    Training and validation queries are pooled. Each recipe, the default ranker first, is trained as a
    :class:`bag <bagged>`: members see all queries but one fold, stop together, and are averaged. With time left,
    recipes are trained again with other seeds, on other folds. The result is an average on one scale: kinds have equal
    weights, such as trees of one objective, linear rankers and nets, and so have bags within. Those that are surely
    worse than the best are left out: behind by more than two standard errors, or by more where there are many, on
    queries that members have not seen, paired by query. A bag is taken alone only where it is surely better.

    On small data, of fewer than 60,000 documents, five kinds are averaged in any case, each on several divisions of the
    queries: the default, the same with values within the query, a calibrated loss, a sum of losses and a linear ranker.
    What the portfolio has beside these, nets last, is added where the average is surely better with it, and no bag is
    taken alone.

    Ctrl-C ends the search and keeps the best so far; before the first round is complete it raises KeyboardInterrupt.
    How many recipes are complete is decided by the clock, and so is where the last training ends. With ``minutes=None``
    or ``max_recipes`` recipes are tried once; with ``minutes=None`` the same seed, data and threads give the same
    ranker, bit for bit.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=60, n_docs=10, seed=1)
    >>> recipes = [rw.LightGBMRanker(loss, rounds=20, leaves=4) for loss in ("xendcg", "lambdarank")]
    >>> model = rw.AutoRanker(None, recipes=recipes, folds=3, threads=1, progress=False).fit(data)
    >>> sorted(entry.recipe for entry in model.leaderboard_.entries), model.stopped_
    (['lightgbm average of 2 bags', 'lightgbm(lambdarank)', 'lightgbm(xendcg)'], 'recipes')
    >>> model.out_of_fold_.mean["ndcg@10"] == model.leaderboard_.chosen.mean
    True
    """

    minutes: Annotated[
        float | None,
        Above(0),
        """Minutes that all of it may take, blends and the leaderboard too, over all runs with the same ``checkpoint``.
        A training is stopped where the next round would come too late; None is no limit.""",
        Option(metavar="MINUTES", group="Training"),
    ] = 10.0
    metric: Annotated[
        MetricLike,
        """Metric that is maximised. The portfolio learns from the labels that it measures: with
        ``"ndcg(label=purchase)@10"`` its recipes are ``on(purchase, lambdarank)`` and so on.""",
        Option(metavar="METRIC", group="Training"),
    ] = "ndcg@10"
    _: KW_ONLY
    recipes: Annotated[
        Sequence[Ranker | str] | None,
        Unset("the portfolio"),
        """Rankers of trees or nets, or of the user's, not trained, or their expressions, in the order in which they are
        tried, instead of the portfolio. Their seed, threads, metrics, checkpoint and progress are set by the search,
        and their objectives are not: name the labels that they learn from.""",
        Option(metavar="RANKER", group="Training"),
    ] = None
    prefer: Annotated[
        str,
        OneOf((BEST, FAST)),
        """Whether the best ranker is taken, or one that is fast to score. ``"best"`` averages bags of all kinds:
        several models, slower to score. ``"fast"`` averages the forests of one library, which are one forest: fast to
        score, and :func:`rw.export <rankwise.wings.exports.export>` writes it. The leaderboard has what it costs.""",
        Option(group="Training"),
    ] = BEST
    max_recipes: Annotated[
        int | None, AtLeast(1), Unset("all"), "Number of recipes at most.", Option(metavar="N", group="Training")
    ] = None
    monotone_constraints: Annotated[
        Mapping[str, int] | Mapping[int, int] | Sequence[int] | None,
        """Features with which scores only rise (1) or only fall (−1). They are given by name, or number from 0:
        ``{"price": -1}``. Nets, which know no such constraints, are left out.""",
        Option("monotone", metavar="NAME=SIGN"),
    ] = None
    constraints: Annotated[
        Mapping[str, float] | None,
        """Goals that metrics must reach out of fold. They are those of any ranker, by metric,
        ``{"ndcg(label=purchase)@10": 0.62}``. Every recipe is trained for
        them, and bags and averages are chosen among those that keep them out of fold; if there is none, the nearest is,
        with a warning. Recipes that take none are left out.""",
        Option(name="constraint", metavar="METRIC=GOAL", group="Training"),
    ] = None
    folds: training.Folds = 5
    seed: Annotated[training.Seed, "Folds and all trainings are drawn by it."] = 0
    threads: training.Threads = None
    processes: training.Processes = 1
    dask: training.Dask = None
    checkpoint: Annotated[
        str | Path | None,
        """Folder that keeps trained bags. The same call resumes a search that was interrupted, and counts the time that
        it has spent; one of other data or settings is refused.""",
        Option("checkpoint", metavar="DIR", group="Running"),
    ] = None
    progress: Annotated[
        bool | None,
        Unset("live on terminals, lines elsewhere"),
        """Whether to show what is tried, what leads and how long is left, on standard error; None shows it live on a
        terminal, and elsewhere as a line for each training.""",
        Option(group="Running"),
    ] = None

    name = "auto"
    ranker_: Any = field(init=False)
    """The chosen ranker: a trained bag, or a blend of several."""
    leaderboard_: Leaderboard = field(init=False)
    """Every recipe with its value, its distance to the leader, and its cost."""

    @property
    def objective(self) -> ObjectiveLike:  # type: ignore[override]
        """The objective of the chosen ranker."""
        check_fitted(self)
        objective: ObjectiveLike = self.ranker_.objective
        return objective

    @property
    def metrics(self) -> MetricLike | Sequence[MetricLike]:  # type: ignore[override]
        """The metric that is maximised."""
        return (self.metric,)

    def fit(  # type: ignore[override]
        self,
        X: ModelInput,  # noqa: N803 (scikit-learn's names)
        y: ArrayLike | RankingDataset | None = None,
        *,
        valid: fit_arguments.ValidationInput = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **others: Unpack[fit_arguments.EvalSetArguments],
    ) -> Self:
        """Search on the pooled queries of training and validation data; arguments are those of any ranker."""
        if others:
            valid = fit_arguments.with_eval_set(valid, self, others)
        budget = Budget(self.minutes)
        check_declared(self)
        metric, seed, folds = find_metric(self.metric), int(self.seed), int(self.folds)  # not NumPy's
        exponential = {getattr(metric, "label", None)}  # of most recipes in the portfolio
        if self.recipes is not None:
            exponential = set().union(*map(exponential_labels, self._own()))
        beside: Keywords = {"qid": qid, "group": group, "sample_weight": sample_weight, "exponential": exponential}
        data, _ = fit_arguments.parts(X, y, valid=valid, pool=True, **beside)
        named, goal = metric, self.metric
        if (metric := metrics_of(self, data)[0]) != named:
            goal = str(metric)  # of rewards, where documents have them
        fit_arguments.reject_start(data, self)
        recipes, notes = self._recipes(data, getattr(metric, "label", None))
        identity = store.identity(data, recipes, metric, folds=folds, seed=seed)
        runs, recipes = self._runs(recipes), recipes[: self.max_recipes]
        if len(runs) > 1 and self.constraints is None:
            for number, one in enumerate(recipes, 1):
                why, hint = "a search averages bags, which may break constraints", "train a bag: rw.bagged(ranker)"
                with check.naming(f"recipe {number}"):
                    constraints.reject(one, why, hint)
        settings: Keywords = {"threads": self.threads, "metrics": (goal,)}
        with (
            leakage.checked(),
            caches.announce_compiling(self.progress),
            showing(self.progress, str(metric)) as report,
            store.open_store(self.checkpoint, identity) as folder,
        ):
            folder.read(runs, settings)
            budget.before = folder.spent
            search = Search(
                data=data,
                metric=metric,
                runs=runs,
                settings=settings,
                seed=seed,
                bags={"folds": self.folds, "processes": self.processes, "dask": self.dask},
                budget=budget,
                store=folder,
                report=report,
                hurries=self.recipes is None,
            )
            self.stopped_ = search.run()
            self._choose(data, runs, goal, budget, notes)
        if self.stopped_ == "interrupted":
            best = self.leaderboard_.chosen.recipe
            warnings.warn(f"interrupted: the best so far, {best}, is kept", InterruptedWarning, stacklevel=2)
        return self

    def _runs(self, recipes: Sequence[Ranker]) -> list[RecipeRun]:
        """Return one run for each recipe, and within a time limit further ones with other seeds and folds."""
        laps = 1 if self.minutes is None or self.max_recipes is not None else SEEDS
        groups = portfolio.groups_of(recipes)
        # The user's are all averaged; of the portfolio's those that are listed once are to prove what they add.
        floor = {*groups} if self.recipes is not None else portfolio.floor(recipes)
        distinct = [recipes[group] for group in dict.fromkeys(groups)]
        listed = [(one, 0) for one in recipes[: self.max_recipes]]
        listed += [(one, lap) for lap in range(1, laps) for one in distinct]
        rankers = [one for one, _ in listed]
        columns = zip(
            listed, portfolio.names(rankers), portfolio.groups_of(rankers), portfolio.repeats(rankers), strict=True
        )
        return [
            RecipeRun(number=number, name=name, recipe=one, group=group, seed=seed, lap=lap, floor=group in floor)
            for number, ((one, lap), name, group, seed) in enumerate(columns)
        ]

    def _recipes(self, data: RankingDataset, label: str | None) -> tuple[list[Ranker], list[str]]:
        """Return the recipes, which learn from the labels of this name, and notes about those that are left out."""
        recipes, notes = portfolio.portfolio(data.n_docs) if self.recipes is None else (self._own(), [])
        if self.recipes is None:
            recipes, left_out = portfolio.suited(recipes, data, label, one_forest=self.prefer == FAST)
            notes += left_out
        if self.monotone_constraints is not None:
            monotone.by_column(self.monotone_constraints, Schema.of(data))  # an error comes before the first training
            strict = self.recipes is not None
            recipes, left_out = portfolio.constrained(recipes, self.monotone_constraints, strict=strict)
            notes += left_out
        if self.constraints is not None:
            Constraints.of_setting(self.constraints)  # an error comes before the first training
            recipes, left_out = portfolio.with_goals(recipes, self.constraints)
            notes += left_out
        if label is not None:
            data.labels_of(label)  # an error if there are none
            if self.recipes is None:
                recipes, left_out = portfolio.learning(recipes, label)
            else:
                left_out = portfolio.learning_others(recipes, label)
            notes += left_out
        recipes, left_out = portfolio.taking(recipes, data)
        if self.recipes is None:
            portfolio.check_varied(data, label)  # some losses would learn levels, or noise
        return recipes, [*notes, *left_out]

    def _own(self) -> list[Ranker]:
        """Return the user's recipes."""
        if not isinstance(self.recipes, Sequence) or isinstance(self.recipes, str) or not self.recipes:
            hint = "pass rankers that are not trained yet: recipes=[rw.LightGBMRanker('xendcg'), …]"
            raise check.error("recipes must be a list of rankers", got=repr(self.recipes), hint=hint)
        recipes: list[Ranker] = []
        for number, recipe in enumerate(self.recipes):
            with check.naming(f"recipe {number + 1}"):
                one = expressions.ranker(recipe) if isinstance(recipe, str) else recipe
                recipes.append(one)
                bagged(one, self.folds).check_settings()
                checkpoint = None if trains_at_once(one) else getattr(one, "checkpoint", None)
                if getattr(one, "debias", False):
                    hint = "train a bag, rw.bagged(ranker), or leave debias out"
                    what = "a search compares recipes on judged documents, and not on clicks"
                    raise check.error(what, got="debias=True", hint=hint)
                if checkpoint is not None:
                    hint = "leave it out, and set checkpoint= of the AutoRanker"
                    raise check.error(
                        "a search keeps checkpoints itself", got=f"checkpoint={str(checkpoint)!r}", hint=hint
                    )
        return recipes

    def _cut(self, runs: Sequence[RecipeRun]) -> set[int]:
        """Return the bags that had no time to be complete, where others had: on small data all but those nearly so."""
        complete = {one.group for one in runs if one.finished and one.bag is not None}
        proven = any(not one.floor for one in runs) and bool(complete)  # many bags are averaged, or will be
        return {
            one.number
            for one in runs
            if not one.finished and ((proven and not one.nearly) or (one.seed and one.group in complete))
        }

    def _choose(
        self, data: RankingDataset, runs: Sequence[RecipeRun], goal: MetricLike, budget: Budget, notes: Sequence[str]
    ) -> None:
        """Choose the best, and set the leaderboard."""
        metric = str(find_metric(goal))
        candidates = {one.number: one.candidate(metric) for one in runs if one.bag is not None}
        if not candidates:
            reason = next((one.reason for one in runs if one.reason), "")
            raise check.error("no recipe could be trained", got=reason.removesuffix("."))
        budget.release()
        bags, cut = list(candidates.values()), self._cut(runs)
        whole = [bag for number, bag in candidates.items() if number not in cut]  # a part of one is best by luck
        blends, why = averages(whole, data, goal, budget)
        alone = self.recipes is not None or data.n_docs >= portfolio.MIDDLE
        able, kept = keeping([*whole, *blends], data, Constraints.of_setting(self.constraints))
        chosen, leader, baseline = choose(able, self.prefer, alone=alone), max(able, key=lambda one: one.mean), bags[0]
        weights: dict[int, float] = {}
        for blend in blends[:1]:
            members = zip(blend.ranker.members_, blend.ranker.weights_.values, strict=True)
            weights = {id(bag): weight for bag, weight in members}
        entries = []
        for one in runs:
            candidate = candidates.get(one.number)
            if candidate is None and one.lap and not one.reason:
                continue  # a further seed that was not trained is nothing that is missing
            numbers: Keywords = {}
            if candidate is not None:
                unweighted = 0.0 if weights else math.nan
                numbers = {"weight": weights.get(id(candidate.ranker), unweighted), "microseconds": one.microseconds}
                numbers |= {"rounds": candidate.ranker.best_round_, **measured(candidate, leader, baseline)}
            state: Keywords = {"recipe": one.name, "state": one.state, "seconds": one.seconds, "reason": one.reason}
            entries.append(Entry(**state, **numbers, chosen=candidate is chosen, expression=repr(one.hurried)))
        usual = self.recipes is None and getattr(find_metric(self.metric), "label", None) is None
        hurried = [f"{one.name} at {one.rate:g}" for one in runs if one.rate and one.bag is not None]
        for blend in blends:
            value: Keywords = {**measured(blend, leader, baseline), "microseconds": microseconds(blend.ranker, data)}
            entries.append(Entry(recipe=blend.name, state="complete", **value, blend=True, chosen=blend is chosen))
        stopped = self.stopped_
        if stopped == "interrupted":
            chosen.ranker.stopped_ = stopped
        self._become(chosen.ranker)
        self.stopped_ = stopped
        weighted = WEIGHTED if varies(leader.evaluation.weights) else ""
        raised = f"Learning rates were raised, for the time is short: {listed(hurried)}." if hurried else ""
        self.leaderboard_ = Leaderboard(
            metric=metric,
            entries=ordered(entries),
            stopped=stopped,
            seconds=budget.spent,
            queries=leader.evaluation.scored[metric],
            baseline=DEFAULT if usual and runs[0].bag is not None else baseline.name,
            notes=tuple(filter(None, (weighted, budget.exceeded(), why, kept, raised, *notes))),
        )

    # Delegation to the chosen ranker.

    @property
    def out_of_fold_(self) -> Evaluation:
        """Its values on queries that members have not seen; optimistically biased, being the choice of several."""
        check_fitted(self)
        evaluation: Evaluation = self.ranker_.out_of_fold_
        return evaluation
