"""A bag of rankers is a ranker: cross-fitted by query, stopped together, and added up."""

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Never, Self

from rankwise import check
from rankwise.base.arrays import Array, Json, Keywords
from rankwise.check.docstrings import documented
from rankwise.check.parameters import AtLeast, Option, Unset, assign, check_declared, declared
from rankwise.models import storage
from rankwise.models.model import Model
from rankwise.models.schema import Schema
from rankwise.models.sums import added_up, unpacked
from rankwise.rankers import expressions
from rankwise.rankers.base import IterativeRanker, Ranker
from rankwise.rankers.ensembles.members import BagLearner, TrainedMember, plans, seed_of_member, start_members
from rankwise.rankers.ensembles.meta import EnsembleRanker, kind_of
from rankwise.rankers.ensembles.out_of_fold import CrossFitted, HeldOut, OutOfFold
from rankwise.rankers.sklearn import check_fitted
from rankwise.rankers.table import ranker_class
from rankwise.rankers.training import parameters as training
from rankwise.rankers.training.settings import OF_ANY, ONE_ROUND, TrainingData, TrainingSettings, trains_at_once

_INSTEAD = {
    "distilled": "make the bag its teacher: rw.distilled(rw.bagged(ranker), student)",
    "calibrate": "calibrate the bag: rw.CalibratedRanker(rw.bagged(ranker))",
    "bagged": "set `repeats=`, for more members",
    "blended": "train the blend, which trains its members out of fold as a bag does",
}
"""What to do instead of a bag of rankers that are made of others."""


