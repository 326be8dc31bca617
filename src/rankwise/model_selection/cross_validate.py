"""Cross-validation: every query is ranked by a model that has not seen it, and all of them are judged together."""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from rankwise import check, moved
from rankwise.base import tables
from rankwise.base.arrays import Array, Ids, Json, Keywords, comparable, rows_of
from rankwise.base.progress import Update, bar
from rankwise.check.docstrings import plain_signature
from rankwise.check.parameters import AtLeast, Option
from rankwise.data.concatenation import concatenate
from rankwise.data.dataset import RankingDataset
from rankwise.data.segments import Labels, Segment
from rankwise.evaluation import segments
from rankwise.evaluation.measure import judged_share
from rankwise.language import user_code
from rankwise.language.workspace import Workspace
from rankwise.metrics import Metric, MetricLike, metrics_for
from rankwise.metrics.base import weighted_mean
from rankwise.model_selection.fold_splits import fold_list
from rankwise.models import storage
from rankwise.quality import leakage
from rankwise.rankers import expressions
from rankwise.rankers.base import IterativeRanker, Ranker
from rankwise.rankers.table import load
from rankwise.rankers.training.resume import checkpoint_folder, fingerprint
from rankwise.rankers.training.run import interruption_unannounced
from rankwise.rankers.training.settings import code_of
from rankwise.statistics.evaluation import Evaluation, Ranked
from rankwise.statistics.judgements import Digests, judgements_of
from rankwise.statistics.titles import Titles

if TYPE_CHECKING:
    import polars as pl

_FREE = ("progress", "checkpoint", "threads", "device")  # which make no other model


@moved.renamed("rw.results.CrossValidation")
@dataclass(frozen=True, eq=False, repr=False)
class CrossValidation(Evaluation):
    """The values of all tested queries, each under the model of a fold that did not see it."""

    _: KW_ONLY
    fold: NDArray[np.int64]
    """(n_queries,) the number of the fold, from 1, that tested each query."""
    scores: NDArray[np.float64]
    """Out-of-fold scores: one per document of the data, NaN in queries that no fold tested. With prepared folds, those
    of the test parts one after the other."""
    models: tuple[Any, ...]
    """The model of each fold."""

    @cached_property
    def fold_means(self) -> dict[str, Array]:
        """Metric -> its mean in each fold; NaN where it scores no query of the fold."""
        numbers = range(1, len(self.models) + 1)
        return {name: np.array([self._mean(column, k) for k in numbers]) for name, column in self.values.items()}

    @cached_property
    def spread(self) -> dict[str, float]:
        """Metric -> the standard deviation of its means over the folds.

        Folds share most of their training queries, so this is no standard error: ``interval`` and :func:`compare` go by
        queries.
        """
        return {name: float(np.nanstd(means, ddof=1)) for name, means in self.fold_means.items()}

    def to_frame(self) -> "pl.DataFrame":
        """One row per query: its id, its weight, its fold, and one column per metric (null where it is skipped)."""
        import polars as pl

        frame = super().to_frame()
        return frame.insert_column(2, pl.Series("fold", self.fold))

    def summary(self) -> "pl.DataFrame":
        """One row per metric: mean, ends of the interval, queries scored and skipped, and the spread over folds."""
        import polars as pl

        means = self.fold_means.values()
        return super().summary().with_columns(
            pl.Series("folds_sd", list(self.spread.values())),
            pl.Series("folds_low", [float(np.nanmin(one)) for one in means]),
            pl.Series("folds_high", [float(np.nanmax(one)) for one in means]),
        )  # fmt: skip

    def table(self, *, titles: Titles | None = None) -> tables.Table:
        """Return the summary as a table that prints as text, Markdown, LaTeX or HTML; ``titles`` name the metrics."""
        plain = super().table(titles=titles)
        rows = tuple(
            (*row, f"{tables.number(float(np.nanmin(means)))} to {tables.number(float(np.nanmax(means)))}, sd {sd:.4f}")
            for row, means, sd in zip(plain.rows, self.fold_means.values(), self.spread.values(), strict=True)
        )
        header = (*plain.header, f"over {len(self.models)} folds")
        return tables.Table(header=header, rows=rows, align=plain.align + "l", notes=plain.notes)

    def _mean(self, column: Array, number: int) -> float:
        rows = (self.fold == number) & ~np.isnan(column)
        weights = None if self.weights is None else self.weights[rows]
        return weighted_mean(column[rows], weights) if rows.any() and (weights is None or weights.any()) else np.nan


