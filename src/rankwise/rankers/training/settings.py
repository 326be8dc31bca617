"""Settings of a training, resolved and checked once per ``fit``: one object from there to the loop and its learners."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from rankwise import check
from rankwise.base.arrays import Array, Column, Keywords
from rankwise.check.parameters import check_declared
from rankwise.data.dataset import RankingDataset
from rankwise.language import user_code
from rankwise.metrics import Metric, metrics_for
from rankwise.objectives.base import (
    MORE_LABELS,
    GoalTotals,
    Objective,
    base_score,
    goal_totals,
    level_totals,
    with_scales,
)
from rankwise.objectives.prepared import Prepared
from rankwise.objectives.table import native
from rankwise.objectives.table import objective as find_objective
from rankwise.objectives.wrappers import goal
from rankwise.rankers import fit_arguments
from rankwise.rankers.training import parameters as training
from rankwise.rankers.training.constraints import BOUND, NONE, Constraints
from rankwise.rankers.training.loop import History
from rankwise.rankers.training.stopping import Stopping
from rankwise.rankers.training.validation import EvalSet, Validation

METRICS = ("ndcg@10",)
FREE = (
    *("rounds", "epochs", "patience", "min_rounds", "progress", "checkpoint"),
    *("threads", "device", "processes", "dask"),
)
"""Parameters that may change between a run and its continuation without making it another run."""
OF_ANY: Keywords = {"seed": 0, "threads": None, "metrics": METRICS}
"""Settings that any ranker may have as parameters, and what is used where it has none."""
_DERIVED = {
    *("unit", "rounds", "metrics", "constraints", "objective", "builtin"),
    *("resume", "callback", "parameters", "base_score"),
}
"""Fields that are not parameters of rankers as they are."""
_METHODS = ["nested", "recipe", "description", "saved", "read_model"]
Totals = Callable[[Prepared, Array | None], Any]
""":func:`goal_totals` or :func:`level_totals`."""
Callback = Callable[[int, History], None]
"""Called after every round with its number and the history so far; :class:`StopTraining` from it ends training."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingData:
    """What a training learns from and is measured on."""

    train: RankingDataset
    valid: RankingDataset | None = None
    hidden: bool = False
    """Whether the ranker must not see the validation data: the fold that a member of a bag is scored on."""
    older: Any = None
    """The trained ranker that is continued."""
    eval_sets: Mapping[str, EvalSet] = field(default_factory=dict)
    """Measured after every round, beside the validation data."""
    digest: str = ""
    """Identifies the data that are learned from, where ``train`` is only a sample of them."""
    documents: int | None = None
    """How many documents these have."""
    totals: Callable[[Objective], Sequence[GoalTotals]] | None = None
    """Returns the totals of goals on these."""

    @property
    def held_out(self) -> list[RankingDataset]:
        """Data sets that the learner scores: the validation data, and the others that are measured."""
        return [*([] if self.valid is None else [self.valid]), *(one.data for one in self.eval_sets.values())]


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of a training; :meth:`of` reads those of a ranker, and :meth:`for_data` settles what data decide."""

    unit: str = "rounds"
    """Name of rounds."""
    rounds: training.Rounds = 1
    patience: training.Patience = None
    min_rounds: training.MinRounds = 0
    smoothing: training.Smoothing | None = 1
    stop_on: training.StopOn = "first"
    metrics: tuple[Metric, ...] = ()
    debias: training.Debias = False
    constraints: Constraints = NONE
    objective: Objective | None = None
    """Ours, with the terms of constraints and the scales of goals; None for a library's own, or where there is none."""
    builtin: str | None = None
    """A library's own objective."""
    seed: training.Seed = 0
    threads: training.Threads = None
    checkpoint: training.Checkpoint = None
    checkpoint_every: training.CheckpointEvery = 1
    progress: training.Progress = None
    resume: bool = False
    callback: Callback | None = None
    parameters: Keywords = field(default_factory=dict)
    """Values of the ranker's parameters that the data decided."""
    base_score: float | None = None
    """The score of the base rate of all data, where the learner sees a part of them."""

    @classmethod
    def of(cls, ranker: Any, *, resume: bool = False, callback: Callback | None = None) -> Self:
        """Read and check the settings of a ranker; expressions are parsed here, once."""
        at_once = hasattr(type(ranker), "_fit")
        if at_once and (hidden := [name for name in ranker.own_parameters() if name in _METHODS]):
            what, hint = "a parameter must not hide a method that all rankers have", "call it otherwise"
            raise check.error(what, got=hidden[0], hint=hint)
        for one in (ranker, *(ranker.nested() or {}).values()):
            check_declared(one)
        if not at_once and not hasattr(ranker, ranker.unit):  # others are trained inside
            return cls(checkpoint=getattr(ranker, "checkpoint", None), resume=resume, callback=callback)
        objective: Any = getattr(ranker, "objective", None)
        settings: Keywords = {"progress": False}
        if not at_once:
            settings = cls.read(ranker) | {"rounds": getattr(ranker, ranker.unit)}
        if objective is not None or hasattr(type(ranker), "library"):  # a ranker of the user's may have none
            builtin = native(objective)
            settings |= {"builtin": builtin} if builtin is not None else {"objective": objective_of(ranker)}
        if not at_once and getattr(ranker, "constraints", None) is not None:
            settings["constraints"] = Constraints.of_setting(ranker.constraints)
        return cls(**settings, unit=ranker.unit, resume=resume, callback=callback)

    @classmethod
    def read(cls, ranker: object) -> Keywords:
        """Return the parameters of a ranker, or a reranker, that are settings as they are."""
        names = [one.name for one in fields(cls) if one.name not in _DERIVED]
        settings = {name: getattr(ranker, name) for name in names if hasattr(ranker, name)}
        return settings | {"debias": bool(settings.get("debias", False))}

    def exponential_labels(self) -> Collection[str | None]:
        """Return the names of the labels that count by 2^y in training; None for the main ones."""
        names: Collection[str | None] = (None,) if self.objective is None else goal.exponential_labels(self.objective)
        if names:  # constraints are learned by the same objective
            names = {*names, *(getattr(one, "label", None) for one in self.constraints.goals)}
        return names

    def for_data(self, ranker: Any, data: TrainingData) -> Self:
        """Settle what the data decide: metrics, parameters that are not set, terms and scales of the objective."""
        train = data.train
        if data.older is not None and train.init_scores is not None and not data.older.model_.schema.init_scores:
            hint = "leave one of them out: either says where training starts"
            raise check.error("training starts from init_scores or from init_model", got="both", hint=hint)
        if data.valid is None and self.constraints.goals:
            got, hint = f"constraints={ranker.constraints!r}", "pass validation data, or train a bag, whose members"
            raise check.error("constraints need validation data", got=got, hint=f"{hint} validate each other")
        parameters = ranker.settings_for(train.n_docs if data.documents is None else data.documents)
        objective = self.objective
        if objective is not None and self.constraints.goals:
            objective = self.constraints.objective(objective)
        if objective is not None and any(name.startswith(MORE_LABELS) for name in objective.reads):
            measure = data.totals or (lambda one: [self.totals(goal_totals, data, one)])
            objective = with_scales(objective, measure)
        metrics = metrics_of(ranker, data.valid)  # a wrong name is an error without validation data, too
        smoothing = parameters.get("smoothing", self.smoothing)
        return replace(self, metrics=metrics, smoothing=smoothing, objective=objective, parameters=parameters)

    @property
    def loss_compares(self) -> bool:
        """Whether the losses of different rounds compare."""
        return self.objective is None or not (self.constraints.goals or self.objective.held_fixed)

    def stopping(self, names: Sequence[str] = ()) -> Stopping:
        """Return the rule by which training ends; ``names`` are those of the metrics of the validation data."""
        rule: Keywords = {one.name: getattr(self, one.name) for one in fields(Stopping) if one.name != "metrics"}
        return Stopping(metrics=[name for name in names if not name.startswith(BOUND)], **rule)

    def validation(self, valid: RankingDataset) -> Validation:
        """Return the metrics of validation data."""
        return Validation(valid, self.metrics, debias=self.debias, constrained=tuple(self.constraints.goals))

    def columns(self, data: TrainingData, objective: Objective | None = None) -> Mapping[str, Column]:
        """Return the columns of documents that the objective reads; the older model's scores are ``init_scores``."""
        objective, train = objective or self.objective, data.train
        if objective is None:
            return {}
        if "init_scores" in objective.reads and train.init_scores is None and data.older is not None:
            train = train.with_(init_scores=data.older.predict(train.without_rows()))
        return fit_arguments.document_columns(train, objective, debias=self.debias)

    def start(self, data: TrainingData) -> float:
        """Return the score that training starts at: 0, or that of the base rate where scores are log odds."""
        objective = self.objective
        if objective is None or not objective.log_odds or data.older is not None or data.train.init_scores is not None:
            return 0.0
        if self.base_score is not None:
            return self.base_score
        return base_score([self.totals(level_totals, data, objective)])

    def totals(self, totals: Totals, data: TrainingData, objective: Objective) -> Any:
        """Return totals of the gradients of an objective on training data."""
        prepared = objective.prepare(data.train.labels, data.train.offsets, **self.columns(data, objective))
        return totals(prepared, data.train.weights)


