"""Distillation: a ranker that learns from another, and is a plain model of its own kind afterwards."""

import copy
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, Self

from numpy.typing import ArrayLike

from rankwise import check
from rankwise.arrays import Array, Floats, Json, Keywords, Offsets
from rankwise.data import leakage
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import MetricLike
from rankwise.objectives.base import Objective
from rankwise.objectives.distil.objectives import Distil, MarginMSE
from rankwise.objectives.table import ObjectiveLike, native
from rankwise.objectives.table import objective as find_objective
from rankwise.objectives.wrappers.weighted import weighted
from rankwise.rankers import expressions, inputs
from rankwise.rankers.at_once import trains_at_once
from rankwise.rankers.base import Ranker
from rankwise.rankers.ensembles.teaching import fresh, in_units_of_their_spread, scores_of, trained, with_unlabelled
from rankwise.rankers.schema import Documents
from rankwise.rankers.training.ranker import Trained
from rankwise.rankers.training.session import Watch
from rankwise.rankers.training.validation import Measure

if TYPE_CHECKING:
    from rankwise.rankers.contributions import Contributions
    from rankwise.rankers.scoring.scorer import Scorer

_LOSSES = ("distil", "margin_mse")
_STUDENT = "student__"


class distilled(Ranker):  # noqa: N801 (wrappers are adjectives)
    """A student, trained on the scores of a teacher, or of these and labels: small and fast, and nearly as good.

    ``fit`` trains a clone of the student with ``weight · (loss of the teacher's scores) + (1 − weight) · (the student's
    own objective)``. What it becomes, ``ranker_``, is a model like any other of its class: the distilled ranker
    predicts with it and saves it, and ``rw.load``, exports and scorers know of no teacher.

    The teacher's scores are divided by their spread within lists, so that nothing depends on the unit it scores in. A
    teacher that has learned these labels has them in its scores: by default it is all that the student learns, and the
    student's objective has no effect. Give labels a share where the teacher comes from elsewhere: ``weight=0.5``.

    Args:
        teacher: A trained ranker or its folder, a model of another library (see :func:`wrap`), a function from features
            to scores, or several of these in a list, whose scores are averaged. A ranker that is not trained is trained
            first, as a clone, on the same data.
        student: A ranker that is not trained; its objective is the loss of labels. One of one's own has a parameter
            ``objective``, which is set to the loss that it is to learn.
        weight: The teacher's share of the loss, from 0 to 1. With 1, the default, labels do not count.
        loss: ``"margin_mse"``, the squared error of differences of scores within a list, or ``"distil"``, cross entropy
            with the teacher's softmax.
        temperature: That of ``distil``, in units of the spread of the teacher's scores: small ones look at the top of
            its ranking.
        unlabelled: More queries, from which only the teacher's loss is learned. Whatever their labels are, they count
            as 0, and the loss of labels as 0 for every query without a relevant document.

    >>> import rankwise as rw
    >>> train, test = rw.split(rw.synthetic(n_queries=80, n_docs=10, seed=1), (0.5, 0.5), seed=0)
    >>> teacher = rw.LightGBMRanker("lambdarank", rounds=60, leaves=15, threads=1).fit(train)
    >>> student = rw.LightGBMRanker("lambdarank", rounds=20, leaves=4, threads=1)
    >>> model = rw.distilled(teacher, student, unlabelled=test).fit(train)
    >>> model.ranker_.objective
    margin_mse
    >>> rw.distilled(teacher, student, weight=0.5, unlabelled=test).fit(train).ranker_.objective
    0.5*margin_mse + 0.5*weighted(lambdarank, by=relevant, power=0.0)
    >>> model.scorer()
    Scorer(rearranged trees, 30 features)
    """

    name = "distilled"
    ranker_: Ranker
    """The trained student."""
    teacher_: Any
    """The trained teacher."""

    def __init__(
        self,
        teacher: Any,
        student: Ranker | str,
        *,
        weight: float = 1.0,
        loss: str = "margin_mse",
        temperature: float = 1.0,
        unlabelled: Documents | None = None,
    ) -> None:
        self.teacher = teacher
        student = expressions.ranker(student) if isinstance(student, str) else student
        self.student: Ranker = student
        self.weight = weight
        self.loss = loss
        self.temperature = temperature
        self.unlabelled = unlabelled
        self.native = {}
        own = trains_at_once(student) and "objective" in student.own_parameters()
        if not own and (not isinstance(student, Trained) or student.name in ("factorization", "bagged")):
            got = f"the class {student.__name__}" if inspect.isclass(student) else type(student).__name__
            got += " without a parameter objective" if trains_at_once(student) else ""
            hint = "pass a ranker that is not trained yet, such as rw.LightGBMRanker()"
            what = "the student must be a ranker of trees or nets, or one of one's own with an objective"
            raise check.error(what, got=got, hint=hint)

    # Parameters: its own, and those of the student.

    @property
    def objective(self) -> ObjectiveLike:  # type: ignore[override]
        """The student's loss of labels."""
        return self.student.objective

    @property
    def metrics(self) -> MetricLike | Sequence[MetricLike]:  # type: ignore[override]
        """The student's metrics."""
        return self.student.metrics

    def get_params(self, deep: bool = True) -> Keywords:
        """Give the parameters, and those of the student as ``student__…``."""
        inner = {_STUDENT + name: value for name, value in self.student.get_params().items()} if deep else {}
        return super().get_params(deep=False) | inner

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters, its own or those of the student: ``student__leaves=15``."""
        inner = {name.removeprefix(_STUDENT): value for name, value in parameters.items() if name.startswith(_STUDENT)}
        super().set_params(**{name: value for name, value in parameters.items() if not name.startswith(_STUDENT)})
        self.student.set_params(**inner)
        return self

    def __sklearn_clone__(self) -> Self:
        """Give an untrained one; a teacher that is trained, and data, are shared."""
        inside = {"teacher": fresh(self.teacher), "student": self.student.__sklearn_clone__()}
        cloned = type(self)(**self.get_params(deep=False) | inside)
        if hasattr(self, "_metadata_request"):
            cloned._metadata_request = copy.deepcopy(self._metadata_request)
        return cloned

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
        """Train the student, and before it a teacher that is not trained yet; arguments are those of any ranker.

        Validation data are ranked by labels alone. Checkpoints are the student's: ``student__checkpoint``.
        """
        self._refuse("fit", others)
        student = self.student.__sklearn_clone__().set_params(objective=self._mixed())
        train, held_out = inputs.parts(X, y, valid=valid, qid=qid, group=group, sample_weight=sample_weight)
        with leakage.checked():
            teacher = trained(self.teacher, train, held_out)
        if self.unlabelled is not None:
            train = with_unlabelled(train, inputs.aligned(self.unlabelled, train))
        taught = train.with_(teacher_scores=in_units_of_their_spread(scores_of(teacher, train), train))
        with leakage.checked():
            student.fit(taught, held_out, resume=resume, measure=measure, watch=watch)
        self.teacher_, self.ranker_ = teacher, student
        self._schema, self._least_code = student._schema, student._least_code
        self.history_, self.best_round_, self.stopped_ = student.history_, student.best_round_, student.stopped_
        return self

    def _mixed(self) -> Objective:
        """The loss of the teacher's scores and that of labels."""
        weight = check.number("weight", self.weight, least=0.0, most=1.0)
        check.choice("loss", self.loss, _LOSSES)
        if self.loss != "distil" and self.temperature != 1.0:
            raise check.error(
                "the temperature is that of the loss distil",
                got=f"{self.temperature} and loss='{self.loss}'",
                hint="set loss='distil', or leave temperature out",
            )
        taught = Distil(temperature=self.temperature) if self.loss == "distil" else MarginMSE()
        if weight == 1.0:
            return taught
        if native(self.student.objective) is not None:
            raise check.error(
                "a library's own objective cannot be mixed with the teacher's loss",
                got=str(self.student.objective),
                hint="set one of ours, such as objective='lambdarank', or weight=1.0",
            )
        labelled = find_objective(self.student.objective)
        if self.unlabelled is not None:
            labelled = weighted(labelled, by="relevant", power=0.0)
        return weight * taught + round(1.0 - weight, 12) * labelled if weight else labelled

    # What the student does.

    @property
    def feature_importances_(self) -> Array:
        """Those of the student."""
        self._check_fitted()
        return self.ranker_.feature_importances_

    def contributions(self, data: Documents) -> "Contributions":
        """Give those of the student."""
        self._check_fitted()
        return self.ranker_.contributions(data)

    def scorer(self) -> "Scorer":
        """Give the student's."""
        self._check_fitted()
        return self.ranker_.scorer()

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the student: ``rw.load`` gives a ranker of its class."""
        self._check_fitted()
        return self.ranker_.save(path, force=force)

    @property
    def needs_lists(self) -> bool:
        """Whether a score depends on the other documents of its query."""
        return self.ranker_.needs_lists

    def _score(self, features: Floats) -> Array:
        return self._score_lists(features, None)

    def _score_lists(self, features: Floats, offsets: Offsets | None) -> Array:
        return self.ranker_._score_lists(features, offsets)

    def _files(self) -> dict[str, bytes]:
        return self.ranker_._files()

    def _restore(self, description: Json, files: dict[str, bytes]) -> Never:
        raise check.error("a distilled ranker is saved as its student", hint="rw.load gives that")