@moved.renamed("rw.cross_validate")
@plain_signature
def cross_validate(
    ranker: object,
    data: RankingDataset | None = None,
    folds: object = 5,
    *,
    metrics: MetricLike | Iterable[MetricLike] = ("ndcg@10",),
    seed: Annotated[int, AtLeast(0), "Seed of the folds.", Option(group="Running")] = 0,
    valid: float = 0.2,
    checkpoint: Annotated[
        str | Path | None, "Folder that keeps finished folds.", Option(metavar="DIR", group="Running")
    ] = None,
    resume: Annotated[bool, "Whether finished folds are taken from that folder.", Option(group="Running")] = False,
    progress: Annotated[bool | None, "Whether to show progress.", Option(group="Running")] = None,
    level: float = 0.95,
    resamples: int = 2000,
    segment: Segment | None = None,
) -> CrossValidation:
    """Train a ranker on every fold but one, test it on that one, and pool the values of all queries.

    ``ranker`` is a ranker or its expression, and stays untrained: each fold trains a clone. Queries fall into ``folds``
    parts by their ids and ``seed``, so that all rankers have the same folds (the test parts of :func:`rankwise.folds`)
    and :func:`compare` pairs their results by query, without the data. ``folds`` may also list ``(train, test)`` or
    ``(train, valid, test)``: numbers of queries in ``data``, or data sets, and then no ``data`` is passed.

    A ranker that stops early (``patience`` is not None) holds out ``valid``, a share of the training queries of the
    fold, drawn by ``seed``, unless the fold has a validation part itself. The tested queries never decide when to
    stop. With ``valid=0``, or ``patience=None``, a fold trains all rounds on all of its training queries.

    ``checkpoint`` is a folder that keeps the model of every finished fold; ``resume=True`` takes them from there after
    an interruption. A ranker with a ``checkpoint`` of its own keeps one for each fold below it.

    ``segment`` adds means by segment of the queries, as in :func:`evaluate`.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=60, n_docs=10, seed=1)
    >>> results = {
    ...     name: rw.cross_validate(rw.LightGBMRanker(name, rounds=10, leaves=4, threads=1), data, folds=3)
    ...     for name in ("lambdarank", "xendcg")
    ... }
    >>> results["xendcg"].query_ids.size, len(results["xendcg"].models), results["xendcg"].scores.size == data.n_docs
    (60, 3, True)
    >>> rw.compare(results).paired.unit
    'query'
    """
    ranker = checked_ranker(ranker)
    seed = check.integer("seed", seed, least=0)
    share = check.number("valid, a share of the training queries,", valid, least=0.0, most=0.9)
    measured = metrics_for(metrics, data)
    share = share if getattr(ranker, "patience", None) is not None else 0.0
    plan = fold_list(data, folds, valid=share, seed=seed)
    texts = {"what": "cross-validation", "same": "ranker, data and folds"}
    parts = (fold.parts() for fold in plan)
    finished = finished_models(checkpoint, ranker, parts, **texts, resume=resume)
    known = None if data is None else segments.of_data(segment, data)  # a wrong name is an error before any training
    tested = []
    with bar(progress, len(plan), f"fold 1 of {len(plan)}") as update:
        trainings = Trainings("fold", len(plan), update, finished, resume)
        for number, fold in enumerate(plan, 1):
            train, held_out, test = fold.parts()
            model = trainings.model(number, ranker, train, held_out)
            scores = check.scores(model.predict(test.without_rows()), test.offsets, test.query_ids)
            values = {str(metric): metric.of(scores, test) for metric in measured}
            about = cast("Ids", test.query_ids), test.weights, fold.queries, judgements_of(test, measured)()
            kinds = {name: labels[fold.queries] for name, labels in (known or {}).items()}
            kinds = segments.of_data(segment, test) if known is None else kinds
            none = np.empty((test.n_docs, 0))
            columns: Keywords = {"document_ids": test.document_ids, "judged": test.judged}
            each = np.ones(test.n_queries) if test.weights is None else test.weights
            lists = RankingDataset(none, test.labels, test.offsets, weights=each, **columns)
            tested.append(_Tested(model, scores, values, *about, kinds, lists))
    return _pooled(data, tested, measured, seed=seed, level=level, resamples=resamples)


def checked_ranker(ranker: object) -> Any:
    """Return a ranker that can be trained, also from its expression."""
    if isinstance(ranker, str):
        ranker = expressions.ranker(ranker)
    if not hasattr(ranker, "fit") or not hasattr(ranker, "predict"):
        hint = "pass a ranker that is not trained yet, such as rw.LightGBMRanker()"
        raise check.error("a ranker has fit and predict", got=type(ranker).__name__, hint=hint)
    return ranker


class _Tested(NamedTuple):
    """The results of a fold on its test part."""

    model: Any
    scores: Array
    values: dict[str, Array]
    ids: Ids
    weights: Array | None
    queries: NDArray[np.int64] | None
    digests: Digests
    segments: Labels
    lists: RankingDataset
    """What was ranked, without features."""