@documented
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
        ranker: Annotated[
            Ranker | str, "Ranker of trees, a NeuralRanker or one of the user's, not trained, or its expression."
        ],
        folds: Annotated[training.Folds, "There is a member for each."] = 5,
        *,
        repeats: training.Repeats = 1,
        fold_seed: Annotated[
            int | None,
            AtLeast(0),
            Unset("the seed of the ranker"),
            "Seed of the folds; by default that of the ranker, from which members' own seeds are drawn.",
            Option(metavar="N", group="Training"),
        ] = None,
        processes: Annotated[
            training.Processes,
            """Where the ranker sets no ``threads``, they share those that there are. The bag is the same whatever their
            number, for the same ``threads`` of the ranker.""",
        ] = 1,
        dask: training.Dask = None,
    ) -> None:
        ranker = expressions.ranker(ranker) if isinstance(ranker, str) else ranker
        assign(self, locals())
        self._training: Keywords = {}  # settings of the training that the ranker has no parameters for
        if not is_single(ranker):
            hint = _INSTEAD.get(
                getattr(ranker, "name", ""),
                "pass a ranker that is not trained yet, such as rw.LightGBMRanker(); derive your own from rw.Ranker",
            )
            what = "a bag is made of rankers of trees or nets, or of one's own"
            raise check.error(what, got=kind_of(ranker), hint=hint)

    # Parameters: its own, and those of the ranker.

    def nested(self) -> Mapping[str, Ranker]:
        """Return the ranker."""
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
        return ONE_ROUND | {name: value for name, value in OF_ANY.items() if name not in ranker.own_parameters()}

    @property
    def unit(self) -> str:  # type: ignore[override]
        """What rounds are called."""
        return str(self.ranker.unit)

    def __sklearn_clone__(self) -> Self:
        """Return an untrained one."""
        return super().__sklearn_clone__().set_params(**self._training)

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters, of the bag or of the ranker: ``leaves=15`` is ``ranker__leaves=15``."""
        training = self._of_training(parameters.get("ranker", self.ranker)).keys() & parameters.keys()
        self._training |= {name: parameters.pop(name) for name in training}
        bag = self.own_parameters()
        return super().set_params(
            **{name if name in bag or "__" in name else f"ranker__{name}": value for name, value in parameters.items()}
        )

    # Training.

    def older(self, model: object) -> Never:
        """Refuse a model to continue."""
        raise check.error("a bag is trained from nothing", got="init_model", hint="leave init_model out")

    def learner(self, data: TrainingData, settings: TrainingSettings) -> BagLearner:
        """Return the learner of all members, which validate each other: ``valid`` are the same queries as ``train``."""
        self.check_settings()
        members = plans(
            self.ranker, data.train, settings, folds=self.folds, repeats=self.repeats, fold_seed=self.seed_of_folds
        )
        constrained = tuple(settings.constraints.goals)
        validation = OutOfFold(data.train, settings.metrics, debias=settings.debias, constrained=constrained)
        parts = [member.held_out for member in members[: self.folds]]  # those of the first repeat are all queries
        where: Keywords = {"count": self.processes, "dask": self.dask, "threads": settings.threads}
        measured = [one.data for one in data.eval_sets.values()]
        return BagLearner(
            data.train,
            members,
            self.repeats,
            CrossFitted(validation, parts, data.train, settings.stopping(validation.names)),
            lambda stack: start_members(data.train, members, measured, stack, **where),
        )

    def settings_for(self, documents: int) -> Keywords:
        """Return what members use for parameters that the data decide: the number of all pooled documents does."""
        settings: Keywords = self.ranker.settings_for(documents)
        return settings

    def check_settings(self) -> None:
        """Check what can be checked before training."""
        if self.ranker.__sklearn_is_fitted__():
            raise check.error(
                "a bag trains clones of a ranker, and this one is trained already",
                got=type(self.ranker).__name__,
                hint="pass a new one, or sklearn.base.clone(ranker)",
            )
        check_declared(self)
        for name, value in self._training.items():
            declared(TrainingSettings)[name].check(value)

    @property
    def seed_of_folds(self) -> int:
        """The seed that decides into which fold a query falls."""
        return self.seed if self.fold_seed is None else self.fold_seed

    def become(self, models: Sequence[Model], trained: Sequence[TrainedMember], stopped: str) -> None:
        """Keep a ranker for each of the models, beside ``model_``, which they became."""
        members = []
        for number, (model, one) in enumerate(zip(models, trained, strict=True)):
            owner = getattr(model, "owner", None)  # of attributes of a ranker of the user's
            member = self._like_members() if owner is None else copy.copy(owner)
            member.model_, member.settings_, member.seed = model, self.settings_, seed_of_member(self.seed, number)
            member.history_ = {"loss": one.loss} if one.loss else {}
            member.best_round_, member.stopped_ = one.rounds, stopped
            members.append(member)
        self.members_ = tuple(members)
        self._become_sum(self.model_, self._like_members(), self.settings_)

    def _like_members(self) -> Any:
        """Return an untrained ranker with the parameters that the data decided."""
        return self.ranker.__sklearn_clone__().set_params(**self.settings_)

    def _read(self, description: Json, files: dict[str, bytes], schema: Schema) -> Model:
        """Read the model of a member: into a ranker of its own, which a model of the user's keeps."""
        model: Model = self._like_members().read_model(description, files, schema)
        return model

    # Scores: of one forest, or the mean over members.

    @property
    def averaged(self) -> tuple[Any, ...]:
        """The members whose scores are averaged, where they are not one forest."""
        return self.members_ if self._forest is None else ()

    def importances(self, kind: str = "gain") -> Array:
        """Return one number per feature, of trees: see ``TreeRanker``."""
        check_fitted(self)
        importances: Array = self.ranker_.importances(kind)
        return importances

    # On disk.

    def recipe(self, without: Collection[str] = ()) -> Json:
        """Return what files hold of the bag and its ranker before training."""
        bag = {name: getattr(self, name) for name in self.own_parameters() if name not in ("ranker", *without)}
        inner = self.ranker.recipe(without)
        training = {name: storage.plain(value) for name, value in self._training.items() if name not in without}
        return {
            "ranker": self.name,
            "objective": inner.pop("objective"),
            "parameters": bag | {"ranker": inner} | ({"training": training} if training else {}),
        }

    @classmethod
    def untrained(cls, recipe: Json) -> Self:
        """Return the bag of a recipe."""
        parameters = dict(recipe["parameters"])
        inner, training = parameters.pop("ranker"), parameters.pop("training", {})
        ranker = ranker_class(inner["ranker"]).untrained({"objective": recipe["objective"], **inner})
        return cls(ranker, **parameters).set_params(**training)

    def read_model(self, description: Json, files: dict[str, bytes], schema: Schema) -> Model:
        """Read one forest, or all members."""
        if held_out := HeldOut.read(files):
            self.held_out_ = held_out
        if members := description.get("members"):
            parts = zip(members, unpacked(files, len(members)), strict=True)
            models = [self._read(one, part, schema) for one, part in parts]
            trained = [TrainedMember({}, {}, one.rounds, []) for one in models]
            self.model_ = added_up(models)
            self.become(models, trained, self.stopped_)
        else:
            self._become_sum(self._read(description, files, schema), self._like_members(), self.settings_)
        return self.model_


def is_single(ranker: object) -> bool:
    """Whether a ranker learns from features by itself: of trees or nets, or one of the user's."""
    return isinstance(ranker, Ranker) and (ranker.single or trains_at_once(ranker))