_LOOP = ("rounds", "patience", "smoothing", "stop_on", "debias", "checkpoint", "checkpoint_every", "progress")
ONE_ROUND: Keywords = {name: getattr(TrainingSettings, name) for name in _LOOP}
"""Settings of the loop for a ranker without rounds, whose parameters of these names mean something else."""


def trains_at_once(ranker: object) -> bool:
    """Whether a ranker is one of the user's, which learns by a method ``_fit``, without rounds."""
    return hasattr(type(ranker), "_fit")


def objective_of(ranker: Any) -> Objective:
    """Return the objective of a ranker as an object; an error says how one of a library is written."""
    objective = ranker.objective
    of = next(iter((ranker.nested() or {}).values()), ranker)  # a bag has the library of its ranker
    library: Any = getattr(of, "library", None)
    if native(objective) is not None:
        raise check.error(
            f"objectives of libraries are for their trees, and {type(ranker).__name__} has none",
            got=repr(objective),
            hint="choose one of ours, such as lambdarank, or train a ranker of trees",
        )
    try:
        return find_objective(objective)
    except ValueError as unknown:
        text = str(objective)
        for builtin in getattr(library, "builtins", ()):  # a ranker of the user's may have another library
            rest = text[len(builtin) :]  # CatBoost's have options behind a colon
            if text.lower().startswith(builtin.lower()) and rest[:1] in ("", ":"):
                raise check.error(
                    f"an objective of {library.name} itself is written with native: before it",
                    got=repr(text),
                    hint=f"write native:{builtin}{rest}",
                ) from None
        raise _explained(ranker, "objective", unknown) from None


