"""A bag of rankers is a ranker: cross-fitted by query, stopped together, and added up."""

import contextlib
import copy
import inspect
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, Self

from numpy.typing import ArrayLike

from rankwise import check, user_code
from rankwise.arrays import Array, Floats, Json, Keywords, Offsets
from rankwise.data.dataset import RankingDataset
from rankwise.rankers import expressions, inputs, storage
from rankwise.rankers.at_once import OF_ANY, OF_TRAINING, trains_at_once
from rankwise.rankers.base import Ranker
from rankwise.rankers.contributions import Contributions
from rankwise.rankers.ensembles.combined import Combined
from rankwise.rankers.ensembles.cross_fitted import CrossFitted, OutOfFold
from rankwise.rankers.ensembles.held_out import HeldOut
from rankwise.rankers.ensembles.learner import BagLearner, unpacked
from rankwise.rankers.ensembles.members import Learned
from rankwise.rankers.ensembles.places import places
from rankwise.rankers.ensembles.plans import plans, seed_of_member
from rankwise.rankers.ensembles.pooling import pooled
from rankwise.rankers.nets.ranker import NeuralRanker
from rankwise.rankers.schema import Documents
from rankwise.rankers.scoring.scorer import Scorer
from rankwise.rankers.table import ranker_class
from rankwise.rankers.training.loop import State
from rankwise.rankers.training.ranker import Trained
from rankwise.rankers.training.session import Watch
from rankwise.rankers.training.validation import Measure
from rankwise.rankers.trees.ranker import TreeRanker

if TYPE_CHECKING:
    from rankwise.statistics.evaluation import Evaluation