def _pooled(
    data: RankingDataset | None, tested: list[_Tested], measured: Sequence[Metric], **settings: Any
) -> CrossValidation:
    """Pool the folds: in the order of the data, or one after the other."""
    weighted = any(one.weights is not None for one in tested)
    weights = np.concatenate([np.ones(one.ids.size) if one.weights is None else one.weights for one in tested])
    fold = np.repeat(np.arange(1, len(tested) + 1), [one.ids.size for one in tested])
    numbers = np.arange(fold.size)
    if data is not None:
        numbers = np.concatenate([one.queries for one in tested if one.queries is not None])
    order, scores = np.argsort(numbers), np.concatenate([one.scores for one in tested])
    if all(one.lists.judged is not None for one in tested):  # then verdicts need the rankings
        lists = concatenate([one.lists for one in tested])
        ranks, lists = scores[rows_of(order, lists.offsets)[0]], lists.take(order)
        settings["ranked"] = Ranked(ranks, lists.labels, lists.offsets, lists.document_ids, lists.judged)
        settings["judged"] = judged_share(ranks, lists, measured)
    if data is not None:
        rows, flat = rows_of(numbers, data.offsets)[0], scores
        scores = np.full(data.n_docs, np.nan)
        scores[rows] = flat
    return CrossValidation(
        {name: np.concatenate([one.values[name] for one in tested])[order] for name in tested[0].values},
        np.concatenate(comparable(*(one.ids for one in tested)))[order],
        weights[order] if weighted else None,
        fold=fold[order],
        scores=scores,
        models=tuple(one.model for one in tested),
        segments={name: np.concatenate([one.segments[name] for one in tested])[order] for name in tested[0].segments},
        judgements={name: np.concatenate([one.digests[name] for one in tested])[order] for name in tested[0].digests},
        **settings,
    )


@dataclass(frozen=True)
class Trainings:
    """Several trainings, one after the other: what they are called, their progress, and the folder that keeps them."""

    what: str
    total: int
    update: Update | None
    finished: Workspace | None = None
    resume: bool = False

    def model(self, number: int, ranker: Any, train: RankingDataset, held_out: RankingDataset | None = None) -> Any:
        """Return a trained clone, or the model that ``finished`` has already.

        An interruption ends all, as this model is not complete.
        """
        kept = None if self.finished is None else self.finished.part(f"{self.what}-{number}")
        if kept is not None and kept.exists():
            return load(kept)
        model = ranker.__sklearn_clone__() if hasattr(ranker, "__sklearn_clone__") else copy.deepcopy(ranker)
        try:
            with interruption_unannounced(), leakage.checked():
                model = self._fitted(number, model, train, held_out)
        except KeyboardInterrupt:
            message = check.Message(f"interrupted in {self.what} {number} of {self.total}", end="")
            if self.finished is not None:
                text = f"{message}: the {self.what}s before it are kept in {self.finished.path}"
                message = check.Message(text, hint="`set resume=True`")
            raise KeyboardInterrupt(message) from None
        if kept is not None:
            model.save(kept, force=True)
        return model

    def _fitted(self, number: int, model: Any, train: RankingDataset, held_out: RankingDataset | None) -> Any:
        if not isinstance(model, IterativeRanker):
            return model.fit(train) if held_out is None else model.fit(train, held_out)
        progress, update = model.progress, self.update
        if model.checkpoint is not None:
            Path(model.checkpoint).mkdir(parents=True, exist_ok=True)
            model.set_params(checkpoint=Path(model.checkpoint) / f"fold-{number}")
        options: Keywords = {"resume": self.resume and model.checkpoint is not None}
        if update is not None:
            rounds, text = getattr(model, model.unit), f"{self.what} {number} of {self.total}"
            options["callback"] = lambda done, _: update(number - 1 + min(done / rounds, 1.0), text)
            model.set_params(progress=False)
        model.fit(train, held_out, **options)
        if model.stopped_ == "interrupted":
            raise KeyboardInterrupt
        return model.set_params(progress=progress)


def finished_models(
    checkpoint: str | Path | None, ranker: Any, folds: Iterable[Sequence[RankingDataset | None]], *, what: str,
    same: str, resume: bool, **further: Any,
) -> Workspace | None:  # fmt: skip
    """Return the folder of models that are trained already, by this ranker on these folds; None without a folder."""
    if (folder := checkpoint_folder(checkpoint, resume=resume)) is None:
        return None
    parameters = {name: storage.plain(value) for name, value in ranker.get_params().items() if name not in _FREE}
    code = code_of(ranker) if isinstance(ranker, Ranker) else user_code.digests(type(ranker), ranker.get_params())
    identity: Json = {
        "ranker": type(ranker).__name__,
        "parameters": parameters,
        "folds": [[None if part is None else fingerprint(part) for part in parts] for parts in folds],
        **further,
    } | ({"code": code} if code else {})
    return Workspace(folder, identity, what=what, same=same).open(resume=resume)
