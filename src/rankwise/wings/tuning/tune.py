"""The search: suggest parameters, train on the training data, measure on the validation data, report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import numpy as np

from rankwise import RankingDataset, Stream, check, moved
from rankwise import metric as find_metric
from rankwise.base import caches
from rankwise.base.progress import Update, bar
from rankwise.check.docstrings import plain_signature
from rankwise.check.parameters import Above, AtLeast, OneOf, Option, Unset
from rankwise.metrics import MetricLike
from rankwise.objectives.table import ObjectiveLike
from rankwise.quality import leakage, warn_shared
from rankwise.rankers import expressions, fit_arguments
from rankwise.rankers.table import ranker_class
from rankwise.rankers.training import History, interruption_unannounced
from rankwise.wings.tuning import spaces
from rankwise.wings.tuning.auto.budget import clock
from rankwise.wings.tuning.result import COMPLETE, Trial, Tuning
from rankwise.wings.tuning.search import DEFAULT, SearchProblem, checked_search
from rankwise.wings.tuning.study import ended_trials, mend, open_study, process

if TYPE_CHECKING:
    from optuna import Study
    from optuna import Trial as OptunaTrial

TRIALS = 50
_ROUNDS = 10  # between reports, at the middle of the searched learning rates


@moved.renamed("rw.tune")
@plain_signature
def tune(
    train: RankingDataset,
    valid: RankingDataset | None = None,
    objective: ObjectiveLike | None = None,
    *,
    ranker: str = "lightgbm",
    folds: Annotated[
        int | None, AtLeast(2), "Number of members of a bag, measured on queries that they have not seen.",
        Option(metavar="N"),
    ] = None,
    metric: Annotated[MetricLike, "What is maximised on the validation data.", Option(metavar="METRIC")] = "ndcg@10",
    trials: Annotated[int | None, AtLeast(1), Unset("50"), "Number of trials."] = None,
    minutes: Annotated[float | None, Above(0), "Minutes of training.", Option(metavar="MINUTES")] = None,
    space: Annotated[str, OneOf(spaces.SPACES, "space"), "Ranges that are searched."] = "default",
    search: Annotated[
        Mapping[str, spaces.DimensionLike] | None,
        "A range to search: 'leaves=whole(7, 63)', 'stochastic.scale=log(0.05, 1)'.", Option(metavar="NAME=RANGE"),
    ] = None,
    fixed: Mapping[str, object] | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    prune: Annotated[bool, "Whether trials that fall behind end early."] = True,
    seed: Annotated[int, AtLeast(0), "Seed of every draw.", Option(group="Running")] = 0,
    threads: Annotated[
        int | None, AtLeast(1), Unset("one for each core"), "Number of threads.", Option(group="Running")
    ] = None,
    progress: Annotated[bool | None, "Whether to show progress.", Option(group="Running")] = None,
) -> Tuning:  # fmt: skip
    """Search for the parameters of a ranker and its objective that rank the validation data best.

    Every trial trains on ``train`` and is judged by its best round on ``valid``; test data have no place here. The
    search ends after ``trials`` trials (50 by default) or ``minutes`` of training, whichever comes first,
    counted over all runs of a study. Trials that fall behind the median are ended early unless ``prune=False``. The
    objective is ``lambdarank`` by default, of the labels that the metric measures: ``on(purchase, lambdarank)`` for
    ``"ndcg(label=purchase)@10"``.

    With ``folds=5`` every trial is a :class:`bag <rankwise.rankers.ensembles.bagged.bagged>` of five such rankers over
    the queries of both, judged by the best round of its out-of-fold curve; ``valid`` may then be left out.

    ``ranker`` is the name of one of ours, or of one's own that is registered (:func:`rankwise.register`), whose
    ``search_space`` is then the default. As an expression, ``"bagged(lightgbm(xendcg, rounds=300), folds=5)"``, it also
    has the objective, fixed parameters and folds. ``space`` is ``"default"``, ``"kang2024"`` (the ranges of that paper)
    or ``"none"``; ``search`` adds ranges or replaces them, ``{"leaves": "whole(7, 63)", "stochastic.scale":
    "log(0.05, 1)"}``, and ``fixed`` sets parameters. The weight of a term in a sum is called by the label of its goal,
    or by its name: ``"weight.purchase"`` and ``"weight.lambdarank"`` of ``"lambdarank + 0.7*on(purchase, xendcg)"``.
    ``checkpoint`` is a file that keeps every trial; ``resume=True`` resumes it, and a search that was interrupted ends
    as it would have ended (with ``minutes``, as far as the clock allows).

    >>> import rankwise as rw
    >>> train, valid = rw.split(rw.synthetic(n_queries=60, n_docs=20, seed=1), (0.7, 0.3), seed=1)
    >>> tuning = rw.tune(
    ...     train, valid, "xendcg", trials=3, space="none", search={"leaves": "whole(3, 15)"},
    ...     fixed={"rounds": 10}, threads=1,
    ... )
    >>> ranker = tuning.ranker(threads=1).fit(train, valid)
    >>> max(ranker.history_["ndcg@10"]) == tuning.value
    True
    """
    optuna = check.optional("optuna", "tune")
    if isinstance(ranker, str) and "(" in ranker:
        ranker, objective, folds, fixed = _from_expression(ranker, objective, folds, fixed or {})
    if objective is None:
        label = getattr(find_metric(metric), "label", None)
        has = "objective" in ranker_class(ranker).own_parameters() if isinstance(ranker, str) else False
        objective = DEFAULT if label is None or not has else f"on({label}, {DEFAULT})"
    if (fixed or {}).get("constraints"):
        hint = "tune without constraints, and set them for the best parameters"
        raise check.error("a search compares trials by one metric", got="constraints", hint=hint)
    checked = checked_search(
        train, valid, objective, ranker, metric, space, search or {}, fixed or {}, seed, threads, folds
    )
    if valid is not None:
        warn_shared(train=train, valid=fit_arguments.aligned(valid, train))
    limit = None if trials is None else check.integer("trials", trials, least=1)
    if minutes is not None:
        check.number("minutes", minutes, least=0.0, open_ends=True)
    elif limit is None:
        limit = TRIALS
    path = None if checkpoint is None else Path(checkpoint)
    with open_study(optuna, path, checked, resume=resume) as opened_study:
        opened_study.pruner = optuna.pruners.NopPruner()
        if prune:
            opened_study.pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=2, n_min_trials=3)
        columns = ("bar", "text", "elapsed", "left")
        shown = bar(progress, 1.0, "the first trial", columns=columns, transient=True)
        with caches.announce_compiling(progress), shown as update:
            stopped = _search(optuna, opened_study, checked, limit, minutes, update)
        ended = ended_trials(optuna, opened_study, checked)
    result = Tuning(
        ranker_name=ranker,
        metric=checked.measured,
        space=checked.ranges,
        trials=ended,
        seed=seed,
        stopped=stopped,
        checkpoint=path,
        folds=folds,
    )
    if stopped == "interrupted" and not any(trial.state == COMPLETE for trial in ended):
        raise KeyboardInterrupt
    _ = result.best  # a search without a single complete trial is an error
    return result


def _from_expression(
    text: str, objective: ObjectiveLike | None, folds: int | None, fixed: Mapping[str, object]
) -> tuple[str, ObjectiveLike | None, int | None, Mapping[str, object]]:
    """Return the name, objective, folds and fixed parameters of a ranker's expression; arguments go before it."""
    expression = expressions.read(text)
    is_bag = expression.is_bag and not expression.settings.keys() - {"folds"}
    if expression.members and not is_bag:
        hint = "`set ranker='lightgbm(xendcg)'`, or 'bagged(lightgbm(xendcg), folds=5)'"
        raise check.error("a search is of one ranker, or of bags of one", got=repr(text), hint=hint)
    single = expression.singles()[0]
    folds = expression.settings.get("folds", 5) if is_bag and folds is None else folds
    chosen = single.objective or objective if objective in (None, DEFAULT) else objective
    return single.name, chosen, folds, {**single.settings, **fixed}


