"""A blend of rankers is a ranker: a weighted sum of scores, with weights chosen on queries that no member has seen."""

import copy
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwise.arrays import Array, Floats, Json, Keywords, Offsets
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import Metric, MetricLike
from rankwise.metrics import metrics as find_metrics
from rankwise.metrics.base import weighted_mean
from rankwise.rankers import inputs, storage
from rankwise.rankers.base import Ranker
from rankwise.rankers.contributions import Contributions
from rankwise.rankers.ensembles import blend_members, blend_training
from rankwise.rankers.ensembles.bagged import bagged
from rankwise.rankers.ensembles.blend_members import Member
from rankwise.rankers.ensembles.combined import Combined
from rankwise.rankers.ensembles.feature import FeatureRanker
from rankwise.rankers.ensembles.held_out import HeldOut
from rankwise.rankers.ensembles.mixture import Mixture
from rankwise.rankers.ensembles.pooling import pooled
from rankwise.rankers.ensembles.weights import Weights, choose
from rankwise.rankers.schema import Documents
from rankwise.rankers.scoring.scorer import Scorer
from rankwise.rankers.training.session import Watch
from rankwise.rankers.training.validation import Measure, checked_names
from rankwise.rankers.trees.ranker import TreeRanker

if TYPE_CHECKING:
    from rankwise.statistics.evaluation import Evaluation


