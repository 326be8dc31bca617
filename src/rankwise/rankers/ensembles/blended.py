"""A blend of rankers is a ranker: a weighted sum of scores, with weights chosen on queries that no member has seen."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.base.arrays import Array, Json, Keywords, weighted_sum
from rankwise.check.docstrings import documented
from rankwise.check.parameters import OneOf, Option, Unset, assign
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import Metric, MetricLike
from rankwise.metrics.base import lists_for, weighted_mean
from rankwise.models import storage
from rankwise.models.model import Model
from rankwise.models.schema import ModelInput, Schema
from rankwise.models.sums import added_up, packed, unpacked
from rankwise.quality import leakage
from rankwise.rankers import fit_arguments
from rankwise.rankers.base import Ranker
from rankwise.rankers.ensembles import blend_members
from rankwise.rankers.ensembles.bagged import bagged
from rankwise.rankers.ensembles.blend_members import Folds, Member
from rankwise.rankers.ensembles.blend_weights import AVERAGE, GREEDY, Weights, choose
from rankwise.rankers.ensembles.feature import FeatureRanker
from rankwise.rankers.ensembles.meta import EnsembleRanker, out_of_fold_of
from rankwise.rankers.ensembles.out_of_fold import HeldOut
from rankwise.rankers.sklearn import check_fitted
from rankwise.rankers.table import any_class, check_named, from_description
from rankwise.rankers.training import parameters as training
from rankwise.rankers.training import run
from rankwise.rankers.training.settings import TrainingData, TrainingSettings, metrics_of


@documented
class blended(EnsembleRanker):  # noqa: N801 (wrappers are adjectives)
    """A ranker made of different ones: a weighted sum of their scores, with weights chosen out of fold.

    Training and validation queries are pooled. Every member is trained as a bag (:class:`rw.bagged
    <rankwise.rankers.ensembles.bagged.bagged>`), all with the same folds, so that there is a score of every document by
    a model that has not seen its query. From these scores weights are chosen that are not negative; few queries keep
    them near those of the best member or near equal ones: see ``weights_``, which prints as a table, and
    :func:`choose_weights <rankwise.rankers.ensembles.blend_weights.choose_weights>`. Each member's scores are divided
    by their spread within lists, out of fold, which is one number for each, so that single documents can be scored.

    Where all members with a weight are trees of one library, the blend is one forest in its own format (``ranker_``):
    files, exports, scorers and contributions are those of a single ranker. Other blends keep their members, and cannot
    be exported.

    Bags that are trained already, with as many folds on the same data, are blended by :meth:`of_fitted`.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=60, n_docs=10, seed=1)
    >>> settings = {"rounds": 20, "leaves": 4, "smoothing": 3, "threads": 1}
    >>> rankers = [rw.LightGBMRanker(name, **settings) for name in ("lambdarank", "xendcg")]
    >>> blend = rw.blended([*rankers, 0], folds=3).fit(data)
    >>> blend.weights_.names, round(sum(blend.weights_.values), 9)
    (('lightgbm(lambdarank)', 'lightgbm(xendcg)', 'column 0'), 1.0)
    >>> blend.oof_scores_.shape == (data.n_docs,)
    True
    """

    name = "blended"
    weighs = True
    weights_: Weights
    """What each member counts, and why."""
    _members: tuple[Any, ...] | None = None
    """Trained members, also those without a weight; None of one forest that was read, which has forgotten them."""
    _importances: Array | None = None
    """The mean of members' importances of features by their weights, if all that have a weight have some."""

    def __init__(
        self,
        rankers: Annotated[
            Sequence[Member],
            """Rankers of trees or nets, or of the user's, or bags of them, none of them trained, and features, by name
            or by number from 0, whose direction is learned. Rankers are trained as clones, with their own settings and
            seeds.""",
        ],
        folds: Annotated[training.Folds, "Bags among the rankers must have as many."] = 5,
        *,
        repeats: Annotated[training.Repeats, "Of bags, too."] = 1,
        seed: Annotated[training.Seed, "It decides on the folds; rankers have their own."] = 0,
        weights: Annotated[
            str,
            OneOf((GREEDY, AVERAGE)),
            """``"greedy"`` weights, as above, or the ``"average"``: equal weights of all rankers but those that are
            surely worse than the best, by two standard errors of the difference, paired by query. Rankers of a kind
            share the weight of one: trees of one objective, and nets. What few queries tell of weights is mostly luck:
            :class:`rw.AutoRanker <rankwise.wings.tuning.auto.ranker.AutoRanker>` averages.""",
            Option(group="Training"),
        ] = GREEDY,
        metrics: Annotated[
            MetricLike | Sequence[MetricLike] | None,
            Unset("those of the first ranker"),
            "Metrics, of which the first decides on weights; by default those of the first ranker.",
            Option(short="-m", metavar="LIST", group="Training"),
        ] = None,
        processes: Annotated[training.Processes, "Bags among the rankers have their own."] = 1,
        dask: training.Dask = None,
        checkpoint: Annotated[
            str | Path | None,
            """Folder that keeps every member that is trained, and the checkpoints of the one in training, after as many
            rounds as it says itself; ``fit(…, resume=True)`` resumes from there.""",
            Option(metavar="DIR", group="Running"),
        ] = None,
    ) -> None:
        assign(self, locals())
        blend_members.check_members(rankers)

    # Parameters: its own, and those of the rankers.

    def nested(self) -> Mapping[str, Ranker]:
        """Return the rankers among its members."""
        return {f"ranker_{number}": one for number, one in enumerate(self.rankers, 1) if isinstance(one, Ranker)}

    @property
    def objective(self) -> str:  # type: ignore[override]
        """What it is made of."""
        return f"blended({', '.join(self.titles)})"

    @property
    def titles(self) -> tuple[str, ...]:
        """What members are called; those that are called alike are numbered."""
        return blend_members.titles(self.rankers)

    # Training.

    def _train(self, data: TrainingData, settings: TrainingSettings) -> None:
        """Train members on the pooled queries, one after the other, and choose their weights.

        ``eval_sets`` is of the blend, ``callback`` of every member. Ctrl-C raises KeyboardInterrupt; with a
        ``checkpoint``, members that were trained are kept, and ``resume=True`` resumes.
        """
        fit_arguments.reject_start(data.train, self)
        metrics = metrics_of(self, data.train)
        folds = Folds(self.folds, self.repeats, self.seed)
        where: Keywords = {"processes": self.processes, "dask": self.dask}
        members = blend_members.untrained(self.rankers, folds, metrics, **where)
        with leakage.checked():
            bags = blend_members.trained(members, data.train, folds, settings)
        self._blend(bags, data.train, metrics)
        run.measure_after(self, replace(data, valid=None))

    @classmethod
    def of_fitted(
        cls,
        rankers: Sequence["bagged | str | int"],
        X: ModelInput,  # noqa: N803 (scikit-learn's names)
        y: ArrayLike | RankingDataset | None = None,
        *,
        weights: str = GREEDY,
        metrics: MetricLike | Sequence[MetricLike] | None = None,
        valid: fit_arguments.ValidationInput = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Blend bags that are trained, and features; nothing is trained again.

        The bags must have been trained with the same ``folds`` and ``repeats``, on the data that are passed, training
        and validation data as they were then; each may divide them by a ``fold_seed`` of its own.

        >>> import rankwise as rw
        >>> data = rw.synthetic(n_queries=30, n_docs=10, seed=1)
        >>> settings = {"rounds": 5, "leaves": 4, "threads": 1}
        >>> names = ("lambdarank", "xendcg")
        >>> bags = [rw.bagged(rw.LightGBMRanker(name, **settings), folds=2).fit(data) for name in names]
        >>> blend = rw.blended.of_fitted(bags, data)
        >>> blend.members_[0] is bags[0], sum(blend.weights_.values)
        (True, 1.0)
        """
        columns: Keywords = {"valid": valid, "qid": qid, "group": group, "sample_weight": sample_weight}
        data, _ = fit_arguments.parts(X, y, pool=True, **columns)
        shared = blend_members.shared_folds(rankers, data)
        folds: Keywords = {"folds": shared.count, "repeats": shared.repeats, "seed": shared.seed} if shared else {}
        blend = cls(rankers, weights=weights, metrics=metrics, **folds).__sklearn_clone__()
        measured, fold = metrics_of(blend, data), Folds(blend.folds, blend.repeats, blend.seed).of(data)
        members = [
            one if isinstance(one, bagged) else FeatureRanker(one, measured).cross_fit(data, fold) for one in rankers
        ]
        blend._blend(members, data, measured)
        return blend

    def _blend(self, members: Sequence[Any], data: RankingDataset, metrics: tuple[Metric, ...]) -> None:
        """Choose weights, and become the weighted sum of the members."""
        fit_arguments.reject_start(data, self)
        # A feature has no number of rounds to choose.
        cross_fitted = [
            out_of_fold_of(one).cross_fitted if isinstance(one, bagged) else one.oof_scores_ for one in members
        ]
        kinds = [blend_members.member_kind(one) for one in self.rankers]
        weights, scores, reported = choose(
            np.stack([member.oof_scores_ for member in members]),
            np.stack(cross_fitted),
            lists_for(metrics[:1], data),
            metrics[0],
            names=self.titles,
            fold=Folds(self.folds, self.repeats, self.seed).of(data),
            query_weights=data.weights,
            rule=self.weights,
            groups=[kinds.index(one) for one in kinds],
        )
        self.held_out_ = HeldOut.measured(scores, reported, data, metrics)
        run.remember(self, TrainingData(train=data))
        self.history_ = {name: [weighted_mean(column, data.weights)] for name, column in self.held_out_.values.items()}
        self.best_round_, self.stopped_ = 1, "complete"
        self._add_up(members, weights)

    def _add_up(self, members: Sequence[Any], weights: Weights) -> None:
        """Add members up by their weights."""
        self._members, self.weights_ = tuple(members), weights
        counted = [(factor, one) for factor, one in zip(weights.factors, members, strict=True) if factor]
        self._importances = None
        if all(hasattr(one, "feature_importances_") for _, one in counted):
            shares = zip(weights.values, members, strict=True)
            self._importances = weighted_sum((share, one.feature_importances_) for share, one in shares if share)
        models = [one.model_ for _, one in counted]
        first = counted[0][1]
        like = first.ranker_ if hasattr(first, "ranker_") else first
        self._become_sum(added_up(models, [factor for factor, _ in counted]), like, getattr(like, "settings_", {}))

    # What it became: one forest, or the weighted sum of members.

    @property
    def members_(self) -> tuple[Ranker, ...]:
        """The trained members: bags, and features. A blend of one forest that was loaded has none."""
        if self._members is None:
            raise AttributeError("a blend that was loaded as one forest has no members")
        return self._members

    @property
    def weighted(self) -> tuple[tuple[float, Ranker], ...]:
        """The factors and members whose scores are added up, where they are not one forest."""
        pairs = zip(self.weights_.factors, self._members or (), strict=self._members is not None)
        return tuple((factor, one) for factor, one in pairs if factor) if self._forest is None else ()

    @property
    def feature_importances_(self) -> Array:
        """The mean of members' shares of each feature in the gain of all splits, by their weights."""
        check_fitted(self)
        if self._importances is None:
            hint = "abs(blend.explain(data))[:, :-1].mean(axis=0) says how much each feature moves scores"
            what = "a net tells no importances of features, nor does a blend with one"
            raise AttributeError(check.Message(what, hint=hint))
        return self._importances

    # On disk.

    def recipe(self, without: Collection[str] = ()) -> Json:
        """Return what files hold of the blend and its members before training."""
        parameters = {name: storage.plain(getattr(self, name)) for name in self.own_parameters() if name not in without}
        members = [blend_members.member_description(one, without) for one in self.rankers]
        return {"ranker": self.name, "objective": self.objective, "parameters": parameters | {"rankers": members}}

    def description(self) -> Json:
        """Return weights and importances, and the descriptions of members that did not become one forest."""
        importances = None if self._importances is None else self._importances.tolist()
        description = super().description() | {"weights": self.weights_.to_dict(), "importances": importances}
        if self._forest is None:
            return description | {"members": [one.description() for one in self._members or ()]}
        return description | {"forest": self._forest.name, "settings": self._forest.settings_}

    def saved(self) -> tuple[Json, dict[str, bytes]]:
        """Return the description and the files of one forest, or of all members; and out-of-fold scores."""
        if self._forest is not None:
            return super().saved()
        check_named(self)
        files = packed([one.saved()[1] for one in self._members or ()])
        return self.description(), files | self.held_out_.files()

    @classmethod
    def untrained(cls, recipe: Json) -> Self:
        """Return the blend of a recipe."""
        parameters = dict(recipe["parameters"])
        rankers, metrics = parameters.pop("rankers"), parameters.pop("metrics")
        members = [any_class(one["ranker"]).untrained(one) if isinstance(one, dict) else one for one in rankers]
        return cls(members, metrics=tuple(metrics) if isinstance(metrics, list) else metrics, **parameters)

    def read_model(self, description: Json, files: dict[str, bytes], schema: Schema) -> Model:
        """Read one forest, or all members."""
        weights, importances = Weights.read(description["weights"]), description["importances"]
        counted = [one for one, factor in zip(self.rankers, weights.factors, strict=True) if factor]
        held_out = HeldOut.read(files)
        if held_out is None or not counted:
            lacks = "weights" if held_out is not None else "its out-of-fold scores"
            raise check.error(f"a blend without {lacks}", hint="get the folder again, or train anew")
        self.held_out_, self.weights_ = held_out, weights
        if "members" in description:
            descriptions = description["members"]
            pairs = zip(descriptions, unpacked(files, len(descriptions)), strict=True)
            self._add_up([from_description(one, part) for one, part in pairs], weights)
        else:
            first: Any = counted[0]
            like = first.ranker if isinstance(first, bagged) else first
            settings = dict(description.get("settings", like.settings_for(0)))
            self._become_sum(like.read_model(description, files, schema), like, settings)
        self._importances = None if importances is None else np.array(importances, np.float64)
        return self.model_
