"""Distillation: a ranker that learns from another, and is a plain model of its own kind afterwards."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Keywords
from rankwise.check.docstrings import documented
from rankwise.check.parameters import Above, OneOf, Option, Within, assign
from rankwise.data import columns
from rankwise.data.concatenation import concatenate
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import MetricLike
from rankwise.models.schema import ModelInput
from rankwise.objectives.base import Objective
from rankwise.objectives.distil.objectives import Distil, MarginMSE
from rankwise.objectives.table import ObjectiveLike, native
from rankwise.objectives.table import objective as find_objective
from rankwise.objectives.wrappers.weighted import weighted
from rankwise.quality import leakage
from rankwise.rankers import expressions, fit_arguments
from rankwise.rankers.base import Ranker
from rankwise.rankers.ensembles.bagged import is_single
from rankwise.rankers.ensembles.blend_weights import centred, score_deviation
from rankwise.rankers.ensembles.meta import DelegatingRanker, MetaRanker, kind_of
from rankwise.rankers.sklearn import clone
from rankwise.rankers.table import load
from rankwise.rankers.training import constraints
from rankwise.rankers.training.settings import TrainingData, TrainingSettings, trains_at_once
from rankwise.rankers.trees.wrap import wrapped

_LOSSES = ("distil", "margin_mse")


@documented
class distilled(DelegatingRanker):  # noqa: N801 (wrappers are adjectives)
    """A student, trained on the scores of a teacher, or of these and labels: small and fast, and nearly as good.

    ``fit`` trains a clone of the student with ``weight · (loss of the teacher's scores) + (1 − weight) · (the student's
    own objective)``. What it becomes, ``ranker_``, is a model like any other of its class: the distilled ranker
    predicts with it and saves it, and ``rw.load``, exports and scorers know of no teacher.

    The teacher's scores are divided by their spread within lists, so that nothing depends on the unit it scores in. A
    teacher that has learned these labels has them in its scores: by default it is all that the student learns, and the
    student's objective has no effect. Give labels a share where the teacher comes from elsewhere: ``weight=0.5``.

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
    student: Ranker
    ranker_: Ranker
    """The trained student."""
    teacher_: Any
    """The trained teacher."""

    def __init__(
        self,
        teacher: Annotated[
            Any,
            """Trained ranker or its folder, a model of another library (see :func:`wrap`), a function from features to
            scores, or several of these in a list, whose scores are averaged. A ranker that is not trained is trained
            first, as a clone, on the same data.""",
        ],
        student: Annotated[
            Ranker | str,
            """Ranker that is not trained; its objective is the loss of labels. One of the user's has a parameter
            ``objective``, which is set to the loss that it is to learn.""",
        ],
        *,
        weight: Annotated[
            float,
            Within(0, 1),
            "Share of the teacher in the loss. With 1, labels do not count.",
            Option(metavar="SHARE", group="Training"),
        ] = 1.0,
        loss: Annotated[
            str,
            OneOf(_LOSSES),
            """Loss of the teacher's scores: ``"margin_mse"``, the squared error of differences of scores within a list,
            or ``"distil"``, cross entropy with the teacher's softmax.""",
            Option(group="Training"),
        ] = "margin_mse",
        temperature: Annotated[
            float,
            Above(0),
            """Temperature of ``distil``, in units of the spread of the teacher's scores: small ones look at the top of
            its ranking.""",
            Option(metavar="T", group="Training"),
        ] = 1.0,
        unlabelled: Annotated[
            ModelInput | None,
            """Further queries, from which only the teacher's loss is learned. Whatever their labels are, they count as
            0, and the loss of labels as 0 for every query without a relevant document.""",
        ] = None,
    ) -> None:
        student = expressions.ranker(student) if isinstance(student, str) else student
        assign(self, locals())
        if not is_single(student) or "objective" not in student.own_parameters():
            got = kind_of(student) + (" without a parameter objective" if trains_at_once(student) else "")
            hint = "pass a single ranker, such as rw.LightGBMRanker()"
            hint += "; one made of others is a teacher" * isinstance(student, MetaRanker)
            what = "the student must be a ranker of trees or nets, or one of one's own with an objective"
            raise check.error(what, got=got, hint=hint)
        constraints.reject(
            student, "a student learns from its teacher, and not from other labels", "constrain the teacher"
        )

    # Parameters: its own, and those of the student.

    def nested(self) -> Mapping[str, Ranker]:
        """Return the student."""
        return {"student": self.student}

    @property
    def objective(self) -> ObjectiveLike:  # type: ignore[override]
        """The student's loss of labels."""
        return self.student.objective

    @property
    def metrics(self) -> MetricLike | Sequence[MetricLike]:  # type: ignore[override]
        """The student's metrics."""
        return self.student.metrics

    def __sklearn_clone__(self) -> Self:
        teacher, unlabelled = self.teacher, self.unlabelled  # what is trained, and data, are shared
        cloned = type(self)(fresh(teacher), clone(self.student), unlabelled=unlabelled)
        return cloned.set_params(weight=self.weight, loss=self.loss, temperature=self.temperature)

    def _train(self, data: TrainingData, settings: TrainingSettings) -> None:
        """Train the student, and before it a teacher that is not trained yet.

        Validation data are ranked by labels alone. Checkpoints are the student's: ``student__checkpoint``.
        """
        fit_arguments.reject_start(data.train, self)
        train, valid, mixed = data.train, data.valid, self._mixed()
        if getattr(self.student, "debias", False) and self.weight:
            raise check.error(
                "the teacher's loss has no clicks to divide by propensities",
                got="debias=True of the student",
                hint="leave debias to the teacher, and set it to False on the student",
            )
        student = self.student.__sklearn_clone__().set_params(objective=mixed)
        several = isinstance(self.teacher, list | tuple)
        with leakage.checked():
            teachers = [trained(one, train, valid) for one in (self.teacher if several else [self.teacher])]
        if not teachers:
            raise check.error("a student needs a teacher", got="an empty list", hint="pass a trained ranker")
        if self.unlabelled is not None:
            train = with_unlabelled(train, fit_arguments.aligned(self.unlabelled, train))
        scores = np.mean([scores_of(one, train) for one in teachers], axis=0)
        taught = train.with_(teacher_scores=standardized_scores(scores, train))
        if "document_rewards" not in mixed.accepts:  # the teacher has learned from them
            taught = taught.with_(document_rewards=None)
        with leakage.checked():
            student.fit(taught, valid, resume=settings.resume, eval_sets=data.eval_sets, callback=settings.callback)
        self.teacher_ = teachers if several else teachers[0]
        seen = (getattr(one, "trained_queries_", None) for one in teachers)
        student.trained_queries_ = leakage.union(student.trained_queries_, *seen)
        self._become(student)

    def _mixed(self) -> Objective:
        """Return the loss of the teacher's scores, mixed with that of labels."""
        weight = float(self.weight)
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
                hint="set one of ours, such as `objective='lambdarank'`, or `weight=1.0|weight=1 in the expression`",
            )
        labelled = find_objective(self.student.objective)
        if self.unlabelled is not None:
            labelled = weighted(labelled, by="relevant", power=0.0)
        return weight * taught + round(1.0 - weight, 12) * labelled if weight else labelled


