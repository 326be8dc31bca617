"""The training of rankers without rounds: ``fit`` around a method that learns."""

import contextlib
import copy
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Never, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check, user_code
from rankwise.arrays import Array, Json, Keywords
from rankwise.data import leakage
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import Metric, MetricLike, metrics_for
from rankwise.models import attributes, model_card
from rankwise.models.schema import Documents, Schema
from rankwise.objectives.base import Objective
from rankwise.objectives.table import ObjectiveLike, native
from rankwise.objectives.table import objective as find_objective
from rankwise.objectives.wrappers.on import exponential_labels
from rankwise.rankers import inputs, table
from rankwise.rankers.sklearn import Estimator
from rankwise.rankers.training.loop import Alone, State
from rankwise.rankers.training.session import Watch
from rankwise.rankers.training.stopping import Exhausted, NothingLearnedError, StopTraining
from rankwise.rankers.training.validation import Measure, checked_names, measure_of
from rankwise.stream import Stream

if TYPE_CHECKING:
    from rankwise.rankers.table import Recipe
    from rankwise.rankers.training.loop import Learner


OF_TRAINING: Keywords = {
    "rounds": 1,
    "patience": None,
    "smoothing": 1,
    "stop_on": "first",
    "debias": False,
    "checkpoint": None,
    "checkpoint_every": 1,
    "progress": None,
}
"""Settings of the loop that trains a ranker round by round, as it trains one without rounds."""
METRICS = ("ndcg@10",)
OF_ANY: Keywords = {"seed": 0, "threads": None, "metrics": METRICS}
"""Settings that any ranker may have as parameters, and what is used where it has none."""


class FitOptions(TypedDict):
    """Arguments of ``fit`` beside the data."""

    resume: bool
    measure: Mapping[str, RankingDataset | Measure]
    watch: Watch | None


