"""Rankers made of boosted trees: the same arguments for every library."""

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from rankwise import check
from rankwise.base.arrays import Array, Json, Keywords
from rankwise.base.threads import use_threads
from rankwise.check.docstrings import documented
from rankwise.check.parameters import AtLeast, OneOf, Option, Search, Unset, assign
from rankwise.data.dataset import RankingDataset
from rankwise.models.forests.forest import TRANSFORMS, ForestModel
from rankwise.models.schema import Schema
from rankwise.objectives.table import native
from rankwise.rankers import expressions, fit_arguments, migration_hints
from rankwise.rankers.base import IterativeRanker
from rankwise.rankers.sklearn import check_fitted
from rankwise.rankers.training import parameters as training
from rankwise.rankers.training.settings import TrainingData, TrainingSettings
from rankwise.rankers.trees import monotone
from rankwise.rankers.trees import protocol as trees
from rankwise.rankers.trees.learner import TreeLearner

if TYPE_CHECKING:
    from rankwise.models.forests.query_forest import QueryForest


@documented
class TreeRanker(IterativeRanker):
    """Boosted trees, trained with any objective.

    Args:
        **native: The library's own parameters by their own names. One has the same form for every library:
            ``monotone_constraints={"price": -1, "rating": 1}``, by the names of features or their numbers from 0, says
            with which of them scores only fall (−1) or only rise (1), all else being equal.
    """

    library: trees.Library
    native: dict[str, Any]
    single = has_importances = True
    model_: "ForestModel | QueryForest"
    """The trees; ``model_.booster`` is the library's own object."""
    partitions_: Any
    """Where the data of a training on a cluster lay; set by ``rw.cluster.dask.fit`` alone."""

    def __init__(
        self,
        objective: Annotated[
            training.Objective, '``"native:…"`` is one of the library\'s own objectives in the same harness.'
        ] = "lambdarank",
        *,
        rounds: training.Rounds = 500,
        learning_rate: Annotated[
            training.LearningRate, "Share of each tree's step that is taken.", Search("log(0.02, 0.3)")
        ] = 0.05,
        leaves: Annotated[
            int | None,
            AtLeast(2),
            Unset("by the number of documents"),
            """Number of leaves of a tree at most. CatBoost's symmetric trees have the next power of two. By default the
            number of training documents decides: see :meth:`settings_for`, and after training ``settings_``.""",
            Option(metavar="N", group="Training"),
            Search("whole_log(7, 127)"),
        ] = None,
        min_documents: Annotated[
            int | None,
            AtLeast(1),
            Unset("by the number of documents"),
            """Number of documents of a leaf at least. XGBoost and CatBoost know no such limit: each ranker says what it
            does instead. By default as ``leaves``.""",
            Option(metavar="N", group="Training"),
        ] = None,
        transform: Annotated[
            str | None,
            OneOf(TRANSFORMS),
            Unset("features as they are"),
            """Transform of features, a part of the model. ``"raw+query"`` adds each feature but categories once more,
            standardised within the query; such a ranker needs whole lists.""",
            Option(group="Training"),
        ] = None,
        seed: Annotated[training.Seed, "Both the objective and the library draw by it."] = 0,
        threads: training.Threads = None,
        patience: training.Patience = 50,
        min_rounds: training.MinRounds = 0,
        smoothing: Annotated[
            training.Smoothing | None, Unset("by the number of documents"), "By default as ``leaves``."
        ] = None,
        stop_on: training.StopOn = "first",
        metrics: training.Metrics = ("ndcg@10",),
        debias: training.Debias = False,
        constraints: training.Constraints = None,
        floor_hessian: Annotated[
            bool,
            """Whether Hessians of at most 0 are replaced. Their place takes the mean size of the query's
            Hessians, which PL-Rank needs with ``curvature="estimated"``. False hands the library what the objective
            says, as the paper's code does; a round whose draws then allow XGBoost no split is one without effect, and
            not the last.""",
            Option(group="Training"),
        ] = True,
        checkpoint: training.Checkpoint = None,
        checkpoint_every: training.CheckpointEvery = 50,
        progress: training.Progress = None,
        **native: Any,
    ) -> None:
        assign(self, locals())
        self._check_native(native)
        if native:
            check_losses(self)

    @property
    def name(self) -> str:  # type: ignore[override]
        """What the ranker is called in files: its library's name."""
        return self.library.name

    def settings_for(self, documents: int) -> Keywords:
        """Return what training on so many documents uses for parameters that the data decide.

        These are ``leaves``, ``min_documents`` and ``smoothing``, each where it is not set, and what the library draws
        while it grows trees, such as LightGBM's ``extra_trees``: unless set, that goes with the leaves and is used only
        where neither ``leaves`` nor ``min_documents`` is set.

        >>> import rankwise as rw
        >>> rw.LightGBMRanker().settings_for(20_000)
        {'leaves': 7, 'min_documents': 50, 'smoothing': 10, 'extra_trees': True}
        >>> rw.LightGBMRanker(leaves=63).settings_for(20_000)
        {'leaves': 63, 'min_documents': 50, 'smoothing': 10}
        """
        rule, canonical = trees.USUAL, self.library.canonical
        if trees.FEW <= documents < trees.MANY:
            rule = self.library.small_data
        settings = {
            name: getattr(rule, name) if getattr(self, name) is None else getattr(self, name)
            for name in ("leaves", "min_documents", "smoothing")
        }
        drawn = {
            name: value for name, value in self.native.items() if canonical(name) in self.library.small_data.native
        }
        if self.leaves is None and self.min_documents is None:
            names = {canonical(name) for name in drawn}
            settings |= {name: value for name, value in rule.native.items() if name not in names}
        return settings | drawn

    def importances(self, kind: str = "gain") -> Array:
        """Return one number per feature: the total ``"gain"`` of its splits, or how many there are (``"split"``)."""
        check_fitted(self)
        return self.model_.importances(check.choice("kind of importance", kind, ("gain", "split")))

    @property
    def monotone_constraints(self) -> Any:
        """The constraints that were set, by whatever name the library has for them; None if there are none."""
        return next(
            (value for name, value in self.native.items() if self.library.canonical(name) == monotone.NAME), None
        )

    def learner(self, data: TrainingData, settings: TrainingSettings) -> TreeLearner:
        """Return what grows trees, on data whose codes and columns are checked."""
        schema = Schema.of(data.train)
        built = library_settings(self, settings, schema, data.older, stopping=data.valid is not None)
        for part in (data.train, *data.held_out) if schema.categorical else ():
            Schema.of(part).check_codes(part.features, self.library.forest.least_code)
        columns, train, held_out = settings.columns(data), data.train, data.held_out
        if settings.objective is None:
            _check_columns(self, data.train, settings)
        within = None if self.transform is None else schema
        if within is not None:
            from rankwise.models.forests.query_forest import widened

            train, held_out = widened(train), [widened(one) for one in held_out]
        blocks = self.checkpoint is not None and self.library.draws(built)
        return TreeLearner(
            library=self.library,
            settings=replace(built, base_score=settings.start(data)),
            held_out=held_out,
            start=None if data.older is None else data.older.model_.content(),
            before=0 if data.older is None else data.older.model_.rounds,
            objective=settings.objective,
            train=train,
            within=within,
            documents=columns,
            seed=settings.seed,
            block=settings.checkpoint_every if blocks else None,
        )

    def check_data(self, train: RankingDataset) -> None:
        """Raise an error about columns that the objective needs, or does not take."""
        super().check_data(train)
        if (settings := TrainingSettings.of(self)).objective is None:
            _check_columns(self, train, settings)

    def read_model(self, description: Json, files: dict[str, bytes], schema: Schema) -> "ForestModel | QueryForest":
        """Read the trees."""
        read = self.library.forest.from_files
        if "transform" not in description:
            return read(description, files, schema)
        from rankwise.models.forests.query_forest import QueryForest

        return QueryForest.from_files(description, files, schema, read)

    def _check_native(self, native: Keywords) -> None:
        if not native:  # LightGBM's names are known to LightGBM alone, which takes seconds to import
            return
        names, parameters = self.library.known(), self.own_parameters()
        for name in native:
            of_fit = migration_hints.of_fit(name)
            if of_fit and (name not in names or name in migration_hints.ARGUMENTS):
                raise check.error(f"{name!r} is an argument of fit, not of {type(self).__name__}", hint=of_fit)
            if name in names and (ours := self.library.ours_of(name, parameters)):
                what = f"{name!r} of {self.library.name} has another name here"
                raise check.error(what, hint=f"`set {ours}`")
            if self.library.canonical(name) in self.library.idle:
                raise check.error(f"{name!r} of {self.library.name} has no effect here", hint="leave it out")
            if name not in names:
                if ours := migration_hints.parameter(name, parameters):
                    raise check.error(f"{name!r} has another name here", hint=f"`set {ours}=`")
                near = check.suggestion(name, [*parameters, *names])
                hint = near if near.startswith("did") else f"see the parameters of {self.library.name}, and ours"
                raise check.error(f"{type(self).__name__} has no such parameter", got=repr(name), hint=hint)