class bagged(Trained):  # noqa: N801 (wrappers are adjectives)
    """A ranker made of several: each trained on all queries but one fold, all stopped together, and averaged.

    Training and validation queries are pooled. After every round each query is scored by the member that has not seen
    it; the mean of the metric over all queries is one curve, by which ``patience``, ``smoothing`` and ``stop_on`` of
    the ranker stop all members at the same round. Members that stop each on its own fold lose most of the gain.

    What is trained, for how long and with which ``seed``, ``threads``, ``metrics``, ``checkpoint`` and ``progress`` the
    ranker says; its parameters are read and set on the bag too (``set_params(leaves=15)``, or ``ranker__leaves`` as
    scikit-learn writes it). The ranker itself stays untrained: members are clones, with seeds of their own. A ranker
    of one's own, which learns at once, is trained once on each part: there is no number of rounds to choose.

    Trees become one forest in the library's own format, so that files, exports, scorers and contributions are those of
    a single ranker (``ranker_``). Nets stay several, and their scores are averaged, as are those of CatBoost's trees
    that hold statistics of categories.

    Args:
        ranker: A ranker of trees, a NeuralRanker or one of one's own, not trained, or its expression.
        folds: Into how many parts queries fall, by their ids and the seed: those of :func:`rw.cross_validate
            <rankwise.model_selection.cross_validate.cross_validate>`. There is a member for each.
        repeats: How often that is done, with other folds each time; members are ``folds × repeats``.
        fold_seed: The seed of the folds; by default that of the ranker, from which members' own seeds are drawn.
        processes: How many processes train members side by side. Where the ranker sets no ``threads``, they share those
            that there are. The bag is the same whatever their number, for the same ``threads`` of the ranker.
        dask: The address of a Dask cluster whose workers train the members instead.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=60, n_docs=10, seed=1)
    >>> ranker = rw.LightGBMRanker("xendcg", rounds=20, leaves=4, smoothing=3, threads=1)
    >>> bag = rw.bagged(ranker, folds=3).fit(data)
    >>> len(bag.members_), bag.ranker_.model_.n_trees == 3 * bag.best_round_
    (3, True)
    >>> low, high = bag.out_of_fold_.interval["ndcg@10"]
    """

    name = "bagged"
    members_: tuple[Trained, ...]
    """The trained members, each with its own ``history_["loss"]``. A bag of one forest that was loaded has it only."""
    _combined = Combined()
    """The members added up."""
    _held_out: HeldOut
    """Their out-of-fold scores; a checkpoint has none."""

    def __init__(
        self,
        ranker: Ranker | str,
        folds: int = 5,
        *,
        repeats: int = 1,
        fold_seed: int | None = None,
        processes: int = 1,
        dask: str | None = None,
    ) -> None:
        ranker = expressions.ranker(ranker) if isinstance(ranker, str) else ranker
        self.ranker: Any = ranker
        self.folds = folds
        self.repeats = repeats
        self.fold_seed = fold_seed
        self.processes = processes
        self.dask = dask
        self.native = {}
        self._training: Keywords = {}  # settings of the training that the ranker has no parameters for
        if not isinstance(ranker, TreeRanker | NeuralRanker) and not trains_at_once(ranker):
            got = f"the class {ranker.__name__}" if inspect.isclass(ranker) else type(ranker).__name__
            hint = "pass a ranker that is not trained yet, such as rw.LightGBMRanker(); derive your own from rw.Ranker"
            raise check.error("a bag is made of rankers of trees or nets, or of one's own", got=got, hint=hint)

    # Parameters: its own, and those of the ranker.

    def __getattr__(self, name: str) -> Any:
        """Return a parameter of the ranker, or of the training where the ranker has none."""
        if hasattr(type(self), name):
            return object.__getattribute__(self, name)  # a property, which says itself what is missing
        ranker = self.__dict__.get("ranker")
        if ranker is not None and name in (usual := self._of_training(ranker)):
            return self._training.get(name, usual[name])
        if ranker is not None and name in ranker.get_params():
            return getattr(ranker, name, getattr(ranker, "native", {}).get(name))
        raise AttributeError(f"'bagged' object has no attribute {name!r}")

    @staticmethod
    def _of_training(ranker: Ranker) -> Keywords:
        """Settings of the training that are the bag's, and what they usually are: none where the ranker has rounds."""
        if not trains_at_once(ranker):
            return {}
        return OF_TRAINING | {name: one for name, one in OF_ANY.items() if name not in ranker.own_parameters()}

    @property
    def unit(self) -> str:  # type: ignore[override]
        """What rounds are called."""
        return str(self.ranker.unit)

    @property
    def _least_code(self) -> float:  # type: ignore[override]
        return float(self.ranker._least_code)

    @property
    def loss_compares(self) -> bool:
        """Whether the losses of different rounds compare; a ranker that learns at once tells none."""
        return trains_at_once(self.ranker) or super().loss_compares

    def __sklearn_clone__(self) -> Self:
        """Return an untrained one."""
        return super().__sklearn_clone__().set_params(**self._training)

    def _configure(self, **settings: Any) -> Self:
        return self.set_params(**settings)

    def get_params(self, deep: bool = True) -> Keywords:
        """Give the parameters of the bag, and those of the ranker as ``ranker__…``."""
        own = {name: getattr(self, name) for name in self.own_parameters()}
        inner = {f"ranker__{name}": value for name, value in self.ranker.get_params().items()} if deep else {}
        return own | inner

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters, of the bag or of the ranker."""
        own = self.own_parameters()
        for name in own.keys() & parameters.keys():
            setattr(self, name, parameters[name])
        training = self._of_training(self.ranker).keys() & parameters.keys()
        self._training |= {name: parameters[name] for name in training}
        own |= dict.fromkeys(training)
        inner = {name.removeprefix("ranker__"): value for name, value in parameters.items() if name not in own}
        if inner:
            self.ranker.set_params(**inner)
        return self

    def fit(
        self,
        X: Documents,  # noqa: N803 (scikit-learn's names)
        y: ArrayLike | RankingDataset | None = None,
        *,
        valid: inputs.Validation = None,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        init_model: Trained | str | Path | None = None,
        resume: bool = False,
        measure: Mapping[str, RankingDataset | Measure] | None = None,
        watch: Watch | None = None,
        **others: Never,
    ) -> Self:
        """Train members on the pooled queries of training and validation data; arguments are those of any ranker.

        There is no ``init_model``: a bag starts from nothing.
        """
        self._refuse("fit", others)
        self._check(init_model)
        data = pooled(X, y, valid=valid, qid=qid, group=group, sample_weight=sample_weight)
        settings = self.settings_for(data.n_docs)  # once: a member sees fewer documents
        settled = self.ranker._with(settings)
        about: Keywords = {"seed": self.seed, "fold_seed": self.seed_of_folds}
        members = plans(settled, data, folds=self.folds, repeats=self.repeats, **about)
        also = self._measures(measure, lambda other: inputs.aligned(other, data))
        validation = OutOfFold(data, self._metrics(), debias=bool(self.debias))
        parts = [member.held_out for member in members[: self.folds]]  # those of the first repeat are all queries
        cross_fitted = CrossFitted(validation, parts, data, self._with(settings)._stopping(validation))
        with contextlib.ExitStack() as stack:
            where: Keywords = {"count": self.processes, "dask": self.dask, "threads": self.threads}
            learner = BagLearner(
                data,
                members,
                self.repeats,
                cross_fitted,
                lambda: places(data, members, [one.data for one in also.values()], stack, **where),
            )
            how: Keywords = {"resume": resume, "measure": also, "watch": watch, "validation": validation}
            self._train(data, data, learner=lambda: learner, older=None, **how)
        if learner.out_of_fold is not None:
            scores = learner.out_of_fold.mean(axis=0)
            self._held_out = HeldOut.measured(scores, cross_fitted.scores, data, self._metrics())
        return self

    def settings_for(self, documents: int) -> Keywords:
        """Say what members use for parameters that the data decide: the number of all pooled documents does."""
        settings: Keywords = self.ranker.settings_for(documents)
        return settings

    def _with(self, settings: Keywords) -> Self:
        made = copy.copy(self)
        made.ranker = self.ranker._with(settings)
        return made

    def _check(self, init_model: object) -> None:
        if init_model is not None:
            raise check.error("a bag is trained from nothing", got="init_model", hint="leave init_model out")
        if self.ranker.__sklearn_is_fitted__():
            raise check.error(
                "a bag trains clones of a ranker, and this one is trained already",
                got=type(self.ranker).__name__,
                hint="pass a new one, or sklearn.base.clone(ranker)",
            )
        check.integer("folds", self.folds, least=2)
        for name in ("repeats", "processes"):
            check.integer(name, getattr(self, name), least=1)

    @property
    def seed_of_folds(self) -> int:
        """The seed that decides into which fold a query falls."""
        if self.fold_seed is not None:
            return check.integer("fold_seed", self.fold_seed, least=0)
        return check.integer("seed", self.seed, least=0)

    def _keep(self, model: list[Learned], state: State) -> None:
        members = []
        for number, learned in enumerate(model):
            member = self._blank(self.ranker._made_of(learned.rounds), learned.files)
            member.history_ = {"loss": learned.loss} if learned.loss else {}
            member.best_round_, member.stopped_ = learned.rounds, state.stopped
            member.seed = seed_of_member(self.seed, number)
            members.append(member)
        self._become(tuple(members))

    def _become(self, members: tuple[Trained, ...]) -> None:
        """Add members up."""
        self.members_ = members
        self._combined = Combined.of(self, members, like=self.ranker._with(self.settings_))

    def _blank(self, made_of: Json, files: dict[str, bytes]) -> Any:
        """A member from its files."""
        member = self.ranker._with(self.settings_).__sklearn_clone__()
        member._schema = self._schema
        member._restore(made_of, files)
        member.settings_ = self.settings_
        return member

    # Scores: of one forest, or the mean over members.

    @property
    def ranker_(self) -> TreeRanker:
        """Of trees: the one ranker that members became, whose scores are their mean up to rounding."""
        return self._combined.ranker

    @property
    def averaged(self) -> tuple[Trained, ...]:
        """The members whose scores are averaged, where they are not one forest."""
        return self._combined.rankers

    @property
    def model_(self) -> Any:
        """The one forest of trees."""
        return self.ranker_.model_

    @property
    def feature_importances_(self) -> Array:
        """The share of each feature in the total gain of all splits, of trees."""
        self._check_fitted()
        return self._combined.importances

    def importances(self, kind: str = "gain") -> Array:
        """Give one number per feature, of trees: see ``TreeRanker``."""
        self._check_fitted()
        return self.ranker_.importances(kind)

    def contributions(self, data: Documents) -> Contributions:
        """Give the contributions of the one forest, or the mean of those of all members."""
        self._check_fitted()
        return self._combined.contributions(data)

    def scorer(self) -> Scorer:
        """Give what scores one query's documents in the least time."""
        self._check_fitted()
        return self._combined.scorer(self)

    @property
    def oof_scores_(self) -> Array:
        """One score per document of the training and then the validation data, by members that never saw its query.

        They are those of the common round, which was chosen on all queries: a metric of them is a little too good, and
        ``out_of_fold_`` is not.
        """
        return self._held_out.scores

    @property
    def out_of_fold_(self) -> "Evaluation":
        """How good the bag is on new queries, by query and with intervals: an estimate without a validation set.

        Every query is scored by a member that has not seen it, after the round that is best on the queries of the other
        folds. Members have seen fewer queries than there are, and are not averaged, so that it is a little too low.
        """
        return self._out_of_fold().evaluation()

    def _out_of_fold(self) -> HeldOut:
        self._check_fitted()
        if not hasattr(self, "_held_out"):
            raise check.error("a checkpoint holds no out-of-fold scores", hint="resume its training")
        return self._held_out

    @property
    def needs_lists(self) -> bool:
        """Whether a score depends on the other documents of its query."""
        return self._combined.needs_lists

    def _score(self, features: Floats) -> Array:
        return self._score_lists(features, None)

    def _score_lists(self, features: Floats, offsets: Offsets | None) -> Array:
        return self._combined.score(features, offsets)

    # On disk.

    def _code(self) -> dict[str, str]:
        metrics = user_code.digests(self._metrics())  # also those that the ranker knows nothing of
        code: dict[str, str] = self.ranker._code()
        return code | metrics

    def _rounds(self) -> int:
        return self.best_round_

    def _parameters(self, without: Collection[str] = ()) -> Json:
        own = {name: getattr(self, name) for name in self.own_parameters() if name not in ("ranker", *without)}
        inner = {"ranker": self.ranker.name, "parameters": self.ranker._parameters(without)}
        training = {name: storage.plain(value) for name, value in self._training.items() if name not in without}
        return own | {"ranker": inner} | ({"training": training} if training else {})

    def _made_of(self, rounds: int) -> Json:
        """What a checkpoint says: files are those of members."""
        return {"members": [self.ranker._made_of(rounds)] * (self.folds * self.repeats)}

    def _description(self) -> Json:
        made = self._combined.description([member._made_of(member.best_round_) for member in self.averaged])
        return super()._description() | made | ({"settings": self.settings_} if self.settings_ else {})

    def _files(self) -> dict[str, bytes]:
        kept = self._held_out.files() if hasattr(self, "_held_out") else {}
        return self._combined.files(self.averaged) | kept

    @classmethod
    def _untrained(cls, description: Json) -> Self:
        own = dict(description["parameters"])
        inner, training = own.pop("ranker"), own.pop("training", {})
        of = ranker_class(inner["ranker"])
        return cls(of._untrained({"objective": description["objective"], **inner}), **own).set_params(**training)

    def _restore(self, description: Json, files: dict[str, bytes]) -> None:
        self.settings_ = dict(description.get("settings", self.settings_for(0)))  # checkpoints have set them all
        if "members" in description:
            made = description["members"]
            own = unpacked(files, len(made))
            for each in own:
                self.ranker._verify(each, self.n_features_in_)
            members = [self._blank(*both) for both in zip(made, own, strict=True)]
            for member in members:
                member.history_, member.stopped_ = {}, self.stopped_
                member.best_round_ = member._rounds()
            self._become(tuple(members))
        else:
            self._combined = Combined.read(self, self.ranker._with(self.settings_), description, files)
        if found := HeldOut.read(files):
            self._held_out = found

    def _verify(self, files: Mapping[str, bytes], n_features: int) -> None:
        for own in unpacked(files, self.folds * self.repeats):
            self.ranker._verify(own, n_features)

    def _learner(
        self, train: RankingDataset, valid: RankingDataset | None, older: Self | None, others: Sequence[Any] = ()
    ) -> Never:
        raise check.error("a bag cannot be trained so", hint="call fit")