class TrainedAtOnce(Estimator):
    """The frame around ``_fit`` of a ranker without rounds: training, a learner of one round for bags, files."""

    unit: ClassVar[str] = "rounds"
    """What rounds are called, and the parameter that says how many there are, where a ranker learns in rounds."""
    search_space: ClassVar[Mapping[str, Any]] = {}
    """Parameter -> range, as :func:`rankwise.tune` takes it in ``search``; or a value, which is fixed."""
    native_search_space: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Objective of a library itself -> further parameters of it to search, as in ``search_space``."""
    portfolio: ClassVar[Sequence["Recipe"]] = ()
    """Recipes of :class:`rankwise.AutoRanker`."""
    extra: ClassVar[str] = ""
    """The extra of rankwise that installs its libraries; the core installs those of some."""
    modules: ClassVar[Sequence[str]] = ()
    """The modules of that extra that it imports."""
    packages: ClassVar[Sequence[str]] = ()
    """Names under which its library may be installed; the version of the first that is stands in results."""
    first_round_pace: ClassVar[float] = 1.0
    """The time of a first round relative to LightGBM's, where none was measured."""

    name: str = ""
    """What the ranker is called in files and on the command line."""
    objective: ObjectiveLike
    metrics: MetricLike | Sequence[MetricLike]

    history_: dict[str, list[float]]
    """``loss``: of the training queries before each round, or during each epoch; that of LambdaRank and its like does
    not compare between rounds (see ``loss_compares``). A metric: of the validation queries after it."""
    scales_: Mapping[str, float] = MappingProxyType({})
    """The scale of each term of an objective with several goals: see :class:`rankwise.on`."""
    best_round_: int
    """After how many rounds of this fit the first metric was best; the model holds these rounds."""
    stopped_: str
    """Why training ended: ``rounds`` or ``epochs``, ``patience``, ``no split``, ``converged`` or ``interrupted``."""
    trained_on_: Mapping[str, Any] = MappingProxyType({})
    """Facts about the training data: ``queries``, ``documents``, ``features``, ``digest``, the ``command`` of rankwise;
    of a model that was loaded, the ``versions`` that it was trained with."""
    trained_queries_: NDArray[np.uint64] | None = None
    """Sorted 64-bit hashes of the training queries, which its folder holds too: see :meth:`seen_in_training`."""

    def fit(
        self,
        X: Documents,  # noqa: N803 (scikit-learn's names)
        y: ArrayLike | RankingDataset | None = None,
        *,
        valid: inputs.Validation = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        resume: bool = False,
        measure: Mapping[str, RankingDataset | Measure] | None = None,
        watch: Watch | None = None,
        **others: Unpack[inputs.EvalSet],
    ) -> Self:
        """Train on a RankingDataset, ``fit(train, valid)``, or in scikit-learn's style, ``fit(X, y, qid=qid)``.

        Validation data are ``valid``, or ``eval_set=[(X, y)]`` with ``eval_group`` or ``eval_qid`` as LightGBM and
        XGBoost have it. Metrics of the validation data, and of the data sets in ``measure``, are in ``history_``
        afterwards. Rankers that are made of others pass ``watch`` to every training, keep ``checkpoint`` folders by
        which ``resume=True`` resumes, and raise KeyboardInterrupt after Ctrl-C.
        """
        valid = self._with_eval_set(valid, others)
        checked_names(measure or {})
        train, held_out = self._fit_inputs(X, y, valid=valid, qid=qid, group=group, sample_weight=sample_weight)
        inputs.reject_start(train, self)
        self._fit_on(train, held_out, resume=resume, measure=measure or {}, watch=watch)
        return self

    @abstractmethod
    def predict(self, data: Documents) -> Array:
        """Return one score per document."""

    def seen_in_training(self, queries: RankingDataset | ArrayLike) -> NDArray[np.bool_] | None:
        """Return which queries the model was trained on, also by its members, its teacher, and what it continues.

        Queries of a data set are compared by the features of their documents; ids of queries of a click log with those
        of the targets (:func:`rankwise.clicks.targets`) that it was trained on. Validation data are not training data,
        unless a bag pooled them. None where that is unknown: models of other libraries or older versions, checkpoints,
        and training data on disk or on a cluster.
        """
        if isinstance(queries, RankingDataset):
            queries = self._schema.align(queries)
        return leakage.seen(self.trained_queries_, queries)

    def _with_eval_set(self, valid: inputs.Validation, others: inputs.EvalSet) -> inputs.Validation:
        """Return the validation data of ``fit``, and reject arguments that it does not have."""
        self._reject(
            "fit", {name: value for name, value in others.items() if name not in inputs.EvalSet.__annotations__}
        )
        return inputs.with_eval_set(valid, **others)

    def _fit_inputs(
        self, data: Documents, labels: ArrayLike | RankingDataset | None, **columns: Any
    ) -> tuple[RankingDataset, RankingDataset | None]:
        """Return training and validation data from the arguments of ``fit``."""
        return inputs.parts(data, labels, **columns, exponential=self._exponential_labels())

    def _exponential_labels(self) -> Collection[str | None]:
        """Return the names of the labels that count by 2^y in training; None for the main ones."""
        objective = getattr(self, "objective", None)
        return (None,) if objective is None or native(objective) is not None else exponential_labels(self._objective())

    def _fit_on(self, train: RankingDataset, valid: RankingDataset | None, **options: Unpack[FitOptions]) -> None:
        """Train by :meth:`_fit`, and measure."""
        if options["resume"]:
            hint = "leave `resume` out: it is trained at once"
            raise check.error(f"a {type(self).__name__} has no checkpoint to resume from", hint=hint)
        self._metrics()  # a wrong name is an error before training
        self.history_, self.best_round_, self.stopped_ = {}, 1, "complete"
        self._fit(train, valid)
        self._remember(train)
        self._measure_after(train, {**({} if valid is None else {"": valid}), **options["measure"]})
        if options["watch"] is not None:
            try:
                options["watch"](1, self.history_)
            except StopTraining as stop:
                self.stopped_ = stop.reason

    def _measure_after(self, train: RankingDataset, measure: Mapping[str, RankingDataset | Measure]) -> None:
        """Add metrics of other data to the history of a ranker that is trained."""
        for name, data in measure.items():
            measured = measure_of(data, lambda one: inputs.aligned(one, train), self._metrics, debias=False)
            values = measured.function(self.predict(measured.data))
            self.history_ |= {f"{name} {key}".lstrip(): [float(value)] for key, value in values.items()}

    def _fit(self, train: RankingDataset, valid: RankingDataset | None) -> None:
        """Learn: the part of :meth:`fit` that a ranker of one's own defines."""
        raise NotImplementedError(f"{type(self).__name__} defines no _fit(train, valid)")

    def _objective(self) -> Objective:
        """Return the objective as an object."""
        with self._explained("objective", self.objective):
            return find_objective(self.objective)

    def _code(self) -> dict[str, str]:
        """Return digests of the user's code that it trains with, which identify kept work beside names."""
        resolved: Keywords = {"class": type(self), "metrics": self._metrics()}
        if "objective" in self.own_parameters() and native(self.objective) is None:
            resolved["objective"] = self._objective()
        return user_code.digests(self.get_params(deep=False) | resolved)

    @contextlib.contextmanager
    def _explained(self, what: str, value: object) -> Iterator[None]:
        """Explain an unknown name where this ranker was read from a file."""
        try:
            yield
        except ValueError as unknown:
            if not self.__sklearn_is_fitted__() or callable(value):
                raise
            trained_with = {"objective": "an objective", "metrics": "metrics"}[what]
            hint = f"register it first: rw.register(…); or pass another with set_params({what}=…)"
            sentence = f"this model was trained with {trained_with} not known here"
            raise check.error(sentence, got=str(unknown), hint=hint) from None

    def _metrics(self, data: RankingDataset | None = None) -> tuple[Metric, ...]:
        """Return the metrics, as those of some data where there are defaults."""
        measured = getattr(self, "metrics", METRICS)
        with self._explained("metrics", measured):
            return metrics_for(measured, data)

    def _remember(self, data: RankingDataset, older: "TrainedAtOnce | None" = None, **drawn_from: Any) -> None:
        self._schema, self.trained_on_ = Schema.of(data), model_card.training_data(data, **drawn_from)
        is_sample = drawn_from.get("documents") is not None  # the other queries lie on a cluster
        hashes = None if is_sample else leakage.trained_hashes(data)
        self.trained_queries_ = leakage.union(hashes, *([] if older is None else [older.trained_queries_]))

    def check_data(self, train: RankingDataset) -> None:
        """Raise what training on these data would raise for their columns, as far as that is known beforehand."""

    def settings_for(self, documents: int) -> Keywords:
        """Return what training on so many documents uses for parameters that the data decide; here, there are none."""
        return {}

    def _with(self, settings: Keywords) -> Self:
        """Return the same ranker with these parameters set."""
        if not settings:
            return self
        ranker = copy.copy(self)
        ranker.native = dict(self.native)
        return ranker.set_params(**settings)

    def _configure(self, **settings: Any) -> Self:
        """Set those of these settings that are its parameters, and in any case the metrics."""
        parameters = self.own_parameters()
        if "metrics" in settings and "metrics" not in parameters:
            self.metrics = settings["metrics"]
        return self.set_params(**{name: value for name, value in settings.items() if name in parameters})

    def _files(self) -> dict[str, bytes]:
        return attributes.files(self)

    def _restore(self, description: Json, files: dict[str, bytes]) -> None:
        attributes.restore(self, files)

    # For bags, which train members round by round: one round.

    def _learner(
        self, train: RankingDataset, valid: RankingDataset | None, older: Never, measured: Sequence[RankingDataset] = ()
    ) -> "Learner[Any]":
        return OneRound(self, train, [*([] if valid is None else [valid]), *measured])

    def _keep(self, model: Any, state: State) -> None:
        """Keep the model of the best round: it is here already."""

    def _verify(self, files: Mapping[str, bytes], n_features: int) -> None:
        """Reject files of a model of so many features that must not be read; here, none."""

    def _rounds(self) -> int:
        return 1

    def _made_of(self, rounds: int) -> Json:
        """Return the ranker's own entries in the description of a model of so many rounds."""
        return {}


