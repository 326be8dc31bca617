"""Rankers that learn round by round: one ``fit`` for trees, nets and factors."""

import contextlib
import hashlib
import warnings
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack

from numpy.typing import ArrayLike

from rankwise import check, user_code
from rankwise.arrays import Array, Column, Json, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import Metric
from rankwise.models.schema import Documents, Schema
from rankwise.objectives.base import (
    GoalTotals,
    Objective,
    base_score,
    goal_totals,
    level_totals,
    scales_in,
    with_scales,
)
from rankwise.objectives.prepared import Prepared
from rankwise.objectives.table import native
from rankwise.rankers import inputs
from rankwise.rankers.base import Ranker
from rankwise.rankers.training import session
from rankwise.rankers.training.constraints import BOUND, Constraints, UnmetConstraintWarning
from rankwise.rankers.training.loop import Learner, Loop, State
from rankwise.rankers.training.progress import ProgressBar
from rankwise.rankers.training.resume import FREE, Checkpoint, fingerprint
from rankwise.rankers.training.session import Session, Watch
from rankwise.rankers.training.stopping import Stopping
from rankwise.rankers.training.validation import Measure, Measured, Validation, checked_names, measure_of
from rankwise.threads import checked, thread_count, use_threads

Totals = Callable[[Prepared, Array | None], Any]
""":func:`goal_totals` or :func:`level_totals`."""