def _check_columns(ranker: TreeRanker, train: RankingDataset, settings: TrainingSettings) -> None:
    """Reject columns that the library's own objectives do not take."""
    if train.init_scores is not None:
        raise check.error(
            f"objectives of {ranker.library.name} itself do not start from init_scores",
            got=str(ranker.objective),
            hint="train one of ours, such as lambdarank, or `leave init_scores out`",
        )
    if train.document_weights is not None and not ranker.library.weighs_documents:
        raise check.error(
            f"objectives of {ranker.library.name} itself weigh queries, and no documents",
            got=f"document_weights for {ranker.objective}",
            hint="train lambdarank, softmax_ce or xendcg, which weigh documents, or native:lambdarank of LightGBM; "
            "weights that are the same within a query are weights of queries",
        )
    if settings.debias:
        raise fit_arguments.no_propensities(ranker.objective)
    fit_arguments.reject_rewards(train, ranker.objective)


def library_settings(
    ranker: TreeRanker, settings: TrainingSettings, schema: Schema, older: TreeRanker | None, *, stopping: bool
) -> trees.Settings:
    """Return checked settings of the library for data of these columns."""
    library, parameters, objective = ranker.library, dict(settings.parameters), settings.objective
    if older is not None and older.transform != ranker.transform:
        what, got = "a model is continued with its own transform", f"transform={ranker.transform!r}"
        raise check.error(what, got=got, hint=f"`set transform={older.transform!r}`")
    if ranker.native:
        check_losses(ranker)  # the objective may be another one by now
    if settings.builtin is not None:
        if settings.constraints.goals:
            hint, got = "train one of ours, such as lambdarank, or leave constraints out", settings.builtin
            raise check.error(f"objectives of {library.name} itself take no constraints", got=got, hint=hint)
        library.check_builtin(settings.builtin)
    leaves, least = parameters.pop("leaves"), parameters.pop("min_documents")
    drawn = {name: value for name, value in parameters.items() if name != "smoothing"}
    native = {library.canonical(name): value for name, value in (ranker.native | drawn).items()}
    if monotone.NAME in native:
        signs = monotone.by_column(native.pop(monotone.NAME), schema)
        if any(signs):
            native[monotone.NAME] = signs * (1 if ranker.transform is None else 2)
            if older is not None:
                monotone.check_continued(signs, older.monotone_constraints, schema)
    with contextlib.nullcontext() if settings.threads is None else use_threads(settings.threads):
        threads = library.threads()
    built = trees.Settings(
        builtin=settings.builtin,
        learning_rate=float(ranker.learning_rate),
        leaves=int(leaves),
        min_documents=int(least),
        threads=threads,
        floor_hessian=bool(ranker.floor_hessian),
        keep_constants=objective is not None and not ranker.floor_hessian and objective.estimator,
        native=native,
    )
    if monotone.NAME in built.native and library.draws(built):
        # Features that may not be split may be all that was drawn.
        built = replace(built, keep_constants=True)
    refusal = library.refusal(built, stopping=stopping, checkpoints=settings.checkpoint is not None)
    if refusal is not None:
        raise check.error(f"{type(ranker).__name__} cannot be trained so", got=refusal.reason, hint=refusal.hint)
    return built


def check_losses(ranker: TreeRanker) -> None:
    """Reject parameters that the objective does not have."""
    builtin = native(ranker.objective)
    for name, value in ranker.native.items():
        loss = ranker.library.losses.get(ranker.library.canonical(name))
        if loss is None or any(f"{builtin}:".startswith(f"{one}:") for one in loss.builtins):  # options follow it
            continue
        ours = loss.instead.format(repr(tuple(value)) if isinstance(value, list) else repr(value))
        hints = ["leave it out"]
        if builtin is None and ours:
            place = "on the ranker" if ours.startswith(("`seed", "`debias")) else "on the objective"
            hints.append(f"set it {place}, {ours}")
        hints += [f"train native:{other}" for other in loss.builtins[:1]]
        what = f"{name!r} belongs to other objectives of {ranker.library.name} and would have no effect"
        raise check.error(what, got=f"the objective {expressions.objective_of(ranker)}", hint=", or ".join(hints))
