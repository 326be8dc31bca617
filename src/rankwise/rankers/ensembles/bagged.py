"""A bag of rankers is a ranker: cross-fitted by query, stopped together, and added up."""

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Never, Self

from numpy.typing import ArrayLike

from rankwise import check, user_code
from rankwise.arrays import Array, Json, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import Metric
from rankwise.models import storage
from rankwise.models.schema import Documents
from rankwise.rankers import expressions
from rankwise.rankers.at_once import OF_ANY, OF_TRAINING, trains_at_once
from rankwise.rankers.base import Ranker
from rankwise.rankers.ensembles import executors
from rankwise.rankers.ensembles.ensemble import Ensemble, unpacked
from rankwise.rankers.ensembles.members import BagLearner, TrainedBag, plans, seed_of_member
from rankwise.rankers.ensembles.meta import EnsembleRanker, kind_of
from rankwise.rankers.ensembles.oof import CrossFitted, HeldOut, OutOfFold, pooled
from rankwise.rankers.nets.ranker import NeuralRanker
from rankwise.rankers.table import ranker_class
from rankwise.rankers.training.iterative import IterativeRanker
from rankwise.rankers.training.loop import Learner, State
from rankwise.rankers.trees.ranker import TreeRanker

_INSTEAD = {
    "distilled": "make the bag its teacher: rw.distilled(rw.bagged(ranker), student)",
    "calibrate": "calibrate the bag: rw.CalibratedRanker(rw.bagged(ranker))",
    "bagged": "set `repeats=`, for more members",
    "blended": "train the blend, which trains its members out of fold as a bag does",
}
"""What to do instead of a bag of rankers that are made of others."""


