"""Rankers that learn round by round: one ``fit`` for trees, nets and factors."""

import contextlib
import warnings
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.rankers import inputs, progress
from rankwise.rankers.base import Ranker
from rankwise.rankers.checkpoints import Checkpoints
from rankwise.rankers.course import Course, History, State
from rankwise.rankers.newton import Array
from rankwise.threads import thread_count, use_threads


class Trained(Ranker):
    """A ranker that learns in rounds.

    A subclass has the parameters ``seed, threads, patience, metrics, debias, checkpoint, every, progress`` and says in
    the last methods here what its rounds are.
    """

    unit: ClassVar[str] = "rounds"
    """What rounds are called."""
    seed: int
    threads: int | None
    patience: int | None
    debias: bool
    checkpoint: str | Path | None
    every: int
    progress: bool | None

    def fit(
        self,
        X: Any,  # noqa: N803 (scikit-learn's names)
        y: Any = None,
        *,
        valid: Any = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        init_model: "Trained | str | Path | None" = None,
        resume: bool = False,
        watch: Callable[[int, History], None] | None = None,
    ) -> Self:
        """Train on a RankingDataset, ``fit(train, valid)``, or in scikit-learn's style, ``fit(X, y, qid=qid)``.

        ``qid`` has an id for each document, ``group`` the number of documents of each query. ``valid`` is a
        RankingDataset or a tuple (X, y, qid). ``init_model``, a trained ranker or its folder, is continued by as many
        rounds more. ``resume`` goes on from the checkpoint if there is one, and ends in the same model as a run that
        was never interrupted. Ctrl-C ends training and keeps the best model so far. ``watch`` is called after every
        round with its number and the history so far; what it raises ends training.
        """
        older = None if init_model is None else self._older(init_model)
        train, held_out = inputs.parts(
            X,
            y,
            valid=valid,
            qid=qid,
            group=group,
            sample_weight=sample_weight,
            older=None if older is None else older._schema,
        )
        return self._train(train, held_out, older=older, resume=resume, watch=watch)

    def _train(
        self,
        train: RankingDataset,
        valid: RankingDataset | None,
        *,
        older: Any,
        resume: bool,
        watch: Callable[[int, History], None] | None,
        learn: Callable[[Any, Any], Any] | None = None,
        digest: str = "",
    ) -> Self:
        """Train, on from an ``older`` model with the same columns where there is one.

        ``learn`` is how, and ``digest`` tells data apart, where ``train`` is a sample of those elsewhere.
        """
        with use_threads(self._thread_count()):
            plan = self._plan(train, valid)
            plan.digest = digest
            if valid is not None:
                plan.measure(np.zeros(valid.n_docs))  # nothing relevant is an error now, not after a round
            state = self._start(plan, older, resume=resume)
            with progress.showing(self.progress if plan.leads else False, plan, state.done) as bar:

                def report(state: State, best: int) -> None:
                    bar(state, best)
                    if watch is not None:
                        watch(state.done, state.history)

                plan.report = report
                state = (learn or self._learn)(plan, state)
        self._remember(plan.train)
        self.history_ = state.history
        self.best_round_ = plan.best(state)
        self.stopped_ = state.stopped
        self._keep(plan, state)
        if state.stopped == "interrupted":
            kept = f"the best model so far, of {self.best_round_} {plan.unit}, is kept"
            warnings.warn(
                f"interrupted after {plan.unit[:-1]} {state.done}: {kept}",
                RuntimeWarning,
                stacklevel=3,
            )
        return self

    def _start(self, plan: Course, older: Any, *, resume: bool) -> State:
        """Give the state to train from: nothing, an older model, or a checkpoint."""
        state: State = self._begin(plan, older)
        if self.checkpoint is None:
            if resume:
                raise check.error("resume needs a checkpoint", cure="say where it is: checkpoint='folder'")
            return state
        kept = Checkpoints(
            Path(self.checkpoint), self, plan, None if older is None else b"".join(older._files().values())
        )
        plan.checkpoint = lambda state: kept.write(state, *self._written(plan, state))
        files = kept.start(state, resume=resume)
        if files is not None:
            self._go_on(plan, state, files)
        return state

    def _older(self, model: Any) -> Self:
        if isinstance(model, str | Path):
            from rankwise.rankers.table import load

            model = load(model)
        if not isinstance(model, type(self)):
            raise check.error(
                f"init_model must be a trained {type(self).__name__}, or its folder", got=type(model).__name__
            )
        model._check_fitted()
        return model

    def _common(self, train: RankingDataset, valid: RankingDataset | None, objective: Any) -> dict[str, Any]:
        """What every plan says, whatever a round is."""
        return {
            "objective": objective,
            "train": train,
            "valid": valid,
            "metrics": self._metrics(),
            "seed": check.integer("seed", self.seed, least=0),
            "patience": None if self.patience is None else check.integer("patience", self.patience, least=1),
            "every": check.integer("every", self.every, least=1),
            "debias": bool(self.debias),
            "documents": self._documents(train, objective),
        }

    def _documents(self, train: RankingDataset, objective: Any) -> dict[str, Array]:
        """What the objective is told about single documents."""
        if not self.debias:
            return {}
        if train.propensities is None or objective is None:
            got = "data without propensities" if objective is not None else self.objective  # type: ignore[attr-defined]
            cure = "use click data that has them, such as rw.simulate_clicks(…, model='position'), and our objectives"
            raise check.error("debias needs propensities and an objective that weighs documents", got=got, cure=cure)
        return {"document_weights": 1.0 / train.propensities}

    def _thread_count(self) -> int:
        return thread_count() if self.threads is None else check.integer("threads", self.threads, least=1)

    def _own_threads(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self.threads is None else use_threads(self.threads)

    @abstractmethod
    def _plan(self, train: RankingDataset, valid: RankingDataset | None) -> Any:
        """Check every parameter and say what is trained."""

    @abstractmethod
    def _begin(self, plan: Any, older: Any) -> Any:
        """Give the state before the first round, from nothing or from an older model."""

    @abstractmethod
    def _learn(self, plan: Any, state: Any) -> Any:
        """Train."""

    @abstractmethod
    def _keep(self, plan: Any, state: Any) -> None:
        """Take over what was trained, as it was after the best round."""

    @abstractmethod
    def _written(self, plan: Any, state: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Give what a checkpoint holds: the model's own part of the description, and the files."""

    @abstractmethod
    def _go_on(self, plan: Any, state: Any, files: dict[str, bytes]) -> None:
        """Take over the files of a checkpoint."""