def _search(
    optuna: ModuleType,
    study: "Study",
    search: SearchProblem,
    limit: int | None,
    minutes: float | None,
    update: Update | None,
) -> str:
    """Run trials until the limit or the time is reached; return the reason to stop."""
    states = optuna.trial.TrialState
    mend(optuna, study)
    ended_by = ""
    while True:
        ended = ended_trials(optuna, study, search)
        spent = sum(trial.seconds for trial in ended)
        if update is not None:
            shares = [len(ended) / limit] if limit else []
            shares += [spent / (60.0 * minutes)] if minutes else []
            update(min(max(shares), 1.0), _progress(ended, search.measured, limit))
        if limit is not None and len(ended) >= limit:
            return "trials"
        left = np.inf if minutes is None else 60.0 * minutes - spent
        complete = any(trial.state == COMPLETE for trial in ended)
        if ended_by or (left <= 0 and (complete or len(ended) >= TRIALS)):
            return "minutes"
        # Seeded by how many trials ended before: a search that is resumed suggests the same.
        key = int(Stream(search.seed, len(ended)).key >> np.uint64(33))
        study.sampler = optuna.samplers.TPESampler(seed=key, multivariate=True, n_startup_trials=10)
        if not ended and not study.get_trials(deepcopy=False, states=(states.WAITING,)):
            study.enqueue_trial(search.start())
        # The first complete trial is never ended early: without it there would be no result.
        deadline = clock() + left if complete else np.inf
        trial = study.ask()
        trial.set_user_attr("process", process())
        try:
            ended_by = _run(optuna, study, trial, search, deadline)
        except KeyboardInterrupt:
            ended_by = "interrupted"
        if ended_by == "interrupted":
            study.tell(trial, state=states.FAIL, skip_if_finished=True)
            return ended_by


