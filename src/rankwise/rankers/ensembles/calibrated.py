"""Calibration: a ranker whose predictions are probabilities of relevance, in the order of its scores."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Never, Self, Unpack

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Floats, Json, Offsets
from rankwise.data import leakage
from rankwise.data.concatenation import concatenate
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import MetricLike
from rankwise.models.schema import Documents
from rankwise.models.scoring.scorer import Scorer
from rankwise.objectives.table import ObjectiveLike, native
from rankwise.objectives.wrappers.on import labels_learned
from rankwise.rankers import expressions, inputs
from rankwise.rankers.at_once import FitOptions
from rankwise.rankers.base import Ranker
from rankwise.rankers.ensembles.distilled import distilled
from rankwise.rankers.ensembles.feature import FeatureRanker
from rankwise.rankers.ensembles.meta import DelegatingRanker, EnsembleRanker, MetaRanker, kind_of
from rankwise.rankers.table import load
from rankwise.rankers.trees.wrap import wrapped
from rankwise.sparse import dense
from rankwise.statistics.calibration import IDENTITY, METHODS, Curve, fitted
from rankwise.statistics.reliability import MAIN, Event

_LEAST = 10  # relevant and other documents of a segment with a curve of its own
_ALL = ""  # no segment has this name


class CalibratedRanker(MetaRanker):
    """A ranker with a curve from its scores to probabilities of relevance; :func:`calibrate` makes one.

    ``predict`` returns probabilities, in the order of the scores of ``ranker_``. ``fit`` trains a clone of ``ranker``,
    and fits the curve to the validation data. Parameters are those of :func:`calibrate`.
    """

    name = "calibrate"
    ranker_: Ranker
    """The trained ranker, whose scores are not calibrated."""
    curves_: dict[str, list[list[float]]]
    """The knots of each curve, scores and log odds: of all documents, and of each segment."""
    label_: str = MAIN
    """The name of the labels that it was calibrated for; models of older versions know no others than ``"labels"``."""

    def __init__(
        self,
        ranker: Ranker | str,
        *,
        method: str = "isotonic",
        segment: str | int | None = None,
        relevant: float = 1.0,
        label: str | None = None,
    ) -> None:
        self.ranker: Ranker = expressions.ranker(ranker)
        self.method = method
        self.segment = segment
        self.relevant = relevant
        self.label = label
        self.native = {}
        if not isinstance(self.ranker, Ranker):
            raise check.error("only rankers can be calibrated", got=kind_of(ranker))
        if hasattr(self.ranker, "recommend"):
            what, hint = "only rankers that score features can be calibrated", "calibrate one of trees or nets"
            raise check.error(what, got=f"a recommender, {kind_of(self.ranker)}", hint=hint)

    def _nested(self) -> Mapping[str, Ranker]:
        return {"ranker": self.ranker}

    @property
    def _delegate(self) -> Ranker:
        return self.ranker_

    @property
    def _least_code(self) -> float:  # type: ignore[override]
        return self.ranker_._least_code

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
    def loss_compares(self) -> bool:
        """Whether the losses of different rounds of the ranker compare."""
        return bool(getattr(self.ranker, "loss_compares", True))

    @property
    def predicts_(self) -> Event:
        """What the probabilities are of."""
        return Event(self.label_, self.relevant)

    def _fit_on(self, train: RankingDataset, valid: RankingDataset | None, **options: Unpack[FitOptions]) -> None:
        """Train the ranker, and fit its curve to the validation data, or out of fold where the ranker pools them."""
        self._check()
        pools = isinstance(self.ranker, EnsembleRanker)
        if valid is None and self.method != "sigmoid" and not pools:
            hint = "pass validation data, or calibrate a trained model: rw.calibrate(model, data)"
            raise check.error("a curve is fitted to queries that the ranker was not trained on", hint=hint)
        event = Event(self._chosen_label(self.ranker), self.relevant)
        for part in (train, valid):  # labels that are missing are an error before training
            if part is not None and (self.method != "sigmoid" or part is valid):
                event.of(part.labels, part.more_labels)
        ranker = self.ranker.__sklearn_clone__()
        with leakage.checked():
            asked: Any = {name: value for name, value in options.items() if value}  # an AutoRanker takes none of them
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
            return self.label
        names = learned_labels(ranker) or {MAIN}
        if len(names) > 1:
            listed = sorted(names)
            hint = " or ".join(f"label={name!r}" for name in listed)
            what = "a ranker that learns several labels is calibrated for one of them"
            raise check.error(what, got=", ".join(listed), hint=f"pass {hint}")
        return names.pop()

    def _check(self) -> None:
        check.choice("method", self.method, METHODS)
        check.number("relevant", self.relevant, least=0.0, open_ends=True)
        if self.method == "sigmoid" and self.segment is not None:
            raise check.error("the sigmoid of scores is the same in every segment", hint="leave segment out")

    def calibrate(self, ranker: Ranker, data: RankingDataset | None, scores: Array | None = None) -> Self:
        """Fit the curves of a trained ranker to data, by its scores of them, or by these."""
        self._check()
        self.label_ = self._chosen_label(ranker)
        ranker._schema.reject_start("calibrated rankers")
        self.ranker_, self._schema = ranker, ranker._schema
        self.history_, self.best_round_, self.stopped_ = ranker.history_, ranker.best_round_, ranker.stopped_
        learned = data if self.method != "sigmoid" else None  # the sigmoid only checks them
        seen = [] if learned is None else [leakage.trained_hashes(ranker._schema.align(learned))]
        self.trained_queries_ = leakage.union(ranker.trained_queries_, *seen)
        if data is not None and scores is None:
            scores = ranker.predict(data)
        curves = {_ALL: IDENTITY}
        if data is not None and scores is not None and self.method != "sigmoid":
            curves = self._fitted(data, scores)
        self.curves_ = {
            name: [curve.scores.tolist(), curve.log_odds.tolist(), [curve.outer]] for name, curve in curves.items()
        }
        self._read_curves()
        if data is not None and scores is not None:
            p = self.probabilities(scores, self._features(data), data.offsets)
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
            warnings.warn(check.Sentence(f"{what}.", hint), stacklevel=4)

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
            warnings.warn(check.Sentence(f"{what}.", "fit the level: `set method='platt'`"), stacklevel=4)

    def _fitted(self, data: RankingDataset, scores: Array) -> dict[str, Curve]:
        """Fit the curve of all documents, and of every segment that has enough."""
        relevant = self.predicts_.of(data.labels, data.more_labels)
        weights = _document_weights(data)
        names = self._segments(self._features(data))
        changes = np.flatnonzero(names != np.repeat(names[data.offsets[:-1]], data.sizes))
        if changes.size:
            raise check.error(
                "a segment must be the same for all documents of a query, or their order would change",
                got=f"{names[changes[0]]!r} of {self.segment!r}",
                where=check.query_of_row(int(changes[0]), data.offsets, data.query_ids),
                hint="name a feature of queries",
            )
        curves = {}
        for name in dict.fromkeys((_ALL, *names)):
            part = (names == name) | (name == _ALL)
            if name == _ALL or _LEAST <= relevant[part].sum() <= part.sum() - _LEAST:
                curves[name] = fitted(self.method, scores[part], relevant[part], weights[part])
        if curves[_ALL] is None:
            got = f"{int(relevant.sum()):,} relevant of {relevant.size:,} documents"
            hint = f"check the data, and `relevant=` of {self.label_}"
            raise check.error("relevance does not rise with scores", got=got, hint=hint)
        return {name: curve for name, curve in curves.items() if curve is not None}

    def _verify_curves(self) -> None:
        """Raise if a file holds what :meth:`calibrate` does not make."""
        hint = "get the folder again, or train anew"
        self._check()
        if not isinstance(self.label_, str) or not self.label_:
            raise check.error("the model is damaged", got=f"labels called {self.label_!r}", hint=hint)
        if self._schema != self.ranker_._schema:
            raise check.error("the model is damaged", got="features that are not those of its ranker", hint=hint)
        names: set[str] = set()
        if self.segment is not None:
            number, named = self._named_segments()
            codes = (*range(len(self._schema.categories.get(number, ()))), np.nan)
            names = {named(code) for code in codes} if len(codes) > 1 else set(self.curves_)
        if not {_ALL} <= set(self.curves_) <= {_ALL, *names}:
            raise check.error("the model is damaged", got=f"curves of {', '.join(map(repr, self.curves_))}", hint=hint)

    def _read_curves(self) -> None:
        self._curves = {
            name: Curve(np.array(scores), np.array(log_odds), *outer)
            for name, (scores, log_odds, outer) in self.curves_.items()
        }

    def _segments(self, features: Floats) -> Any:
        """Return the name of each document's segment."""
        if self.segment is None:
            return np.full(features.shape[0], _ALL)
        number, named = self._named_segments()
        values, place = np.unique(dense(features[:, [number]])[:, 0], return_inverse=True)
        return np.array([named(value) for value in values], object)[place]

    def _named_segments(self) -> tuple[int, Callable[[float], str]]:
        """Return the column of segments, and what names them: no two values alike, nor one like all documents."""
        schema, column = self._schema, self.segment
        if isinstance(column, str):
            if schema.names is None:
                raise check.error("the features of these data have no names", got=repr(column), hint="pass its number")
            column = schema.names.index(check.choice("segment", column, schema.names))
        number: int = check.columns("segment", [0 if column is None else column], schema.count)[0]
        listed = [str(value) for value in schema.categories.get(number, ())]
        missing, empty = (_unlike(name, listed) for name in ("missing", "empty"))

        def named(value: float) -> str:
            if np.isnan(value):
                return missing
            if listed:
                return listed[int(value)] or empty
            short = f"{value + 0.0:.7g}"  # without the sign of 0
            return short if np.float32(short) == value else f"{value:.9g}"

        return number, named

    def probabilities(self, scores: Array, features: Floats, offsets: Offsets | None, *, known: bool = True) -> Array:
        """Return probabilities of scores, by the curve of all documents where a query has not one segment.

        Without ``offsets`` each document has the curve of its own segment; where it is not ``known`` that documents of
        several segments are of several queries, such documents are an error.
        """
        if self.segment is None:
            return self._curves[_ALL](scores)
        names = self._segments(features)
        if offsets is None and not known and (names != names[0]).any():
            raise check.error(
                "documents of several segments are of one query or of several, which have other curves",
                got=f"{names[0]!r} and {names[names != names[0]][0]!r} of {self.segment!r}",
                hint="pass a RankingDataset, or tell queries apart: scorer(features, offsets), [0, n] for one query",
            )
        if offsets is not None:
            sizes = np.diff(offsets)
            differs = names != np.repeat(names[offsets[:-1]], sizes)
            names[np.repeat(np.add.reduceat(differs, offsets[:-1], dtype=np.int64) > 0, sizes)] = _ALL
        result = np.empty(scores.size)
        for name in set(names):
            result[names == name] = self._curves.get(name, self._curves[_ALL])(scores[names == name])
        return result

    @property
    def curve(self) -> Curve:
        """The one curve of a ranker without segments."""
        if self.segment is not None:
            what = "the curves of segments cannot be exported"
            raise check.error(what, got=f"segment={self.segment!r}", hint="export model.ranker_, or calibrate without")
        return self._curves[_ALL]

    def _score_lists(self, features: Floats, offsets: Offsets | None) -> Array:
        return self.probabilities(self.ranker_._score_lists(features, offsets), features, offsets)

    def scorer(self) -> Scorer:
        """Return what computes the probabilities of one query's documents in the least time."""
        return Scorer(self)

    def contributions(self, data: Documents) -> Never:
        """Raise: contributions of features add up to scores, and not to probabilities."""
        raise check.error("contributions add up to scores, and not to probabilities", hint="explain model.ranker_")

    # On disk: the ranker, and the curves.

    def _parameters(self, without: Any = ()) -> Json:
        return {name: getattr(self, name) for name in ("method", "segment", "relevant", "label") if name not in without}

    def _check_named(self) -> None:
        self.ranker_._check_named()

    @classmethod
    def _untrained(cls, description: Json) -> Self:
        return cls(FeatureRanker(0), **description["parameters"])  # until the files of the ranker have been read

    def _restore(self, description: Json, files: dict[str, bytes]) -> None:
        super()._restore(description, files)
        self.ranker = self.ranker_.__sklearn_clone__()
        self._verify_curves()
        self._read_curves()


