"""Calibration: a ranker whose predictions are probabilities of relevance, in the order of its scores."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Floats, Json, Offsets
from rankwise.check.docstrings import documented
from rankwise.check.parameters import Above, OneOf, Unset, assign, check_declared
from rankwise.data.concatenation import concatenate
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import MetricLike
from rankwise.models import attributes
from rankwise.models.calibrated import ALL, CalibratedModel, Segments, curves_of, knots
from rankwise.models.schema import ModelInput, Schema
from rankwise.objectives.table import ObjectiveLike, native
from rankwise.objectives.wrappers.goal import labels_learned
from rankwise.quality import leakage
from rankwise.rankers import expressions, fit_arguments, table
from rankwise.rankers.base import Ranker
from rankwise.rankers.ensembles.distilled import distilled
from rankwise.rankers.ensembles.feature import FeatureRanker
from rankwise.rankers.ensembles.meta import DelegatingRanker, EnsembleRanker, MetaRanker, kind_of, out_of_fold_of
from rankwise.rankers.table import load
from rankwise.rankers.training.settings import TrainingData, TrainingSettings, objective_of
from rankwise.rankers.trees.wrap import wrapped
from rankwise.statistics.calibration import IDENTITY, METHODS, Curve, fitted
from rankwise.statistics.reliability import MAIN, Event

_LEAST = 10  # relevant and other documents of a segment with a curve of its own


Method = Annotated[
    str,
    OneOf(METHODS),
    """``"isotonic"`` for any increasing curve, from about a thousand documents on; ``"platt"`` for a sigmoid, two
    numbers, from fewer. ``"sigmoid"`` fits nothing: 1/(1 + e^−score), for models that were trained with the objective
    ``calibrated``; data are optional, and only show whether the level is right.""",
]
Segment = Annotated[
    str | int | None,
    """Feature of queries, such as their market, by name or number: each of its values has a curve of its own, if it has
    10 relevant and 10 other documents. Other values have the curve of all documents, and so have queries with several
    values.""",
]
Relevant = Annotated[float, Above(0), "Least label of a relevant document."]
Label = Annotated[
    str | None,
    Unset("those that the model was trained for"),
    """Name of the labels in ``more_labels`` whose probability is predicted, or ``"labels"``; by default those that the
    model was trained for, by ``on(…)`` in its objective.""",
]


@documented
class CalibratedRanker(MetaRanker):
    """A ranker with a curve from its scores to probabilities of relevance; :func:`calibrate` makes one.

    ``predict`` returns probabilities, in the order of the scores of ``ranker_``. ``fit`` trains a clone of ``ranker``,
    and fits the curve to the validation data.
    """

    name = "calibrate"
    ranker: Ranker
    model_: CalibratedModel
    ranker_: Ranker
    """The trained ranker, whose scores are not calibrated."""
    curves_: dict[str, list[list[float]]]
    """The knots of each curve, scores and log odds: of all documents, and of each segment."""
    label_: str = MAIN
    """The name of the labels that it was calibrated for; models of older versions know no others than ``"labels"``."""

    def __init__(
        self,
        ranker: Annotated[Ranker | str, "Ranker that is not trained, or its expression."],
        *,
        method: Method = "isotonic",
        segment: Segment = None,
        relevant: Relevant = 1.0,
        label: Label = None,
    ) -> None:
        ranker = expressions.ranker(ranker)
        assign(self, locals())
        if not isinstance(self.ranker, Ranker):
            raise check.error("only rankers can be calibrated", got=kind_of(ranker))
        if hasattr(self.ranker, "recommend"):
            what, hint = "only rankers that score features can be calibrated", "calibrate one of trees or nets"
            raise check.error(what, got=f"a recommender, {kind_of(self.ranker)}", hint=hint)

    def nested(self) -> Mapping[str, Ranker]:
        """Return the ranker."""
        return {"ranker": self.ranker}

    @property
    def objective(self) -> ObjectiveLike:  # type: ignore[override]
        """The objective of the ranker; an AutoRanker has none before it is trained."""
        ranker: Ranker = self.__dict__.get("ranker_", self.ranker)
        return ranker.objective

    @property
    def metrics(self) -> MetricLike | Sequence[MetricLike]:  # type: ignore[override]
        """The metrics of the ranker."""
        return self.ranker.metrics

    @property
    def unit(self) -> str:  # type: ignore[override]
        """What rounds are called."""
        return self.ranker.unit

    @property
    def predicts_(self) -> Event:
        """What the probabilities are of."""
        return Event(self.label_, self.relevant)

    @property
    def curve(self) -> Curve:
        """The one curve of a ranker without segments."""
        return self.model_.curve

    def probabilities(self, scores: Array, features: Floats, offsets: Offsets | None, *, known: bool = True) -> Array:
        """Return probabilities of scores: see :meth:`CalibratedModel.probabilities`."""
        return self.model_.probabilities(scores, features, offsets, known=known)

    def _train(self, data: TrainingData, settings: TrainingSettings) -> None:
        """Train the ranker, and fit its curve to the validation data, or out of fold where the ranker pools them."""
        fit_arguments.reject_start(data.train, self)
        train, valid = data.train, data.valid
        self._check()
        pools = self.ranker.pools
        if valid is None and self.method != "sigmoid" and not pools:
            hint = "pass validation data, or calibrate a trained model: rw.calibrate(model, data)"
            raise check.error("a curve is fitted to queries that the ranker was not trained on", hint=hint)
        event = Event(self._chosen_label(self.ranker), self.relevant)
        for part in (train, valid):  # labels that are missing are an error before training
            if part is not None and (self.method != "sigmoid" or part is valid):
                event.of(part.labels, part.more_labels)
        ranker = self.ranker.__sklearn_clone__()
        with leakage.checked():
            options: Any = {"resume": settings.resume, "eval_sets": data.eval_sets, "callback": settings.callback}
            asked = {name: value for name, value in options.items() if value}  # an AutoRanker takes none of them
            ranker.fit(train, valid, **asked)
        if isinstance(became(ranker), EnsembleRanker) and valid is not None:
            train = concatenate([train, valid])
        scores = out_of_fold(ranker, train, known=True)
        if scores is None and valid is not None and self.method != "sigmoid":
            _warn_seen(became(ranker), valid)
        self.calibrate(ranker, valid if scores is None else train, scores)

    def _chosen_label(self, ranker: Ranker) -> str:
        """Return the name of the labels to calibrate for: ``label``, or the only ones that the ranker learns."""
        if self.label is not None:
            return str(self.label)
        names = learned_labels(ranker) or {MAIN}
        if len(names) > 1:
            listed = sorted(names)
            hint = " or ".join(f"label={name!r}" for name in listed)
            what = "a ranker that learns several labels is calibrated for one of them"
            raise check.error(what, got=", ".join(listed), hint=f"pass {hint}")
        return names.pop()

    def _check(self) -> None:
        check_declared(self)
        if self.method == "sigmoid" and self.segment is not None:
            raise check.error("the sigmoid of scores is the same in every segment", hint="leave segment out")

    def calibrate(self, ranker: Ranker, data: RankingDataset | None, scores: Array | None = None) -> Self:
        """Fit the curves of a trained ranker to data, by its scores of them, or by these."""
        self._check()
        self.label_ = self._chosen_label(ranker)
        schema = ranker.model_.schema
        schema.reject_start("calibrated rankers")
        self.ranker_ = ranker
        self.history_, self.best_round_, self.stopped_ = ranker.history_, ranker.best_round_, ranker.stopped_
        learned = data if self.method != "sigmoid" else None  # the sigmoid only checks them
        seen = [] if learned is None else [leakage.trained_hashes(schema.align(learned))]
        self.trained_queries_ = leakage.union(ranker.trained_queries_, *seen)
        if data is not None and scores is None:
            scores = ranker.predict(data)
        curves, segments = {ALL: IDENTITY}, Segments(schema, self.segment)
        if data is not None and scores is not None and self.method != "sigmoid":
            curves = self._fitted(data, scores, segments.of(ranker.model_.matrix(data)))
        self.curves_ = knots(curves)
        self.model_ = CalibratedModel(ranker.model_, curves, segments)
        if data is not None and scores is not None:
            p = self.model_.probabilities(scores, self.model_.matrix(data), data.offsets)
            self._check_order(scores, p, data)
            if self.method == "sigmoid":
                self._check_level(p, data)
        return self

    def _check_order(self, scores: Array, p: Array, data: RankingDataset) -> None:
        """Warn where documents of a query have different scores, by more than rounding, and the same probability."""
        queries = np.repeat(np.arange(data.n_queries), data.sizes)
        order = np.lexsort((scores, queries))
        apart = np.diff(scores[order]) > 16.0 * np.spacing(np.abs(scores[order][1:]))
        tied = int((apart & (np.diff(p[order]) == 0.0) & (np.diff(queries) == 0)).sum())
        if tied:
            what = f"the curve makes {np.unique(p).size:,} different probabilities of {np.unique(scores).size:,} "
            what += (
                f"different scores: {tied:,} documents are tied with another of their query, and their order is lost"
            )
            hint = "rank by model.ranker_" + (
                ", or fit a curve: `set method='platt'`" if self.method == "sigmoid" else ""
            )
            check.warn(what, hint=hint, stacklevel=4)

    def _check_level(self, p: Array, data: RankingDataset) -> None:
        """Warn where the mean of probabilities that were not fitted is surely another than the rate of events."""
        happened = self.predicts_.of(data.labels, data.more_labels)
        weights = _document_weights(data)
        mean, rate = weights @ p / data.n_docs, weights @ happened / data.n_docs
        difference = np.add.reduceat(weights * (p - happened), data.offsets[:-1]) / data.sizes.mean()
        error = difference.std() / np.sqrt(max(data.n_queries - 1, 1))
        if abs(difference.mean()) > max(4.0 * error, 0.2 * rate):
            what = f"the mean probability of {self.predicts_} is {mean:.4f} where {rate:.4f} are observed: "
            what += "scores are not its log odds"  # training did not get there, or max_label= made them those of grades
            check.warn(what, hint="fit the level: `set method='platt'`", stacklevel=4)

    def _fitted(self, data: RankingDataset, scores: Array, names: Any) -> dict[str, Curve]:
        """Fit the curve of all documents, and of every segment that has enough, by its name for each document."""
        relevant = self.predicts_.of(data.labels, data.more_labels)
        weights = _document_weights(data)
        from rankwise.data.segments import of_lists

        of_lists(names, self.segment, data.offsets, data.query_ids, ", or their order would change")
        curves = {}
        for name in dict.fromkeys((ALL, *names)):
            part = (names == name) | (name == ALL)
            if name == ALL or _LEAST <= relevant[part].sum() <= part.sum() - _LEAST:
                curves[name] = fitted(self.method, scores[part], relevant[part], weights[part])
        if curves[ALL] is None:
            got = f"{int(relevant.sum()):,} relevant of {relevant.size:,} documents"
            hint = f"check the data, and `relevant=` of {self.label_}"
            raise check.error("relevance does not rise with scores", got=got, hint=hint)
        return {name: curve for name, curve in curves.items() if curve is not None}

    # On disk: the ranker, and the curves.

    def recipe(self, without: Any = ()) -> Json:
        """Return what files hold of the calibration; the ranker is beside it."""
        names = ("method", "segment", "relevant", "label")
        parameters = {name: getattr(self, name) for name in names if name not in without}
        return {"ranker": self.name, "objective": expressions.objective_of(self), "parameters": parameters}

    def saved(self) -> tuple[Json, dict[str, bytes]]:
        """Return the description, and the files of the ranker and the curves."""
        return self.description(), attributes.files(self)

    @classmethod
    def untrained(cls, recipe: Json) -> Self:
        """Return the calibration of a recipe, of a ranker that is not read yet."""
        return cls(FeatureRanker(0), **recipe["parameters"])

    def read_model(self, description: Json, files: dict[str, bytes], schema: Schema) -> CalibratedModel:
        """Read the ranker and the curves, and verify these."""
        attributes.restore(self, files, table.from_description)
        self.ranker = self.ranker_.__sklearn_clone__()
        self._check()
        hint = "get the folder again, or train anew"
        if not isinstance(self.label_, str) or not self.label_:
            raise check.error("the model is damaged", got=f"labels called {self.label_!r}", hint=hint)
        if schema != self.ranker_.model_.schema:
            raise check.error("the model is damaged", got="features that are not those of its ranker", hint=hint)
        segments = Segments(schema, self.segment)
        return CalibratedModel(self.ranker_.model_, curves_of(self.curves_, segments), segments)


@documented
def calibrate(
    model: Annotated[object, "Trained ranker, its folder, or a model of another library (see :func:`wrap`)."],
    data: Annotated[
        ModelInput | None,
        """Queries that the model was not trained on, with labels; of others there is a warning. All queries that a bag
        or a blend was trained on will do, in their order: the curve is fitted to their out-of-fold scores.""",
    ] = None,
    method: Method = "isotonic",
    *,
    segment: Segment = None,
    relevant: Relevant = 1.0,
    label: Label = None,
) -> CalibratedRanker:
    """Return a ranker that predicts probabilities of relevance: a trained model with a curve that is fitted to data.

    The order of documents within a query does not change; scores that a curve makes equal are a warning. What ``save``
    writes has the curve, and ONNX exports too.

    >>> import rankwise as rw
    >>> train, fresh = rw.split(rw.synthetic(n_queries=100, n_docs=20, seed=1), (0.6, 0.4), seed=0)
    >>> model = rw.LightGBMRanker("lambdarank", rounds=20, leaves=7, threads=1).fit(train)
    >>> calibrated = rw.calibrate(model, fresh, "platt")
    >>> calibrated
    calibrate(lightgbm(lambdarank, rounds=20, leaves=7, threads=1), method=platt)
    >>> float(calibrated.predict(fresh).mean().round(2)), float((fresh.labels >= 1).mean().round(2))
    (0.48, 0.48)
    """
    ranker = load(model) if isinstance(model, str | Path) else wrapped(model)
    if ranker is None:
        raise check.error("only trained rankers can be calibrated", got=kind_of(model), hint="train it, or rw.wrap it")
    if data is None and method != "sigmoid":
        raise check.error("a curve is fitted to data", got="none", hint="pass queries that the model has not seen")
    lists = None if data is None else fit_arguments.dataset(data, schema=ranker.model_.schema)
    settings: Any = {"method": method, "segment": segment, "relevant": relevant, "label": label}
    scores = None if lists is None else out_of_fold(ranker, lists)
    if lists is not None and scores is None and method != "sigmoid":
        _warn_seen(ranker, lists)
    return CalibratedRanker(ranker.__sklearn_clone__(), **settings).calibrate(ranker, lists, scores)


def became(ranker: Any) -> Ranker:
    """Return the ranker that training turned this one into, as an AutoRanker becomes a blend."""
    return became(ranker.ranker_) if isinstance(ranker, DelegatingRanker) else ranker


def out_of_fold(ranker: Ranker, data: RankingDataset, *, known: bool = False) -> Array | None:
    """Return scores of the queries that an ensemble was trained on by members that did not see them.

    None of other rankers, or where ``data`` are not all of these queries, in the order in which they were trained on;
    that it was trained on these data is ``known``, or seen by their contents.
    """
    ensemble = became(ranker)
    if not isinstance(ensemble, EnsembleRanker):
        return None
    held_out, seen = out_of_fold_of(ensemble), ensemble.seen_in_training(data)
    same = known or (seen is not None and bool(seen[data.sizes > 1].all()))  # a query of one document has no hash
    return held_out.scores if same and held_out.covers(data) else None


@functools.singledispatch
def learned_labels(ranker: Ranker) -> set[str]:
    """Return the names of the labels that a ranker learns, ``"labels"`` among them; none of a single feature.

    >>> sorted(learned_labels(expressions.ranker("blended(lightgbm(on(purchase, xendcg)), lightgbm, column(0))")))
    ['labels', 'purchase']
    """
    if nested := ranker.nested():
        return set().union(*map(learned_labels, nested.values()))
    objective = getattr(ranker, "objective", None)
    if objective is None or native(objective) is not None:
        return {MAIN}
    return {MAIN if name is None else name for name in labels_learned(objective_of(ranker))}


@learned_labels.register
def _(ranker: FeatureRanker) -> set[str]:  # noqa: ARG001
    return set()


@learned_labels.register
def _(ranker: CalibratedRanker) -> set[str]:
    return {ranker.label_} if ranker.__sklearn_is_fitted__() else learned_labels(ranker.ranker)


@learned_labels.register
def _(ranker: DelegatingRanker) -> set[str]:
    # What it will become is not known before.
    return learned_labels(ranker.ranker_) if ranker.__sklearn_is_fitted__() else set()


@learned_labels.register
def _(ranker: distilled) -> set[str]:
    teachers = ranker.teacher if isinstance(ranker.teacher, list | tuple) else (ranker.teacher,)
    student = (ranker.student,) if ranker.weight < 1 else ()
    rankers = (*(one for one in teachers if isinstance(one, Ranker)), *student)
    # Of a teacher that is no ranker, and all that is learned from, nothing is known but what the student would learn.
    return set().union(*map(learned_labels, rankers or (ranker.student,)))


def _document_weights(data: RankingDataset) -> Array:
    """The weights of queries, 1 on average: curves count documents, so that the unit of weights must not matter."""
    weights = np.ones(data.n_docs) if data.weights is None else np.repeat(data.weights, data.sizes)
    weights = weights / weights.max()  # their sum may be too large for a number
    return np.asarray(weights / weights.mean())


def _warn_seen(ranker: Ranker, data: RankingDataset) -> None:
    """Warn of queries that the model was trained on, whose scores are surer than those of others."""
    seen = ranker.seen_in_training(data)
    if seen is not None and seen.any():
        what = f"{int(seen.sum()):,} of the {seen.size:,} queries that the model is calibrated on have the features of "
        what += "training queries; scores of those that it was trained on are surer than others, and so will be its "
        what += "probabilities"
        hint = "pass queries that it has not seen, or all that a bag or blend was trained on"
        check.warn(what, hint=hint, stacklevel=3)
