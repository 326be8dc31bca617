"""A blend of rankers is a ranker: a weighted sum of scores, with weights chosen on queries that no member has seen."""

import copy
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.arrays import Array, Floats, Offsets, weighted_sum
from rankwise.data.dataset import RankingDataset
from rankwise.data.splits import fold_of_query
from rankwise.metrics import Metric, MetricLike
from rankwise.metrics import metrics as find_metrics
from rankwise.metrics.base import weighted_mean
from rankwise.plain import Json, Keywords
from rankwise.rankers import inputs, storage
from rankwise.rankers.base import Ranker
from rankwise.rankers.contributions import Contributions
from rankwise.rankers.ensembles import held_out
from rankwise.rankers.ensembles.bagged import bagged
from rankwise.rankers.ensembles.feature import FeatureRanker
from rankwise.rankers.ensembles.learner import packed, unpacked
from rankwise.rankers.ensembles.pooling import pooled
from rankwise.rankers.ensembles.weights import Weights, choose_weights
from rankwise.rankers.nets.ranker import NeuralRanker
from rankwise.rankers.schema import Documents
from rankwise.rankers.scoring.scorer import Scorer
from rankwise.rankers.table import any_class, load
from rankwise.rankers.training.checkpoints import FREE, fingerprint
from rankwise.rankers.training.finished import folder_of
from rankwise.rankers.training.ranker import Trained, Watch
from rankwise.rankers.training.validation import Measure, Validation, checked_names
from rankwise.rankers.trees.ranker import TreeRanker

if TYPE_CHECKING:
    import rankwise as rw