def metrics_of(ranker: Any, data: RankingDataset | None = None) -> tuple[Metric, ...]:
    """Return the metrics of a ranker, of some data where there are defaults; a blend has its first member's."""
    measured = getattr(ranker, "metrics", METRICS)
    if measured is None:
        return next((metrics_of(one, data) for one in (ranker.nested() or {}).values()), metrics_for(METRICS, data))
    try:
        return metrics_for(measured, data)
    except ValueError as unknown:
        raise _explained(ranker, "metrics", unknown) from None


def exponential_labels(ranker: Any) -> Collection[str | None]:
    """Return the names of the labels that count by 2^y in training a ranker, or those that it is made of."""
    if (nested := ranker.nested()) is not None:
        return set[str | None]().union(*map(exponential_labels, nested.values()))
    return TrainingSettings.of(ranker).exponential_labels()


def code_of(ranker: Any) -> dict[str, str]:
    """Return digests of the user's code that a ranker trains with, which identify kept work beside names."""
    metrics = metrics_of(ranker)
    if nested := ranker.nested():
        codes = user_code.digests(metrics)  # also those that the rankers know nothing of
        return {name: code for one in nested.values() for name, code in code_of(one).items()} | codes
    resolved: Keywords = {"class": type(ranker), "metrics": metrics}
    if "objective" in ranker.own_parameters() and native(ranker.objective) is None:
        resolved["objective"] = objective_of(ranker)
    return user_code.digests(ranker.get_params(deep=False) | resolved)


def _explained(ranker: Any, what: str, unknown: ValueError) -> ValueError:
    """Return the error of an unknown name; of a ranker that was read from a file it says more."""
    if not ranker.__sklearn_is_fitted__() or callable(getattr(ranker, what)):
        return unknown
    trained_with = {"objective": "an objective", "metrics": "metrics"}[what]
    hint = f"register it first: rw.register(…); or pass another with set_params({what}=…)"
    return check.error(f"this model was trained with {trained_with} not known here", got=str(unknown), hint=hint)