def calibrate(
    model: object,
    data: Documents | None = None,
    method: str = "isotonic",
    *,
    segment: str | int | None = None,
    relevant: float = 1.0,
    label: str | None = None,
) -> CalibratedRanker:
    """Return a ranker that predicts probabilities of relevance: a trained model with a curve that is fitted to data.

    Args:
        model: A trained ranker, its folder, or a model of another library (see :func:`wrap`).
        data: Queries that the model was not trained on, with labels; of others there is a warning. All queries that a
            bag or a blend was trained on will do, in their order: the curve is fitted to their out-of-fold scores.
        method: ``"isotonic"`` for any increasing curve, from about a thousand documents on; ``"platt"`` for a sigmoid,
            two numbers, from fewer. ``"sigmoid"`` fits nothing: 1/(1 + e^−score), for models that were trained
            with the objective ``calibrated``; data are optional, and only show whether the level is right.
        segment: A feature of queries, such as their market, by name or number: each of its values has a curve of its
            own, if it has 10 relevant and 10 other documents. Other values have the curve of all documents, and so
            have queries with several values.
        relevant: The least label of a relevant document.
        label: The name of the labels in ``more_labels`` whose probability is predicted, or ``"labels"``; by default
            those that the model was trained for, by ``on(…)`` in its objective.

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
    lists = None if data is None else inputs.dataset(data, schema=ranker._schema)
    settings: Any = {"method": method, "segment": segment, "relevant": relevant, "label": label}
    scores = None if lists is None else out_of_fold(ranker, lists)
    if lists is not None and scores is None and method != "sigmoid":
        _warn_seen(ranker, lists)
    return CalibratedRanker(ranker.__sklearn_clone__(), **settings).calibrate(ranker, lists, scores)


def _unlike(name: str, names: Sequence[str]) -> str:
    """Return a name in as many parentheses as none of the others has.

    >>> _unlike("missing", ["a", "missing"])
    '(missing)'
    """
    return _unlike(f"({name})", names) if name in names else name


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
    held_out, seen = ensemble._out_of_fold(), ensemble.seen_in_training(data)
    same = known or (seen is not None and bool(seen[data.sizes > 1].all()))  # a query of one document has no hash
    return held_out.scores if same and held_out.covers(data) else None


def learned_labels(ranker: Ranker) -> set[str]:
    """Return the names of the labels that a ranker learns, ``"labels"`` among them; none of a single feature.

    >>> sorted(learned_labels(expressions.ranker("blended(lightgbm(on(purchase, xendcg)), lightgbm, column(0))")))
    ['labels', 'purchase']
    """
    if isinstance(ranker, CalibratedRanker) and ranker.__sklearn_is_fitted__():
        return {ranker.label_}
    inner: Iterable[Any] = ranker._nested().values() if isinstance(ranker, MetaRanker) else ()
    if isinstance(ranker, distilled):
        teachers = ranker.teacher if isinstance(ranker.teacher, list | tuple) else (ranker.teacher,)
        inner = (
            *(one for one in teachers if isinstance(one, Ranker)),
            *((ranker.student,) if ranker.weight < 1 else ()),
        )
    elif isinstance(ranker, DelegatingRanker):
        if not ranker.__sklearn_is_fitted__():
            return set()  # what it will become is not known yet
        inner = (ranker.ranker_,)
    if inner:
        return set().union(*map(learned_labels, inner))
    objective = getattr(ranker, "objective", None)
    if isinstance(ranker, FeatureRanker):
        return set()
    if objective is None or native(objective) is not None:
        return {MAIN}
    return {MAIN if name is None else name for name in labels_learned(ranker._objective())}


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
        warnings.warn(check.Sentence(f"{what}.", hint), stacklevel=3)