_IDENTITY = "blend.json"
Member = Trained | str | int
"""A ranker of trees or nets, a bag of them, or a feature by its name or number."""


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
        rankers: Rankers of trees or nets, or bags of them, none of them trained, and features, by name or by number
            from 0, whose direction is learned. Rankers are trained as clones, with their own settings and seeds.
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
    members_: tuple[Ranker, ...]
    """The trained members: bags, and features. A blend of one forest that was loaded has none."""
    weights_: Weights
    """What each member counts, and why."""
    ranker_: TreeRanker
    """Where all members are trees of one library: the one ranker that they became."""
    weighted: tuple[tuple[float, Ranker], ...] = ()
    """The factors and members whose scores are added up, where they are not one forest."""
    oof_scores_: Array
    """One score per document of the training and then the validation data, by members and weights that have not seen
    its query."""

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
        if isinstance(rankers, str | Ranker) or not isinstance(rankers, Iterable) or not list(rankers):
            hint = "pass several, such as rw.blended([rw.LightGBMRanker(), rw.NeuralRanker()])"
            raise check.error("a blend is made of a list of rankers", got=repr(rankers), hint=hint)
        for one in rankers:
            _check_member(one)

    # Parameters: its own, and those of the rankers.

    @property
    def objective(self) -> str:  # type: ignore[override]
        """What it is made of."""
        return f"blended({', '.join(self.titles)})"

    @property
    def titles(self) -> tuple[str, ...]:
        """What members are called; those that are called alike are numbered."""
        plain = [_title(one) for one in self.rankers]
        counts, seen = Counter(plain), Counter[str]()
        found = []
        for title in plain:
            seen[title] += 1
            found.append(title if counts[title] == 1 else f"{title} #{seen[title]}")
        return tuple(found)

    @property
    def _least_code(self) -> float:  # type: ignore[override]
        return max(one._least_code if isinstance(one, Ranker) else 0.0 for one in self.rankers)

    def get_params(self, deep: bool = True) -> Keywords:
        """Give the parameters of the blend, and those of its rankers as ``ranker_1__…``."""
        found = super().get_params(deep=False)
        for number, one in enumerate(self.rankers if deep else (), 1):
            if isinstance(one, Ranker):
                found |= {f"ranker_{number}__{name}": value for name, value in one.get_params().items()}
        return found

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters, of the blend or of a ranker: ``ranker_1__leaves=15``."""
        own = {name: value for name, value in parameters.items() if "__" not in name}
        super().set_params(**own)
        rankers = {f"ranker_{number}": one for number, one in enumerate(self.rankers, 1) if isinstance(one, Ranker)}
        for name, value in parameters.items():
            if name not in own:
                of, _, inner = name.partition("__")
                rankers[check.choice("ranker of the blend", of, rankers)].set_params(**{inner: value})
        return self

    def __sklearn_clone__(self) -> Self:
        """Give an untrained one."""
        own = self.get_params(deep=False)
        own["rankers"] = [one.__sklearn_clone__() if isinstance(one, Ranker) else one for one in self.rankers]
        cloned = type(self)(**own)
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
        members = self._untrained_members(metrics)
        if data.propensities is not None and any(getattr(member, "debias", False) for member in members):
            hint = "train members without debias, or on judged documents"
            raise check.error("weights of a blend are not chosen on clicks", got="a ranker with debias=True", hint=hint)
        checked_names(measure or {})
        kept = self._kept(members, data, resume=resume)
        for number, member in enumerate(members):
            members[number] = self._trained(member, number, data, kept, resume=resume, watch=watch)
        return self._blend(tuple(members), data, metrics, measure)

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
        bags = [one for one in rankers if isinstance(one, bagged)]
        for bag in bags:
            _check_trained_on(bag, bags[0], data)
        fresh = [one.__sklearn_clone__() if isinstance(one, bagged) else one for one in rankers]
        folds: Keywords = {}
        if bags:
            folds = {"folds": bags[0].folds, "repeats": bags[0].repeats, "seed": bags[0].seed_of_folds}
        blend = cls(fresh, metrics=metrics, **folds)
        asked = blend._metrics()
        made = blend._untrained_members(asked)
        members = [one if isinstance(one, bagged) else made[number] for number, one in enumerate(rankers)]
        for number, member in enumerate(members):
            if isinstance(member, FeatureRanker):
                members[number] = member.cross_fit(data, blend._fold(data))
        return blend._blend(tuple(members), data, asked, None)

    def _untrained_members(self, metrics: tuple[Metric, ...]) -> list[Any]:
        """Clones of the rankers, all as bags with the same folds, and features as rankers."""
        for name, least in (("folds", 2), ("repeats", 1), ("seed", 0)):
            check.integer(name, getattr(self, name), least=least)
        found: list[Any] = []
        for one in self.rankers:
            _check_member(one)
            if not isinstance(one, Ranker):
                found.append(FeatureRanker(one, metrics))
                continue
            if one.__sklearn_is_fitted__():
                hint = "pass new ones, or bags with their data to rw.blended.of_fitted"
                got = type(one).__name__
                raise check.error("a blend trains clones of rankers, and one is trained already", got=got, hint=hint)
            fresh = one.__sklearn_clone__()
            if not isinstance(fresh, bagged):
                fresh = bagged(fresh, self.folds, processes=self.processes, dask=self.dask)
            elif fresh.folds != self.folds:
                got, hint = f"folds={fresh.folds} and folds={self.folds}", "set the same folds"
                raise check.error("bags of a blend must have its folds", got=got, hint=hint)
            found.append(fresh.set_params(repeats=self.repeats, fold_seed=self.seed))
        return found

    def _kept(self, members: Sequence[Ranker], data: RankingDataset, *, resume: bool) -> Path | None:
        """The folder of trained members."""
        if self.checkpoint is None:
            if resume:
                raise check.error("resume needs a checkpoint", hint="set checkpoint=…, the folder where it is")
            return None
        identity = {"members": [_described(member, FREE) for member in members], "data": fingerprint(data)}
        same = "rankers, settings and data"
        return folder_of(Path(self.checkpoint), _IDENTITY, identity, what="blend", same=same, resume=resume)

    def _trained(
        self, member: Any, number: int, data: RankingDataset, kept: Path | None, *, resume: bool, watch: Watch | None
    ) -> Ranker:
        if isinstance(member, FeatureRanker):
            return member.cross_fit(data, self._fold(data))
        finished = None if kept is None else kept / f"member-{number + 1}"
        if finished is not None and finished.exists():
            found: Ranker = load(finished)
            return found
        if finished is not None:
            member.set_params(checkpoint=finished.with_name(f"{finished.name}-checkpoint"))
        where = f"member {number + 1} of {len(self.rankers)}, {self.titles[number]}"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="interrupted after", category=RuntimeWarning)
            member.fit(data, resume=resume and member.checkpoint is not None, watch=watch)
        if member.stopped_ == "interrupted":  # a member that is not complete would get a weight that is not its own
            raise KeyboardInterrupt(f"interrupted in {where}" + ("" if kept is None else f"; {kept} can be resumed"))
        if finished is not None:
            member.save(finished)
        return member  # type: ignore[no-any-return]

    def _fold(self, data: RankingDataset) -> Any:
        folds = min(self.folds, data.n_queries)
        return fold_of_query(data, folds, seed=self.seed) if folds > 1 else np.zeros(data.n_queries, np.int64)

    def _blend(
        self,
        members: tuple[Any, ...],
        data: RankingDataset,
        metrics: tuple[Metric, ...],
        measure: Mapping[str, RankingDataset | Measure] | None,
    ) -> Self:
        """Choose weights, and become the weighted sum of the members."""
        self.weights_, self.oof_scores_ = choose_weights(
            np.stack([member.oof_scores_ for member in members]),
            data.labels,
            data.offsets,
            metrics[0],
            names=self.titles,
            fold=self._fold(data),
            query_weights=data.weights,
            judged=data.judged,
        )
        self._values = held_out.values(self.oof_scores_, data, metrics)
        self._remember(data)
        self.history_ = {name: [weighted_mean(column, data.weights)] for name, column in self._values[0].items()}
        self.best_round_, self.stopped_ = 1, "complete"
        self._become(members)
        for name, one in (measure or {}).items():
            if not isinstance(one, Measure):
                other = inputs.aligned(one, data)
                one = Measure(other, Validation(other, metrics, debias=False))
            found = one.function(self.predict(one.data))
            self.history_ |= {f"{name} {key}": [float(value)] for key, value in found.items()}
        return self

    def _become(self, members: tuple[Any, ...]) -> None:
        """Add members up: to one forest, where that can be."""
        self.members_ = members
        self.weighted = tuple(pair for pair in zip(self.weights_.factors, members, strict=True) if pair[0])
        self.__dict__.pop("ranker_", None)
        self._importances = None
        if all(hasattr(member, "feature_importances_") for _, member in self.weighted):
            shares = zip(self.weights_.values, members, strict=True)
            self._importances = weighted_sum((share, one.feature_importances_) for share, one in shares if share)
        forests: list[Any] = [getattr(member, "ranker_", None) for _, member in self.weighted]
        if all(isinstance(one, TreeRanker) for one in forests) and len({type(one) for one in forests}) == 1:
            ranker: Any = forests[0].__sklearn_clone__()
            forest = ranker.library.sum([one.model_ for one in forests], [factor for factor, _ in self.weighted])
            if forest is not None:
                ranker.model_ = forest
                self._become_forest(ranker)

    def _become_forest(self, ranker: Any) -> None:
        ranker._schema = self._schema
        ranker.history_, ranker.best_round_, ranker.stopped_ = self.history_, self.best_round_, self.stopped_
        self.ranker_, self.weighted = ranker, ()

    # Scores: of one forest, or the weighted sum of members'.

    @property
    def feature_importances_(self) -> Array:
        """The mean of members' shares of each feature in the gain of all splits, by their weights."""
        self._check_fitted()
        if self._importances is None:
            raise AttributeError("a net tells no importances of features, nor does a blend with one")
        return self._importances

    def contributions(self, data: Documents) -> Contributions:
        """Give the contributions of the one forest, or the weighted sum of those of all members."""
        self._check_fitted()
        if not self.weighted:
            return self.ranker_.contributions(data)
        found = [(factor, member.contributions(data)) for factor, member in self.weighted]
        first = found[0][1]
        return Contributions(
            parts=weighted_sum((factor, one.parts) for factor, one in found),
            left=weighted_sum((factor, one.left) for factor, one in found),
            method="weighted sum of " + ", ".join(sorted({one.method for _, one in found})),
            start="weighted sum of " + ", ".join(sorted({one.start for _, one in found})),
            features=first.features,
            schema=first.schema,
        )

    def scorer(self) -> Scorer:
        """Give what scores one query's documents in the least time."""
        self._check_fitted()
        return Scorer(self) if self.weighted else self.ranker_.scorer()

    @property
    def out_of_fold_(self) -> "rw.Evaluation":
        """How good the out-of-fold scores are, by query and with intervals: an estimate without a validation set.

        No query is scored by a member that has seen it, nor by weights that were selected on it.
        """
        self._check_fitted()
        import rankwise as rw  # the public name: evaluations are made above rankers

        return rw.Evaluation(*self._values)

    @property
    def needs_lists(self) -> bool:
        """Whether a score depends on the other documents of its query."""
        return any(member.needs_lists for _, member in self.weighted)

    def _score(self, features: Floats) -> Array:
        return self._score_lists(features, None)

    def _score_lists(self, features: Floats, offsets: Offsets | None) -> Array:
        if not self.weighted:
            return self.ranker_._score(features)
        return weighted_sum((factor, member._score_lists(features, offsets)) for factor, member in self.weighted)

    # On disk.

    def _parameters(self, without: Collection[str] = ()) -> Json:
        own = {name: storage.plain(getattr(self, name)) for name in self.own_parameters() if name not in without}
        rankers = [_described(one, without) if isinstance(one, Ranker) else one for one in self.rankers]
        return own | {"rankers": rankers}

    def _description(self) -> Json:
        made: Json = {"members": [member._description() for member in self.members_]} if self.weighted else {}
        if not self.weighted:
            made = {"forest": self.ranker_.name, **self.ranker_._made_of(self.ranker_.model_.n_trees)}
        shares = None if self._importances is None else self._importances.tolist()
        return super()._description() | {"weights": self.weights_.written(), "importances": shares} | made

    def _files(self) -> dict[str, bytes]:
        own = packed([member._files() for member in self.members_]) if self.weighted else self.ranker_._files()
        return own | held_out.files(self.oof_scores_, *self._values)

    @classmethod
    def _untrained(cls, description: Json) -> Self:
        own = dict(description["parameters"])
        rankers = [
            any_class(one["ranker"])._untrained(one) if isinstance(one, dict) else one for one in own.pop("rankers")
        ]
        metrics = own.pop("metrics")
        return cls(rankers, metrics=tuple(metrics) if isinstance(metrics, list) else metrics, **own)

    def _restore(self, description: Json, files: dict[str, bytes]) -> None:
        self.weights_ = Weights.read(description["weights"])
        if "members" in description:
            made = description["members"]
            pairs = zip(made, unpacked(files, len(made)), strict=True)
            self._become(tuple(any_class(one["ranker"])._from_description(one, own) for one, own in pairs))
        else:
            first: Any = next(one for one, factor in zip(self.rankers, self.weights_.factors, strict=True) if factor)
            ranker: Any = (first.ranker if isinstance(first, bagged) else first).__sklearn_clone__()
            ranker._schema = self._schema
            ranker._restore(description, files)
            self._become_forest(ranker)
        shares = description["importances"]
        self._importances = None if shares is None else np.array(shares, np.float64)
        found = held_out.read(files)
        if found is None:
            raise check.error("a blend without its out-of-fold scores", hint="get the folder again, or train anew")
        self.oof_scores_, self._values = found


