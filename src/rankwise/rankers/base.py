"""The base class of rankers: parameters and ``fit``; what was learned is ``model_``, to which the rest delegates."""

import contextlib
from abc import ABC
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from numpy.typing import ArrayLike

from rankwise import check, moved
from rankwise.base.arrays import Json, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import MetricLike
from rankwise.models import attributes, model_card, storage
from rankwise.models.model import Model
from rankwise.models.schema import ModelInput, Schema
from rankwise.objectives.base import Objective
from rankwise.objectives.table import ObjectiveLike
from rankwise.rankers import expressions, fit_arguments, table
from rankwise.rankers.sklearn import check_fitted, reject
from rankwise.rankers.trained import TrainedRanker
from rankwise.rankers.training import run
from rankwise.rankers.training.ahead import begin
from rankwise.rankers.training.loop import Learner
from rankwise.rankers.training.run import OneRound, attribute_model
from rankwise.rankers.training.settings import (
    Callback,
    TrainingData,
    TrainingSettings,
    exponential_labels,
    metrics_of,
    objective_of,
    trains_at_once,
)
from rankwise.rankers.training.validation import EvalSet, measures_of

if TYPE_CHECKING:
    from rankwise.rankers.table import Recipe

_TUPLES = ("metrics", "hidden")  # parameters that are lists in files