class bagged(EnsembleRanker, IterativeRanker):  # noqa: N801 (wrappers are adjectives)
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
    members_: tuple[Any, ...]
    """The trained members, each with its own ``history_["loss"]``. A bag of one forest that was loaded has it only."""

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
            hint = _INSTEAD.get(
                getattr(ranker, "name", ""),
                "pass a ranker that is not trained yet, such as rw.LightGBMRanker(); derive your own from rw.Ranker",
            )
            what = "a bag is made of rankers of trees or nets, or of one's own"
            raise check.error(what, got=kind_of(ranker), hint=hint)

    # Parameters: its own, and those of the ranker.

    def _nested(self) -> Mapping[str, Ranker]:
        return {"ranker": self.ranker}

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
        """Return the settings of training that are the bag's, with defaults: none where the ranker learns in rounds."""
        if not trains_at_once(ranker):
            return {}
        return OF_TRAINING | {name: value for name, value in OF_ANY.items() if name not in ranker.own_parameters()}

    @property
    def unit(self) -> str:  # type: ignore[override]
        """What rounds are called."""
        return str(self.ranker.unit)

    @property
    def loss_compares(self) -> bool:
        """Whether the losses of different rounds compare; a ranker that learns at once tells none."""
        return trains_at_once(self.ranker) or super().loss_compares

    def __sklearn_clone__(self) -> Self:
        """Return an untrained one."""
        return super().__sklearn_clone__().set_params(**self._training)

    def _configure(self, **settings: Any) -> Self:
        return self.set_params(**settings)

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters, of the bag or of the ranker: ``leaves=15`` is ``ranker__leaves=15``."""
        training = self._of_training(parameters.get("ranker", self.ranker)).keys() & parameters.keys()
        self._training |= {name: parameters.pop(name) for name in training}
        bag = self.own_parameters()
        return super().set_params(
            **{name if name in bag or "__" in name else f"ranker__{name}": value for name, value in parameters.items()}
        )

    # Training.

    def _fit_inputs(
        self, data: Documents, labels: ArrayLike | RankingDataset | None, *, older: None = None, **columns: Any
    ) -> tuple[RankingDataset, RankingDataset | None]:
        self.check_settings()
        queries = pooled(data, labels, **columns, exponential=self._exponential_labels())
        return queries, queries

    def _older(self, model: object) -> Never:
        raise check.error("a bag is trained from nothing", got="init_model", hint="leave init_model out")

    def _learner(
        self,
        train: RankingDataset,
        valid: RankingDataset | None,
        older: Self | None,
        measured: Sequence[RankingDataset] = (),
    ) -> BagLearner:
        """Return the learner of all members, which validate each other: ``valid`` are the same queries as ``train``."""
        seeds: Keywords = {"seed": self.seed, "fold_seed": self.seed_of_folds}
        members = plans(self.ranker, train, folds=self.folds, repeats=self.repeats, **seeds)
        settings: Keywords = {"debias": bool(self.debias), "constrained": tuple(self._constraints().goals)}
        validation = OutOfFold(train, self._metrics(train), **settings)
        parts = [member.held_out for member in members[: self.folds]]  # those of the first repeat are all queries
        where: Keywords = {"count": self.processes, "dask": self.dask, "threads": self.threads}
        return BagLearner(
            train,
            members,
            self.repeats,
            CrossFitted(validation, parts, train, self._stopping(validation)),
            lambda stack: executors.start(train, members, measured, stack, **where),
        )

    def _validation(self, valid: RankingDataset, metrics: Sequence[Metric], learner: Learner[Any]) -> OutOfFold:
        validation: OutOfFold = learner.cross_fitted.validation  # type: ignore[attr-defined]  # of a BagLearner
        return validation

    def settings_for(self, documents: int) -> Keywords:
        """Return what members use for parameters that the data decide: the number of all pooled documents does."""
        settings: Keywords = self.ranker.settings_for(documents)
        return settings

    def _with(self, settings: Keywords) -> Self:
        bag = copy.copy(self)
        bag.ranker = self.ranker._with(settings)
        return bag

    def check_settings(self) -> None:
        """Check what can be checked before training."""
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

    def _keep(self, model: TrainedBag, state: State) -> None:
        members = []
        for number, trained in enumerate(model.members):
            member = self._member(self.ranker._made_of(trained.rounds), trained.files)
            member.history_ = {"loss": trained.loss} if trained.loss else {}
            member.best_round_, member.stopped_ = trained.rounds, state.stopped
            member.seed = seed_of_member(self.seed, number)
            members.append(member)
        self._add_up(members)
        self._held_out = model.held_out

    def _add_up(self, members: Sequence[Any]) -> None:
        self.members_ = tuple(members)
        self._ensemble = Ensemble.of(self, members, like=self.ranker._with(self.settings_))

    def _member(self, made_of: Json, files: dict[str, bytes]) -> Any:
        """Return a member from its files."""
        member = self.ranker._with(self.settings_).__sklearn_clone__()
        member._schema = self._schema
        member._restore(made_of, files)
        member.settings_ = self.settings_
        return member

    # Scores: of one forest, or the mean over members.

    @property
    def averaged(self) -> tuple[Any, ...]:
        """The members whose scores are averaged, where they are not one forest."""
        return self._ensemble.rankers

    @property
    def model_(self) -> Any:
        """The one forest of trees."""
        return self.ranker_.model_

    def importances(self, kind: str = "gain") -> Array:
        """Return one number per feature, of trees: see ``TreeRanker``."""
        self._check_fitted()
        return self.ranker_.importances(kind)

    # On disk.

    def _code(self) -> dict[str, str]:
        metrics = user_code.digests(self._metrics())  # also those that the ranker knows nothing of
        code: dict[str, str] = self.ranker._code()
        return code | metrics

    def _rounds(self) -> int:
        return self.best_round_

    def _parameters(self, without: Collection[str] = ()) -> Json:
        bag = {name: getattr(self, name) for name in self.own_parameters() if name not in ("ranker", *without)}
        inner = {"ranker": self.ranker.name, "parameters": self.ranker._parameters(without)}
        training = {name: storage.plain(value) for name, value in self._training.items() if name not in without}
        return bag | {"ranker": inner} | ({"training": training} if training else {})

    def _made_of(self, rounds: int) -> Json:
        return {"members": [self.ranker._made_of(rounds)] * (self.folds * self.repeats)}

    def _description(self) -> Json:
        files = self._ensemble.description([member._made_of(member.best_round_) for member in self.averaged])
        return super()._description() | files | ({"settings": self.settings_} if self.settings_ else {})

    def _files(self) -> dict[str, bytes]:
        out_of_fold = self._held_out.files() if hasattr(self, "_held_out") else {}
        return self._ensemble.files(self.averaged) | out_of_fold

    @classmethod
    def _untrained(cls, description: Json) -> Self:
        parameters = dict(description["parameters"])
        inner, training = parameters.pop("ranker"), parameters.pop("training", {})
        ranker = ranker_class(inner["ranker"])._untrained({"objective": description["objective"], **inner})
        return cls(ranker, **parameters).set_params(**training)

    def _restore(self, description: Json, files: dict[str, bytes]) -> None:
        self.settings_ = dict(description.get("settings", self.settings_for(0)))  # checkpoints have set them all
        if "members" in description:
            descriptions = description["members"]
            members = []
            for made_of, member_files in zip(descriptions, unpacked(files, len(descriptions)), strict=True):
                self.ranker._verify(member_files, self.n_features_in_)
                member = self._member(made_of, member_files)
                member.history_, member.stopped_ = {}, self.stopped_
                member.best_round_ = member._rounds()
                members.append(member)
            self._add_up(members)
        else:
            self._ensemble = Ensemble.read(self, self.ranker._with(self.settings_), description, files)
        if held_out := HeldOut.read(files):
            self._held_out = held_out

    def _verify(self, files: Mapping[str, bytes], n_features: int) -> None:
        for member_files in unpacked(files, self.folds * self.repeats):
            self.ranker._verify(member_files, n_features)