class IterativeRanker(Ranker):
    """A ranker that learns in rounds.

    A subclass has the parameters ``learning_rate, seed, threads, patience, smoothing, stop_on, metrics, debias,
    checkpoint, checkpoint_every, progress`` and one named by ``unit``, and may have ``constraints``; the last methods
    here build the learner.
    """

    learning_rate: float | None
    seed: int
    threads: int | None
    patience: int | None
    smoothing: int | None
    stop_on: str
    debias: bool
    constraints: Mapping[str, float] | None
    checkpoint: str | Path | None
    checkpoint_every: int
    progress: bool | None
    settings_: Keywords
    """Values of parameters that are not set and depend on the data, see :meth:`settings_for`."""
    _base_score: float | None = None
    """The score of the base rate of all data, where the ranker is trained on a part of them."""

    def fit(
        self,
        X: Documents,  # noqa: N803 (scikit-learn's names)
        y: ArrayLike | RankingDataset | None = None,
        *,
        valid: inputs.Validation = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        init_model: "IterativeRanker | str | Path | None" = None,
        resume: bool = False,
        measure: Mapping[str, RankingDataset | Measure] | None = None,
        watch: Watch | None = None,
        **others: Unpack[inputs.EvalSet],
    ) -> Self:
        """Train on a RankingDataset, ``fit(train, valid)``, or in scikit-learn's style, ``fit(X, y, qid=qid)``.

        ``qid`` has an id for each document, ``group`` the number of documents of each query. ``sample_weight`` has a
        number for each document: a weight of its query where it is the same within each, else of the document, for
        objectives that weigh documents. ``valid`` is a RankingDataset or a tuple (X, y, qid); LightGBM's and XGBoost's
        ``eval_set=[(X, y)]`` with ``eval_group`` or ``eval_qid`` is the same. ``init_model``, a trained ranker or its
        folder, is continued by as many rounds more. Data with ``init_scores`` start from these instead:
        the model learns what to add to them, and ``predict`` needs them too. ``resume`` starts from the checkpoint if
        there is one, and ends in the same model as a run that was never interrupted. Ctrl-C ends training and keeps the
        best model so far; before the first round is complete it raises KeyboardInterrupt. ``measure`` names data sets
        on which the metrics are measured after every round, beside the validation data: with ``measure={"train":
        train}`` there is ``history_["train ndcg@10"]``. ``watch`` is called after every round with its number and the
        history so far; what it raises ends training, and with :class:`rankwise.StopTraining` the best model so far is
        kept.
        """
        valid = self._with_eval_set(valid, others)
        older = None if init_model is None else self._older(init_model)
        schema = None if older is None else older._schema
        data: Keywords = {"valid": valid, "qid": qid, "group": group, "sample_weight": sample_weight}
        train, held_out = self._fit_inputs(X, y, older=schema, **data)
        measures = self._measures(measure, lambda data: inputs.aligned(data, train))
        measured = [one.data for one in measures.values()]
        return self._train(
            train,
            held_out,
            learner=lambda settled: settled._learner(train, held_out, older, measured),
            older=older,
            resume=resume,
            measure=measures,
            watch=watch,
        )

    def _train(
        self,
        train: RankingDataset,
        valid: RankingDataset | None,
        *,
        learner: Callable[[Self], Learner[Any]],
        older: Self | None,
        resume: bool,
        watch: Watch | None,
        measure: Mapping[str, Measure] | None = None,
        digest: str = "",
        documents: int | None = None,
        totals: Callable[[Objective], Sequence[GoalTotals]] | None = None,
    ) -> Self:
        """Train from an ``older`` model with the same columns, or from nothing.

        ``learner`` builds the learner for this ranker with all settings settled. ``measure`` has the data sets that are
        measured beside the validation data. Where ``train`` is only a sample of the data that are learned from,
        ``digest`` identifies these, ``documents`` is how many they have, and ``totals`` are those of goals on them.
        """
        if older is not None and train.init_scores is not None and not older._schema.init_scores:
            hint = "leave one of them out: either says where training starts"
            raise check.error("training starts from init_scores or from init_model", got="both", hint=hint)
        metrics = self._metrics(valid)  # a wrong name is an error without validation data, too
        settings = self.settings_for(train.n_docs if documents is None else documents)
        settled, constraints = self._with(settings), self._constraints()
        complete, scales = settled, dict[str, float]()
        if hasattr(self, "objective") and native(self.objective) is None:  # a bag of rankers of one's own may have none
            objective = constraints.objective(self._objective())
            objective = with_scales(objective, totals or (lambda one: [self._totals(goal_totals, train, one, older)]))
            scales = scales_in(objective)
            complete = settled._with({"objective": objective} if scales or constraints else {})

        def prepare() -> Session:
            if valid is None and constraints:
                hint = "pass validation data, or train a bag, whose members validate each other"
                raise check.error(
                    "constraints need validation data", got=f"constraints={self.constraints!r}", hint=hint
                )
            built, measures = learner(complete), measure or {}
            validation = None if valid is None else settled._validation(valid, metrics, built)
            stopping = settled._stopping(validation)
            measured = [Measured(one, prefix=f"{name} ") for name, one in measures.items()]
            if valid is not None and validation is not None:
                measured.insert(0, Measured(Measure(valid, validation)))
            loop = Loop(
                learner=built,
                stream=train.stream(check.integer("seed", self.seed, least=0)),
                stopping=stopping,
                measured=measured,
                checkpoint=settled._checkpoint(train, valid, older, digest, measures, resume=resume),
            )
            return Session(
                loop=loop,
                progress=ProgressBar(stopping, loss=self.loss_compares),
                start=State(before=0 if older is None else older._rounds()),
                verify=lambda files: self._verify(files, train.n_features),
                close=getattr(built, "close", lambda: None),
            )

        def keep(learner: Learner[Any], state: State) -> None:
            self._remember(train, older, digest=digest, documents=documents)
            self.settings_, self.scales_ = settings, scales
            self.history_, self.best_round_, self.stopped_ = state.history, state.best, state.stopped
            self._keep(learner.model(), state)

        self.stopped_ = session.train(
            prepare,
            keep,
            threads=self._thread_count(),
            progress=self.progress,
            resume=resume,
            watch=watch,
        )
        if unmet := constraints.unmet(self.history_, self.best_round_, self.unit):
            warnings.warn(unmet, UnmetConstraintWarning, stacklevel=3)
        return self

    @property
    def loss_compares(self) -> bool:
        """Whether the losses of different rounds compare.

        Those of LambdaRank and its like do not: its pairs are weighed by the ranking of the round, and with ``norm`` by
        the spread of its scores, so that the loss may rise while the ranker learns. With constraints, its
        terms have other weights in every round.
        """
        if self._constraints():
            return False
        return native(self.objective) is not None or not self._objective().held_fixed

    def _objective(self) -> Objective:
        if native(self.objective) is not None:
            raise check.error(
                f"objectives of libraries are for their trees, and {type(self).__name__} has none",
                got=repr(self.objective),
                hint="choose one of ours, such as lambdarank, or train a ranker of trees",
            )
        return super()._objective()

    def _constraints(self) -> Constraints:
        return Constraints.of_setting(getattr(self, "constraints", None))

    def _validation(self, valid: RankingDataset, metrics: Sequence[Metric], learner: Learner[Any]) -> Validation:
        """Return the metrics of validation data as ``learner`` scores them."""
        return Validation(valid, metrics, debias=bool(self.debias), constrained=tuple(self._constraints().goals))

    def _stopping(self, validation: Validation | None) -> Stopping:
        return Stopping(
            rounds=getattr(self, self.unit),
            metrics=() if validation is None else [one for one in validation.names if not one.startswith(BOUND)],
            patience=self.patience,
            smoothing=check.integer("smoothing", self.smoothing, least=1),
            stop_on=self.stop_on,
            unit=self.unit,
            constraints=self._constraints(),
        )

    def _measures(
        self,
        measure: Mapping[str, RankingDataset | Measure] | None,
        read: Callable[[Any], RankingDataset],
    ) -> dict[str, Measure]:
        """Return the measures beside those of the validation data, on data as ``read`` returns them."""
        if not measure:
            return {}
        checked_names(measure)
        debias = bool(self.debias)
        return {name: measure_of(one, read, self._metrics, debias=debias) for name, one in measure.items()}

    def _checkpoint(
        self,
        train: RankingDataset,
        valid: RankingDataset | None,
        older: Self | None,
        digest: str,
        measure: Mapping[str, Measure],
        *,
        resume: bool,
    ) -> Checkpoint | None:
        def identity() -> Json:
            files = None if older is None else b"".join(older._files().values())
            facts: Json = {
                "ranker": self.name,
                "objective": self._objective_expression(),
                "data": {
                    "train": digest or fingerprint(train),
                    "valid": None if valid is None else fingerprint(valid),
                    "init_model": None if files is None else hashlib.blake2b(files, digest_size=16).hexdigest(),
                    **{f"measure {name}": fingerprint(one.data) for name, one in measure.items()},
                },
                "parameters": self._parameters(without=FREE),
            }
            if code := self._code() | user_code.digests([one.function for one in measure.values()]):
                facts["code"] = code
            return facts

        return Checkpoint.of_settings(
            self.checkpoint,
            self.checkpoint_every,
            resume=resume,
            identity=identity,
            describe=lambda state: {"features": Schema.of(train).written(), **self._made_of(state.before + state.best)},
            unit=self.unit,
        )

    def _older(self, model: "IterativeRanker | str | Path") -> Self:
        """Return the model that is continued."""
        if isinstance(model, str | Path):
            from rankwise.rankers.table import load

            model = load(model)
        if not isinstance(model, type(self)):
            raise check.error(
                f"init_model must be a trained {type(self).__name__}, or its folder", got=type(model).__name__
            )
        model._check_fitted()
        return model

    def _exponential_labels(self) -> Collection[str | None]:
        names = super()._exponential_labels()  # and those of constraints, which the same objective learns
        return {*names, *(getattr(one, "label", None) for one in self._constraints().goals)} if names else names

    def check_data(self, train: RankingDataset) -> None:
        """Raise an error about columns that the objective needs, or does not take."""
        if "objective" in self.own_parameters() and native(self.objective) is None:
            self._documents(train, self._objective())

    def _documents(
        self, train: RankingDataset, objective: Objective, older: Self | None = None
    ) -> Mapping[str, Column]:
        """Return the columns of documents that the objective reads; the older model's scores are ``init_scores``."""
        if "init_scores" in objective.reads and train.init_scores is None and older is not None:
            train = train.with_(init_scores=older.predict(train.without_rows()))
        return inputs.document_columns(train, objective, debias=bool(self.debias))

    def _start(self, train: RankingDataset, objective: Objective | None, older: Self | None) -> float:
        """Return the score that training starts at: 0, or that of the base rate where scores are log odds."""
        if objective is None or not objective.log_odds or older is not None or train.init_scores is not None:
            return 0.0
        if self._base_score is not None:
            return self._base_score
        return base_score([self._totals(level_totals, train, objective)])

    def _totals(self, totals: Totals, train: RankingDataset, objective: Objective, older: Self | None = None) -> Any:
        """Return totals of the gradients of an objective on training data."""
        documents = self._documents(train, objective, older)
        return totals(objective.prepare(train.labels, train.offsets, **documents), train.weights)

    def _thread_count(self) -> int:
        return thread_count() if self.threads is None else checked(self.threads)

    def _own_threads(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self.threads is None else use_threads(self.threads)

    @abstractmethod
    def _learner(
        self,
        train: RankingDataset,
        valid: RankingDataset | None,
        older: Self | None,
        measured: Sequence[RankingDataset] = (),
    ) -> Learner[Any]:
        """Check every parameter and return the learner, from nothing or from an older model.

        It scores the validation data, if there are any, and then ``measured``, in this order.
        """

    @abstractmethod
    def _keep(self, model: Any, state: State) -> None:
        """Keep the model of the best round."""

    @abstractmethod
    def _rounds(self) -> int:
        """Return the number of rounds of the model."""

    @abstractmethod
    def _made_of(self, rounds: int) -> Json:
        """Return the ranker's own entries in the description of a model of so many rounds."""