def _run(optuna: ModuleType, study: "Study", trial: "OptunaTrial", search: SearchProblem, deadline: float) -> str:
    """Train with the parameters of a trial and report to the study; return why the search ends, or nothing."""
    parameters = search.parameters(spaces.suggest(search.ranges, trial))
    ranker = search.trial_ranker(parameters)
    pace = getattr(ranker, "learning_rate", None) or 1.0  # None: a preset's, in every trial
    rate = search.ranges.get("learning_rate")
    middle = rate.middle() if isinstance(rate, spaces.Range) else pace
    callback = TrialCallback(trial, search.measured, rate=pace, middle=middle, deadline=deadline)
    expressions.configure(ranker, metrics=(search.metric,), threads=search.threads, progress=False)
    try:
        with interruption_unannounced(), leakage.checked():
            ranker.fit(search.train, valid=search.valid, callback=callback)
    except optuna.TrialPruned as why:
        trial.set_user_attr("reason", str(why))
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        return "minutes" if callback.out_of_time else ""
    except ValueError as why:  # these parameters cannot be trained; others may
        trial.set_user_attr("reason", str(why))
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return ""
    if ranker.stopped_ == "interrupted":
        return "interrupted"
    trial.set_user_attr("best_round", ranker.best_round_)
    study.tell(trial, ranker.history_[search.measured][ranker.best_round_ - 1])
    return ""


class TrialCallback:
    """Called after every round of a trial: reports its metric, and ends it when it falls behind or time is up.

    Trials are compared at the same distance, rounds times learning rate: at the same round a slow learner would always
    seem to be behind a fast one, and be ended before it could overtake.
    """

    def __init__(self, trial: "OptunaTrial", metric: str, *, rate: float, middle: float, deadline: float) -> None:
        self.trial, self.rate, self.unit, self.deadline = trial, rate, _ROUNDS * middle, deadline
        self.metric, self.step, self.best = metric, 0, -np.inf
        self.last: float | None = None
        self.out_of_time = False
        """Whether the trial was ended since another round would have come too late."""

    def __call__(self, round: int, history: History) -> None:
        """Look at the metric after a round; raises Optuna's TrialPruned to end the trial."""
        import optuna

        self.best = max(self.best, history[self.metric][-1])
        step = int(round * self.rate / self.unit + 1e-9)
        if step > self.step:
            self.step = step
            self.trial.report(self.best, step)
            if self.trial.should_prune():
                raise optuna.TrialPruned(f"behind the others after round {round}")
        now = clock()
        takes, self.last = 0.0 if self.last is None else now - self.last, now
        if now + takes > self.deadline:
            self.out_of_time = True
            raise optuna.TrialPruned(f"out of time after round {round}")


def _progress(trials: Sequence[Trial], metric: str, limit: int | None) -> str:
    """Return the text beside the bar: the number of trials, and the best of them."""
    best = max((trial for trial in trials if trial.state == COMPLETE), key=lambda trial: trial.value or 0, default=None)
    text = f"{len(trials)} trials" + (f" of {limit}" if limit else "")
    return text if best is None else f"{text}, {metric} {best.value:.4f} in trial {best.number}"