def trains_at_once(ranker: object) -> bool:
    """Whether a ranker learns by a ``_fit`` of its own, without rounds."""
    if not isinstance(ranker, TrainedAtOnce) or type(ranker)._fit is TrainedAtOnce._fit:
        return False
    return ranker.name not in table.ENSEMBLES  # a feature is one of ours


class OneRound:
    """The training of a ranker without rounds, as one round."""

    processes = Alone()

    def __init__(self, ranker: Any, train: RankingDataset, measured: Sequence[RankingDataset]) -> None:
        self.ranker, self.train, self.measured = ranker, train, measured

    def round(self, stream: Stream, weights: Sequence[float] = ()) -> None:
        """Train the ranker; there is no second round."""
        if stream.round:
            raise Exhausted("complete", lambda: NothingLearnedError("a ranker without rounds has one"))
        self.ranker.fit(self.train)

    def scores(self, number: int) -> Array:
        """Score a data set that is measured, by its number."""
        scores: Array = self.ranker.predict(self.measured[number])
        return scores

    def snapshot(self) -> bool:
        """Keep the model as it is."""
        return True

    def restore(self, best: object) -> None:
        """Make the model what it was: it has not changed."""

    def model(self) -> None:
        """Return the model, which is the ranker itself."""

    def files(self, best: object) -> dict[str, bytes]:
        """Return what a checkpoint holds."""
        files: dict[str, bytes] = self.ranker._files()
        return files

    def resume(self, files: Mapping[str, bytes], state: State) -> bool:
        """Resume from a checkpoint."""
        self.ranker._remember(self.train)
        self.ranker._restore({}, dict(files))
        return True