def _check_member(one: object) -> None:
    if isinstance(one, TreeRanker | NeuralRanker | bagged | str | int) and not isinstance(one, bool):
        return
    got = f"the class {one.__name__}" if isinstance(one, type) else type(one).__name__
    hint = "pass rankers that are not trained yet, such as rw.LightGBMRanker(), and names or numbers of features"
    raise check.error("a blend is made of rankers of trees or nets, bags of them, and features", got=got, hint=hint)


def _title(one: Member) -> str:
    if isinstance(one, int):
        return f"column {one}"
    if isinstance(one, str):
        return one
    return f"{one.ranker.name if isinstance(one, bagged) else one.name}({one._objective_expression()})"


def _described(one: Ranker, without: Collection[str] = ()) -> Json:
    """A ranker that is not trained, as files hold it."""
    return {
        "ranker": one.name,
        "objective": one._objective_expression(),
        "parameters": one._parameters(without),
    }


def _check_trained_on(bag: bagged, first: bagged, data: RankingDataset) -> None:
    """Check that a bag was trained with the folds of the first, and on these data as far as can be seen."""
    bag._check_fitted()
    shared = [(one.folds, one.repeats, one.seed_of_folds) for one in (bag, first)]
    if shared[0] != shared[1]:
        got = " and ".join(f"folds={a}, repeats={b}, seed={c}" for a, b, c in shared)
        hint = "train them with the same folds, repeats and fold_seed"
        raise check.error("bags of a blend must share their folds", got=got, hint=hint)
    _, ids, _ = bag._values
    known = np.arange(data.n_queries) if data.query_ids is None else data.query_ids
    if bag.oof_scores_.size != data.n_docs or not np.array_equal(ids, known):
        got = f"{bag.oof_scores_.size} out-of-fold scores for {data.n_docs} documents, or other queries"
        hint = "pass the training and validation data that the bags were trained on"
        raise check.error("a bag was trained on other data", got=got, hint=hint)