class Ranker(TrainedRanker, ABC):
    """Parameters and ``fit``, and then ``model_``, which scores documents; the base class of a ranker of one's own.

    A subclass keeps every argument of ``__init__`` under its own name, as estimators of scikit-learn do, and defines
    two methods:

    - ``_fit(train, valid)`` learns from a :class:`RankingDataset`, and keeps what it learned in attributes whose names
      end in ``_``. ``valid`` is another one, or None.
    - ``_predict(features, offsets)`` returns one score per document. ``features`` is a matrix with the columns of
      training, and query q has the rows ``offsets[q]`` to ``offsets[q + 1]``. Where only features are known,
      ``offsets`` is None, unless the class sets ``needs_lists = True``: then that is an error before.

    It has ``fit``, ``predict``, ``rank``, ``save`` and the rest from here, and works wherever a ranker does. With a
    name from :func:`rankwise.register` it is known to expressions, files and :func:`rankwise.load`. ``search_space``
    holds the ranges that :func:`rankwise.tune` searches by default, beside those that parameters declare.

    >>> import numpy as np, rankwise as rw
    >>> @rw.register("centroid")
    ... class Centroid(rw.Ranker):
    ...     search_space = {"power": "uniform(0, 2)"}
    ...
    ...     def __init__(self, power=1.0):
    ...         self.power = power
    ...
    ...     def _fit(self, train, valid):
    ...         self.centre_ = np.average(train.features, axis=0, weights=train.labels**self.power)
    ...
    ...     def _predict(self, features, offsets):
    ...         return -((features - self.centre_) ** 2).sum(axis=1)
    >>> data = rw.synthetic(n_queries=30, n_docs=10, seed=1)
    >>> bag = rw.bagged(Centroid(power=2.0), folds=3).fit(data)
    >>> len(bag.members_), bag.members_[0]
    (3, centroid(power=2.0))
    """

    unit: ClassVar[str] = "rounds"
    """What rounds are called, and the parameter that says how many there are, where a ranker learns in rounds."""
    search_space: ClassVar[Mapping[str, Any]] = {}
    """Parameter -> range, as :func:`rankwise.tune` takes it in ``search``, or a value, which is fixed: of parameters
    that declare no ``Search``, such as those of a library, and in the place of those that do."""
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

    single: ClassVar[bool] = False
    """Whether it learns from features by itself: bags, blends and distillation are made of such rankers."""
    folds_choose: ClassVar[bool] = False
    """Whether folds of the training data choose among its rounds where there are no validation data."""
    takes_categories: ClassVar[bool] = True
    """Whether features may be categories, and not numbers alone."""
    weighs: ClassVar[bool] = False
    """Whether it is a weighted sum of different rankers, without rounds of its own."""
    pools: ClassVar[bool] = False
    """Whether it learns from validation data too, which are pooled with training data, and is measured out of fold."""

    def __repr__(self) -> str:
        return expressions.expression_of(self)

    def __copy__(self) -> Self:
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        if trains_at_once(self) and isinstance(model := vars(self).get("model_"), Model):
            copied.model_ = attribute_model(copied, model.schema)  # which reads the attributes of the copy
        return copied

    # Training.

    def fit(
        self,
        X: ModelInput,  # noqa: N803 (scikit-learn's names)
        y: ArrayLike | RankingDataset | None = None,
        *,
        valid: fit_arguments.ValidationInput = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        init_model: "Ranker | str | Path | None" = None,
        resume: bool = False,
        eval_sets: Mapping[str, RankingDataset | EvalSet] | None = None,
        callback: Callback | None = None,
        **others: Unpack[fit_arguments.EvalSetArguments],
    ) -> Self:
        """Train on a RankingDataset, ``fit(train, valid)``, or in scikit-learn's style, ``fit(X, y, qid=qid)``.

        ``qid`` has an id for each document, ``group`` the number of documents of each query. ``sample_weight`` has a
        number for each document: a weight of its query where it is the same within each, else of the document, for
        objectives that weigh documents. ``valid`` is a RankingDataset or a tuple (X, y, qid); LightGBM's and XGBoost's
        ``eval_set=[(X, y)]`` with ``eval_group`` or ``eval_qid`` is the same. ``init_model``, a trained ranker or its
        folder, is continued by as many rounds more. Data with ``init_scores`` start from these instead:
        the model learns what to add to them, and ``predict`` needs them too. ``resume`` starts from the checkpoint if
        there is one, and ends in the same model as a run that was never interrupted. Ctrl-C ends training and keeps the
        best model so far; before the first round is complete it raises KeyboardInterrupt. ``eval_sets`` names data sets
        on which the metrics are measured after every round, beside the validation data: with ``eval_sets={"train":
        train}`` there is ``history_["train ndcg@10"]``. ``callback`` is called after every round with its number and
        the history so far; what it raises ends training, and with :class:`rankwise.errors.StopTraining` the best model
        so far is kept.

        Rankers that are made of others pass ``callback`` to every training, keep ``checkpoint`` folders by which
        ``resume=True`` resumes, take no ``init_model``, and raise KeyboardInterrupt after Ctrl-C.
        """
        if others:
            eval_sets, callback = moved.taken("rw.Ranker.fit", others, eval_sets, callback)
            valid = fit_arguments.with_eval_set(valid, self, others)
        older = None if init_model is None else self.older(init_model)
        settings = TrainingSettings.of(self, resume=resume, callback=callback)
        columns: Keywords = {"valid": valid, "qid": qid, "group": group, "sample_weight": sample_weight}
        if older is not None:
            columns["older"] = older.model_.schema
        begin(settings.objective)
        exponential = settings.exponential_labels() if self.nested() is None else exponential_labels(self)
        train, held_out = fit_arguments.parts(X, y, pool=self.pools, exponential=exponential, **columns)
        measures: Mapping[str, EvalSet] = {}
        if eval_sets:
            measures = measures_of(
                eval_sets, lambda data: fit_arguments.aligned(data, train), self, debias=settings.debias
            )
        self._train(TrainingData(train=train, valid=held_out, older=older, eval_sets=measures), settings)
        return self

    def older(self, model: object) -> Any:
        """Return the trained ranker that ``init_model`` names."""
        return reject(self, "fit", {"init_model": model}, without=("init_model",))

    def _train(self, data: TrainingData, settings: TrainingSettings) -> None:
        """Train; rankers that are made of others do it in their own way."""
        if settings.resume and trains_at_once(self):
            hint = "leave `resume` out: it is trained at once"
            raise check.error(f"a {type(self).__name__} has no checkpoint to resume from", hint=hint)
        run.train(self, data, settings)

    def learner(self, data: TrainingData, settings: TrainingSettings) -> Learner[Any]:
        """Return what learns, round by round: it scores ``data.held_out`` after every one."""
        if not trains_at_once(self):
            raise NotImplementedError(f"{type(self).__name__} defines no _fit(train, valid)")
        fit_arguments.reject_start(data.train, self)
        return OneRound(self, data)

    def check_data(self, train: RankingDataset) -> None:
        """Raise what training on these data would raise for their columns, as far as that is known beforehand."""

    def settings_for(self, documents: int) -> Keywords:
        """Return what training on so many documents uses for parameters that the data decide; here, there are none."""
        return {}

    @property
    def loss_compares(self) -> bool:
        """Whether the losses of different rounds compare.

        Those of LambdaRank and its like do not: its pairs are weighed by the ranking of the round, and with ``norm`` by
        the spread of its scores, so that the loss may rise while the ranker learns. With constraints, its
        terms have other weights in every round.
        """
        nested = self.nested()
        if nested is not None:
            return all(one.loss_compares for one in nested.values())
        return trains_at_once(self) or TrainingSettings.of(self).loss_compares

    def nested(self) -> "Mapping[str, Ranker] | None":
        """Return the rankers that it is made of, by the names that their parameters begin with; None if it is not."""
        return None

    # On disk.

    def card(self, evaluation: model_card.Evaluations = None) -> str:
        """Return the model card as Markdown: training data, objective, settings, versions, and quality with intervals.

        ``evaluation`` is what :func:`rankwise.evaluate` returned, or several by the names of their data. Bags and
        blends add their out-of-fold evaluation, and :class:`rankwise.AutoRanker` its leaderboard.
        """
        check_fitted(self)
        return model_card.model_card(model_card.CardFacts(**card_facts(self)), evaluation)

    def save(self, path: str | Path, *, evaluation: model_card.Evaluations = None, force: bool = False) -> Path:
        """Write the model to the folder ``path``: the library's own file, ``rankwise.json`` and the card ``README.md``.

        The card is that of :meth:`card` with this ``evaluation``. A ranker that training turned into another, such as
        the choice of an AutoRanker, is saved as that one. The folder appears only once it is complete. One that exists
        is replaced only with ``force``, and stays as it was if anything goes wrong.
        """
        check_fitted(self)
        description, files = self.saved()
        queries = storage.training_queries(self.trained_queries_)
        return storage.write(path, description, files | queries, card=self.card(evaluation), force=force)

    def saved(self) -> tuple[Json, dict[str, bytes]]:
        """Return the description and the files of the model; raise if a file could not name this ranker."""
        if trains_at_once(self):
            attributes.check_parameters(self)
        table.check_named(self)
        return self.description(), self.model_.files()

    def recipe(self, without: Collection[str] = ()) -> Json:
        """Return what files hold of the ranker before it is trained; parameters may be left out."""
        parameters = {
            name: storage.plain(value)
            for name, value in self.get_params().items()
            if name != "objective" and name not in without
        }
        return {"ranker": self.name, "objective": expressions.objective_of(self), "parameters": parameters}

    def description(self) -> Json:
        """Return what files hold of the trained ranker, beside the model itself."""
        facts: Json = {
            "features": self.model_.schema.to_dict(),
            "best_round": self.best_round_,
            "stopped": self.stopped_,
            "history": self.history_,
            **({"scales": dict(self.scales_)} if self.scales_ else {}),
            "data": dict(self.trained_on_),
            **({"settings": self.settings_} if self.settings_for(0) else {}),
        }
        return self.recipe() | facts | self.model_.description()

    @classmethod
    def untrained(cls, recipe: Json) -> Self:
        """Return the ranker of a recipe."""
        parameters = {
            name: tuple(value) if name in _TUPLES and isinstance(value, list) else value
            for name, value in recipe["parameters"].items()
        }
        if "objective" in cls.own_parameters():
            parameters["objective"] = recipe["objective"]
        return cls(**parameters)

    @classmethod
    def from_description(cls, description: Json, files: dict[str, bytes]) -> Self:
        """Return the trained ranker of a description and its files."""
        ranker = cls.untrained(description)
        ranker.history_ = {name: [float(value) for value in column] for name, column in description["history"].items()}
        ranker.scales_ = {name: float(scale) for name, scale in description.get("scales", {}).items()}
        ranker.best_round_ = int(description["best_round"])
        ranker.stopped_ = str(description["stopped"])
        ranker.trained_on_ = model_card.trained_on(description)
        ranker.trained_queries_ = storage.read_training_queries(files)
        decided = ranker.settings_for(0)  # a net has other settings in its description
        ranker.settings_ = dict(description.get("settings", decided)) if decided else {}
        ranker.model_ = ranker.read_model(description, files, Schema.read(description["features"]))
        return ranker

    def read_model(self, description: Json, files: dict[str, bytes], schema: Schema) -> Model:
        """Return the model of a description and its files, and verify it."""
        attributes.restore(self, files, table.from_description)
        return attribute_model(self, schema)

    # For rankers of the user's.

    def _objective(self) -> Objective:
        """Return the parameter ``objective`` as an object."""
        return objective_of(self)

    def _predict(self, features: Any, offsets: Any) -> ArrayLike:
        """Score documents: the part of :meth:`predict` that a ranker of the user's defines."""
        raise NotImplementedError(f"{type(self).__name__} defines no _predict(features, offsets)")