class blended(Ranker):  # noqa: N801 (wrappers are adjectives)
    """A ranker made of different ones: a weighted sum of their scores, with weights chosen out of fold.

    Training and validation queries are pooled. Every member is trained as a bag (:class:`rw.bagged
    <rankwise.rankers.ensembles.bagged.bagged>`), all with the same folds, so that there is a score of every document by
    a model that has not seen its query. From these scores weights are chosen that are not negative; few queries keep
    them near those of the best member or near equal ones: see ``weights_``, which prints as a table, and
    :func:`choose_weights <rankwise.rankers.ensembles.weights.choose_weights>`. Each member's scores are divided by
    their spread within lists, out of fold, which is one number for each, so that single documents can be scored.

    Where all members with a weight are trees of one library, the blend is one forest in its own format (``ranker_``):
    files, exports, scorers and contributions are those of a single ranker. Other blends keep their members, and cannot
    be exported.

    Bags that are trained already, with the same folds on the same data, are blended by :meth:`of_fitted`.

    Args:
        rankers: Rankers of trees or nets, or of one's own, or bags of them, none of them trained, and features, by
            name or by number from 0, whose direction is learned. Rankers are trained as clones, with their own
            settings and seeds.
        folds: Into how many parts queries fall, by their ids and ``seed``; bags among the rankers must have as many.
        repeats: How often that is done, with other folds each time; of bags, too.
        seed: Of the folds.
        metrics: The first decides on weights; by default those of the first ranker.
        processes: How many processes train members of a bag side by side; bags among the rankers say so themselves.
        dask: The address of a Dask cluster whose workers train them instead.
        checkpoint: A folder that keeps every member that is trained, and the checkpoints of that which is being
            trained, after as many rounds as it says itself; ``fit(…, resume=True)`` resumes from there.

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
    _mixture: Mixture
    """What training made of the rankers."""

    def __init__(
        self,
        rankers: Sequence[Member],
        folds: int = 5,
        *,
        repeats: int = 1,
        seed: int = 0,
        metrics: MetricLike | Sequence[MetricLike] | None = None,
        processes: int = 1,
        dask: str | None = None,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.rankers = rankers
        self.folds = folds
        self.repeats = repeats
        self.seed = seed
        self.metrics = metrics  # type: ignore[assignment]
        self.processes = processes
        self.dask = dask
        self.checkpoint = checkpoint
        self.native = {}
        blend_members.check_members(rankers)

    # Parameters: its own, and those of the rankers.

    @property
    def objective(self) -> str:  # type: ignore[override]
        """What it is made of."""
        return f"blended({', '.join(self.titles)})"

    @property
    def titles(self) -> tuple[str, ...]:
        """What members are called; those that are called alike are numbered."""
        return blend_members.titles(self.rankers)

    @property
    def _least_code(self) -> float:  # type: ignore[override]
        return max(one._least_code if isinstance(one, Ranker) else 0.0 for one in self.rankers)

    def get_params(self, deep: bool = True) -> Keywords:
        """Give the parameters of the blend, and those of its rankers as ``ranker_1__…``."""
        return super().get_params(deep=False) | (blend_members.parameters(self.rankers) if deep else {})

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters, of the blend or of a ranker: ``ranker_1__leaves=15``."""
        super().set_params(**{name: value for name, value in parameters.items() if "__" not in name})
        blend_members.set_parameters(self.rankers, {name: parameters[name] for name in parameters if "__" in name})
        return self

    def __sklearn_clone__(self) -> Self:
        """Give an untrained one."""
        cloned = type(self)(**self.get_params(deep=False) | {"rankers": blend_members.fresh(self.rankers)})
        if hasattr(self, "_metadata_request"):
            cloned._metadata_request = copy.deepcopy(self._metadata_request)
        return cloned

    def _metrics(self) -> tuple[Metric, ...]:
        asked: Any = self.metrics
        if asked is not None:
            return super()._metrics()
        return next((one._metrics() for one in self.rankers if isinstance(one, Ranker)), find_metrics(("ndcg@10",)))

    # Training.

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
        **others: Never,
    ) -> Self:
        """Train members on the pooled queries, one after the other, and choose their weights.

        Arguments are those of any ranker. ``measure`` is of the blend, ``watch`` of every member. Ctrl-C raises
        KeyboardInterrupt; with a ``checkpoint``, members that were trained are kept, and ``resume=True`` resumes.
        """
        self._refuse("fit", others)
        metrics = self._metrics()
        data = pooled(X, y, valid=valid, qid=qid, group=group, sample_weight=sample_weight)
        folds = self._folds()
        checked_names(measure or {})
        bags = blend_training.untrained(self.rankers, folds, metrics, processes=self.processes, dask=self.dask)
        kept: Keywords = {"checkpoint": self.checkpoint, "resume": resume}
        members = blend_training.train(bags, self.titles, data, folds, **kept, watch=watch)
        self._blend(members, data, metrics)
        self.history_ |= blend_training.measured(self, measure or {}, data, metrics)
        return self

    @classmethod
    def of_fitted(
        cls,
        rankers: Sequence["bagged | str | int"],
        X: Documents,  # noqa: N803 (scikit-learn's names)
        y: ArrayLike | RankingDataset | None = None,
        *,
        metrics: MetricLike | Sequence[MetricLike] | None = None,
        valid: inputs.Validation = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Blend bags that are trained, and features; nothing is trained again.

        The bags must have been trained with the same ``folds``, ``repeats`` and seed of the folds (``fold_seed``, or
        the ``seed`` of their rankers), on the data that are passed, training and validation data as they were then.

        >>> import rankwise as rw
        >>> data = rw.synthetic(n_queries=30, n_docs=10, seed=1)
        >>> settings = {"rounds": 5, "leaves": 4, "threads": 1}
        >>> names = ("lambdarank", "xendcg")
        >>> bags = [rw.bagged(rw.LightGBMRanker(name, **settings), folds=2).fit(data) for name in names]
        >>> blend = rw.blended.of_fitted(bags, data)
        >>> blend.members_[0] is bags[0], sum(blend.weights_.values)
        (True, 1.0)
        """
        data = pooled(X, y, valid=valid, qid=qid, group=group, sample_weight=sample_weight)
        shared = blend_training.shared_folds(rankers, data)
        given: Keywords = {"folds": shared.count, "repeats": shared.repeats, "seed": shared.seed} if shared else {}
        blend = cls(blend_members.fresh(rankers), metrics=metrics, **given)
        asked, fold = blend._metrics(), blend._folds().of(data)
        members = [
            one if isinstance(one, bagged) else FeatureRanker(one, asked).cross_fit(data, fold) for one in rankers
        ]
        return blend._blend(members, data, asked)

    def _folds(self) -> blend_training.Folds:
        return blend_training.Folds(self.folds, self.repeats, self.seed)

    def _blend(self, members: Sequence[Any], data: RankingDataset, metrics: tuple[Metric, ...]) -> Self:
        """Choose weights, and become the weighted sum of the members."""
        weights, scores, cross_fitted = choose(
            np.stack([member.oof_scores_ for member in members]),
            np.stack([_cross_fitted(member) for member in members]),
            data.labels,
            data.offsets,
            metrics[0],
            names=self.titles,
            fold=self._folds().of(data),
            query_weights=data.weights,
            judged=data.judged,
        )
        held_out = HeldOut.measured(scores, cross_fitted, data, metrics)
        self._remember(data)
        self.history_ = {name: [weighted_mean(column, data.weights)] for name, column in held_out.values.items()}
        self.best_round_, self.stopped_ = 1, "complete"
        self._mixture = Mixture.of(self, members, weights, held_out)
        return self

    # What it became: one forest, or the weighted sum of members.

    @property
    def members_(self) -> tuple[Ranker, ...]:
        """The trained members: bags, and features. A blend of one forest that was loaded has none."""
        if self._mixture.members is None:
            raise AttributeError("a blend that was loaded as one forest has no members")
        return self._mixture.members

    @property
    def weights_(self) -> Weights:
        """What each member counts, and why."""
        return self._mixture.weights

    @property
    def ranker_(self) -> TreeRanker:
        """Where all members are trees of one library: the one ranker that they became."""
        return self._combined.ranker

    @property
    def weighted(self) -> tuple[tuple[float, Ranker], ...]:
        """The factors and members whose scores are added up, where they are not one forest."""
        return tuple(zip(self._combined.factors or (), self._combined.rankers, strict=True))

    @property
    def _combined(self) -> Combined:
        return self._mixture.combined if hasattr(self, "_mixture") else Combined()

    @property
    def oof_scores_(self) -> Array:
        """One score per document of the training and then the validation data.

        Neither the members nor the weights that it is made with have seen its query. The numbers of rounds of the
        members were chosen on all queries: a metric of these scores is a little too good, and ``out_of_fold_`` is not.
        """
        return self._mixture.held_out.scores

    @property
    def out_of_fold_(self) -> "Evaluation":
        """How good the blend is on new queries, by query and with intervals: an estimate without a validation set.

        No query is scored by a member that has seen it, nor after a number of rounds or by weights that were chosen on
        it.
        """
        self._check_fitted()
        return self._mixture.held_out.evaluation()

    @property
    def feature_importances_(self) -> Array:
        """The mean of members' shares of each feature in the gain of all splits, by their weights."""
        self._check_fitted()
        if self._mixture.importances is None:
            raise AttributeError(
                "a net tells no importances of features, nor does a blend with one. Hint: "
                "abs(blend.explain(data))[:, :-1].mean(axis=0) says how much each feature moves scores."
            )
        return self._mixture.importances

    def contributions(self, data: Documents) -> Contributions:
        """Give the contributions of the one forest, or the weighted sum of those of all members."""
        self._check_fitted()
        return self._combined.contributions(data)

    def scorer(self) -> Scorer:
        """Give what scores one query's documents in the least time."""
        self._check_fitted()
        return self._combined.scorer(self)

    @property
    def needs_lists(self) -> bool:
        """Whether a score depends on the other documents of its query."""
        return self._combined.needs_lists

    def _score(self, features: Floats) -> Array:
        return self._score_lists(features, None)

    def _score_lists(self, features: Floats, offsets: Offsets | None) -> Array:
        return self._combined.score(features, offsets)

    # On disk.

    def _parameters(self, without: Collection[str] = ()) -> Json:
        own = {name: storage.plain(getattr(self, name)) for name in self.own_parameters() if name not in without}
        return own | {"rankers": [blend_members.described(one, without) for one in self.rankers]}

    def _description(self) -> Json:
        return super()._description() | self._mixture.description()

    def _files(self) -> dict[str, bytes]:
        return self._mixture.files()

    @classmethod
    def _untrained(cls, description: Json) -> Self:
        own = dict(description["parameters"])
        rankers, metrics = [blend_members.read(one) for one in own.pop("rankers")], own.pop("metrics")
        return cls(rankers, metrics=tuple(metrics) if isinstance(metrics, list) else metrics, **own)

    def _restore(self, description: Json, files: dict[str, bytes]) -> None:
        self._mixture = Mixture.read(self, self.rankers, description, files)


def _cross_fitted(member: Any) -> Array:
    """Scores of a member by which its value is reported; a feature has no number of rounds to choose."""
    found: Array = member._out_of_fold().cross_fitted if isinstance(member, bagged) else member.oof_scores_
    return found