def fresh(model: Any) -> Any:
    """Return a clone of an untrained ranker; what is trained is shared."""
    if isinstance(model, list | tuple):
        return [fresh(one) for one in model]
    return model.__sklearn_clone__() if _untrained(model) else model


def trained(teacher: Any, train: RankingDataset, valid: RankingDataset | None) -> Any:
    """Return a teacher that can score: read from its folder, or trained if it is an untrained ranker."""
    if isinstance(teacher, str | Path):
        return load(teacher)
    return fresh(teacher).fit(train, valid) if _untrained(teacher) else teacher


def _untrained(model: Any) -> bool:
    return isinstance(model, Ranker) and not model.__sklearn_is_fitted__()


def scores_of(teacher: Any, data: RankingDataset) -> Array:
    """Return the scores of a trained teacher."""
    ranker = wrapped(teacher)
    score = getattr(teacher, "predict", teacher) if ranker is None else ranker.predict
    if not callable(score):
        raise check.error(
            "a teacher must be a model that predicts, or a function from features to scores",
            got=type(teacher).__name__,
            hint="pass a ranker, rw.load(folder), or a model of another library",
        )
    return check.teacher_scores(score(data.features if ranker is None else data), data.offsets, data.query_ids)


def standardized_scores(scores: Array, data: RankingDataset) -> Array:
    """Divide scores by their spread within lists: the root of the mean square of what is left of each list's mean.

    Then neither the temperature nor the teacher's share of a mixed loss depends on the unit that the teacher scores in.
    """
    unit = score_deviation(scores, data.offsets)
    if not unit:
        raise check.error(
            "the teacher gives all documents of a list the same score",
            hint="look at the teacher: was it trained on these features",
        )
    return centred(scores, data.offsets) / unit


def with_unlabelled(train: RankingDataset, unlabelled: RankingDataset) -> RankingDataset:
    """Join queries with labels and queries whose labels do not count: they are set to 0.

    Of other columns those are kept that both have; queries and documents without weights weigh 1.
    """
    parts = [train, unlabelled.with_(labels=np.zeros(unlabelled.n_docs))]
    for name, count in (("weights", "n_queries"), ("document_weights", "n_docs")):
        weighed = [getattr(part, name) is not None for part in parts]
        if any(weighed) and not all(weighed):
            lighter = weighed.index(False)
            ones: Keywords = {name: np.ones(getattr(parts[lighter], count))}
            parts[lighter] = parts[lighter].with_(**ones)
    lacking: Keywords = {name: None for name in columns.names() if any(getattr(part, name) is None for part in parts)}
    if train.query_ids is not None and unlabelled.query_ids is not None:
        both = np.intersect1d(train.query_ids, unlabelled.query_ids)
        if both.size:
            raise check.error(
                "a query is labelled or unlabelled, and cannot be both",
                got=f"query {both[0]!s}" + (f" and {both.size - 1} more" if both.size > 1 else ""),
                hint="leave queries of the training data out of `unlabelled=`",
            )
    return concatenate([part.with_(**lacking) for part in parts])