class IterativeRanker(Ranker):
    """A ranker that learns in rounds.

    A subclass has the parameters ``seed, threads, patience, smoothing, stop_on, metrics, debias, checkpoint,
    checkpoint_every, progress`` and one named by ``unit``, and may have ``constraints``; :meth:`learner` learns.
    """

    seed: int

    def older(self, model: object) -> Any:
        """Return the trained ranker that ``init_model`` names."""
        if isinstance(model, str | Path):
            model = table.load(model)
        if not isinstance(model, type(self)):
            raise check.error(
                f"init_model must be a trained {type(self).__name__}, or its folder", got=type(model).__name__
            )
        check_fitted(model)
        return model

    def check_data(self, train: RankingDataset) -> None:
        """Raise an error about columns that the ranker or its objective needs, or does not take."""
        if train.categorical and not self.takes_categories:
            raise check.error(
                f"{type(self).__name__} takes numbers, and no categories",
                got=f"{len(train.categorical)} categorical columns, the first number {train.categorical[0]}",
                hint="make a column of 0 and 1 for each category, or use a ranker of trees",
            )
        if "objective" in self.own_parameters():
            TrainingSettings.of(self).columns(TrainingData(train=train))


def card_facts(ranker: Any) -> Keywords:
    """Return what the card of a trained ranker shows."""
    description = ranker.description()  # of what it became, where that is another ranker
    facts: Keywords = {
        "description": description,
        "title": expressions.title_of(ranker),
        "objective": description.get("objective", ""),
        "ranker": repr(ranker),
        "schema": ranker.model_.schema,
        "trained_on": ranker.trained_on_,
        "predicts": getattr(ranker, "predicts_", None),
        "of_users": hasattr(ranker, "recommend"),
    }
    if ranker.weighs or getattr(getattr(ranker, "ranker_", None), "weighs", False):  # members have their own
        facts |= {"title": facts["objective"], "objective": ""}
    with contextlib.suppress(AttributeError, ValueError):  # of a library, or of the user's and not known here
        facts["paper"] = objective_of(ranker).paper
    with contextlib.suppress(AttributeError, ValueError):  # a checkpoint has none
        facts["out_of_fold"] = ranker.out_of_fold_
    if (leaderboard := getattr(ranker, "leaderboard_", None)) is not None:
        facts["leaderboard"] = leaderboard.table()
    if "out_of_fold" not in facts:
        with contextlib.suppress(AttributeError, ValueError):  # a recommender has none; or one that is not known here
            columns = {str(one): ranker.history_.get(str(one)) for one in metrics_of(ranker)}
            best = ranker.best_round_
            facts["validation"] = {name: one[min(best, len(one)) - 1] for name, one in columns.items() if one}
    return facts
