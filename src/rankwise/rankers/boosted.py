"""Rankers made of boosted trees: the same arguments for every library."""

import contextlib
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.metrics.base import Metric
from rankwise.rankers import checkpoints, inputs, progress, trees
from rankwise.rankers.base import Ranker
from rankwise.rankers.course import History
from rankwise.rankers.newton import Array, Floats
from rankwise.threads import thread_count, use_threads


class TreeRanker(Ranker):
    """Boosted trees, trained with any objective.

    Args:
        objective: An objective, its text (``"stochastic(lambdarank, scale=0.25)"``), anything that can be called like
            one, or ``"native:…"``, one of the library's own objectives in the same harness.
        rounds: How many trees at most.
        learning_rate: How much of each tree's step is taken.
        leaves: How many leaves a tree has at most.
        min_documents: How many documents a leaf holds at least.
        seed: Of every draw, the objective's and the library's.
        threads: How many threads; by default ``RANKWISE_THREADS`` or every core. Models repeat for the same number.
        patience: With validation data, training stops after so many rounds without a better first metric, and the
            best round is kept; None trains all rounds (and still keeps the best).
        metrics: What is measured on the validation data after every round; the first one decides.
        debias: For click data: weigh each clicked document by the inverse of its propensity, in objectives that take
            ``document_weights``.
        checkpoint: A folder, written every ``every`` rounds, from which ``fit(…, resume=True)`` goes on.
        every: How many rounds lie between checkpoints.
        progress: A bar with the time left and the metric: True, False, or None, on terminals only.
        **native: The library's own parameters by their own names.
    """

    library: trees.Library
    model_: trees.Forest
    """The trees; ``model_.booster`` is the library's own object."""

    def __init__(
        self,
        objective: Any = "lambdarank",
        *,
        rounds: int = 500,
        learning_rate: float = 0.05,
        leaves: int = 31,
        min_documents: int = 20,
        seed: int = 0,
        threads: int | None = None,
        patience: int | None = 50,
        metrics: str | Metric | Sequence[str | Metric] = ("ndcg@10",),
        debias: bool = False,
        checkpoint: str | Path | None = None,
        every: int = 50,
        progress: bool | None = None,
        **native: Any,
    ) -> None:
        self.objective = objective
        self.rounds = rounds
        self.learning_rate = learning_rate
        self.leaves = leaves
        self.min_documents = min_documents
        self.seed = seed
        self.threads = threads
        self.patience = patience
        self.metrics = metrics
        self.debias = debias
        self.checkpoint = checkpoint
        self.every = every
        self.progress = progress
        self._check_native(native)
        self.native = native

    @property
    def name(self) -> str:  # type: ignore[override]
        """What the ranker is called in files: its library's name."""
        return self.library.name

    def fit(
        self,
        X: Any,  # noqa: N803 (scikit-learn's names)
        y: Any = None,
        *,
        valid: Any = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        init_model: "TreeRanker | str | Path | None" = None,
        resume: bool = False,
        watch: Callable[[int, History], None] | None = None,
    ) -> Self:
        """Train on a RankingDataset, ``fit(train, valid)``, or in scikit-learn's style, ``fit(X, y, qid=qid)``.

        ``qid`` has an id for each document, ``group`` the number of documents of each query. ``valid`` is a
        RankingDataset or a tuple (X, y, qid). ``init_model``, a trained ranker or its folder, is continued by
        ``rounds`` more trees. ``resume`` goes on from the checkpoint if there is one, and ends in the same model as a
        run that was never interrupted. Ctrl-C ends training and keeps the best model so far. ``watch`` is called after
        every round with its number and the history so far; what it raises ends training.
        """
        if isinstance(X, RankingDataset) and y is not None:
            if valid is not None:
                raise check.error("validation data were passed twice", cure="write fit(train, valid)")
            y, valid = None, y
        train = inputs.dataset(X, y, qid=qid, group=group, sample_weight=sample_weight)
        held_out = inputs.validation(valid)
        if held_out is not None:
            names, count = train.feature_names, train.n_features
            held_out = held_out.with_(features=inputs.features(held_out, names, count), feature_names=names)
        plan = self._plan(train, held_out)
        state = self._start(plan, init_model, resume=resume)
        shown = str(plan.metrics[0]) if held_out is not None else None
        with use_threads(plan.settings.threads), progress.showing(self.progress, plan.rounds, state.done, shown) as bar:

            def report(state: trees.State, best: int) -> None:
                bar(state, best)
                if watch is not None:
                    watch(state.done, state.history)

            plan.report = report
            state = trees.grow(plan, state)
        self._keep(plan, state)
        if state.stopped == "interrupted":
            warnings.warn(
                f"interrupted after round {state.done}: the best model so far, of {self.best_round_} rounds, is kept",
                RuntimeWarning,
                stacklevel=2,
            )
        return self

    @property
    def feature_importances_(self) -> Array:
        """The share of each feature in the total gain of all splits."""
        self._check_fitted()
        gains = self.model_.importances("gain")
        return gains / gains.sum() if gains.any() else gains

    def importances(self, kind: str = "gain") -> Array:
        """Give one number per feature: the total ``"gain"`` of its splits, or how many there are (``"split"``)."""
        self._check_fitted()
        return self.model_.importances(check.choice("kind of importance", kind, ("gain", "split")))

    def explain(self, data: Any) -> Array:
        """Say what each feature adds to each document's score: SHAP values, (n_docs, n_features + 1).

        The last column is the mean score; rows add up to the scores.
        """
        features = self._features(data)
        with self._own_threads():
            return self.model_.explain(features)

    def _plan(self, train: RankingDataset, valid: RankingDataset | None) -> trees.Plan:
        builtin, objective = self._chosen()
        patience = None if self.patience is None else check.integer("patience", self.patience, least=1)
        every = check.integer("every", self.every, least=1)
        settings = trees.Settings(
            builtin=builtin,
            learning_rate=check.number("learning_rate", self.learning_rate, least=0.0, open_ends=True),
            leaves=check.integer("leaves", self.leaves, least=2),
            min_documents=check.integer("min_documents", self.min_documents, least=1),
            threads=thread_count() if self.threads is None else check.integer("threads", self.threads, least=1),
            native=dict(self.native),
        )
        stopping, checkpointing = valid is not None, self.checkpoint is not None
        for cure, asked in (
            ("leave that parameter out", {"stopping": False, "checkpoints": False}),
            ("train without valid", {"stopping": stopping, "checkpoints": False}),
            ("train without a checkpoint", {"stopping": stopping, "checkpoints": checkpointing}),
        ):
            if why := self.library.refusal(settings, **asked):
                raise check.error(f"{type(self).__name__} cannot be trained so", got=why, cure=cure)
        plan = trees.Plan(
            library=self.library,
            settings=settings,
            objective=objective,
            train=train,
            valid=valid,
            metrics=self._metrics(),
            seed=check.integer("seed", self.seed, least=0),
            rounds=check.integer("rounds", self.rounds, least=1),
            patience=patience,
            every=every,
            documents=self._documents(train, objective),
        )
        if valid is not None:
            plan.measure(np.zeros(valid.n_docs))  # nothing relevant is an error now, not after a round
        return plan

    def _documents(self, train: RankingDataset, objective: Any) -> dict[str, Array]:
        """What the objective is told about single documents."""
        if not self.debias:
            return {}
        if train.propensities is None or objective is None:
            got = "data without propensities" if objective is not None else self.objective
            cure = "use click data that has them, such as rw.simulate_clicks(…, model='position'), and our objectives"
            raise check.error("debias needs propensities and an objective that weighs documents", got=got, cure=cure)
        return {"document_weights": 1.0 / train.propensities}

    def _chosen(self) -> tuple[str | None, Any]:
        """The library's own objective, or ours."""
        if not isinstance(self.objective, str) or not self.objective.startswith("native:"):
            return None, self._objective()
        builtin = self.objective.removeprefix("native:")
        return check.choice(f"objective of {self.library.name} itself", builtin, self.library.builtins), None

    def _start(self, plan: trees.Plan, init_model: Any, *, resume: bool) -> trees.State:
        state = trees.State()
        if init_model is not None:
            older = self._older(init_model)
            inputs.features(plan.train.take([0]), older._names, older.n_features_in_)
            state = trees.State(before=older.model_.n_trees, content=older.model_.content())
        if self.checkpoint is None:
            if resume:
                raise check.error("resume needs a checkpoint", cure="say where it is: checkpoint='folder'")
            return state
        kept = checkpoints.Checkpoints(Path(self.checkpoint), self, plan, state.content)
        plan.checkpoint = kept.write
        return kept.start(state, resume=resume)

    def _older(self, model: Any) -> "TreeRanker":
        if isinstance(model, str | Path):
            from rankwise.rankers.table import load

            model = load(model)
        if not isinstance(model, TreeRanker) or model.library.name != self.library.name:
            raise check.error(
                f"init_model must be a trained {type(self).__name__}, or its folder", got=type(model).__name__
            )
        model._check_fitted()
        return model

    def _keep(self, plan: trees.Plan, state: trees.State) -> None:
        """Take over what was trained, cut to the best round."""
        self._remember(plan.train)
        self.history_ = state.history
        self.best_round_ = plan.best(state)
        self.stopped_ = state.stopped
        self.model_ = self.library.forest(state.content or b"").cut(state.before + self.best_round_)

    def _check_native(self, native: dict[str, Any]) -> None:
        known = self.library.known() if native else ()
        for name in native:
            ours = self.library.ours.get(self.library.canonical(name))
            if ours is not None:
                what = f"{name!r} of {self.library.name} has another name here"
                raise check.error(what, cure=f"say {ours}")
            if name not in known:
                near = check.suggestion(name, [*self.own_parameters(), *known]).rstrip("?")
                cure = near if near.startswith("did") else f"see the parameters of {self.library.name}, and help(fit)"
                raise check.error(f"{type(self).__name__} has no such parameter", got=repr(name), cure=cure)

    def _description(self) -> dict[str, Any]:
        trees_kept = {"trees": self.model_.n_trees, "versions": {self.library.name: self.library.version()}}
        return super()._description() | trees_kept

    def _score(self, features: Floats) -> Array:
        with self._own_threads():
            return self.model_.predict(features)

    def _own_threads(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self.threads is None else use_threads(self.threads)

    def _files(self) -> dict[str, bytes]:
        return {self.library.file: self.model_.content()}

    def _restore(self, description: dict[str, Any], files: dict[str, bytes]) -> None:
        self.model_ = self.library.forest(files[self.library.file]).cut(int(description["trees"]))
