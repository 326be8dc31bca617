"""Cross-validation: every query is ranked by a model that has not seen it, and all of them are judged together."""

import contextlib
import copy
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise import check, user_code
from rankwise.arrays import Array, Ids, Json, Keywords, comparable, rows_of
from rankwise.data import leakage
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import Metric, MetricLike
from rankwise.metrics import metrics as find_metrics
from rankwise.model_selection.cross_validation import CrossValidation
from rankwise.model_selection.fold_parts import Fold, fold_list
from rankwise.rankers import expressions, storage
from rankwise.rankers.base import Ranker
from rankwise.rankers.table import load
from rankwise.rankers.training.checkpoints import fingerprint
from rankwise.rankers.training.finished import folder_of
from rankwise.rankers.training.ranker import Trained

_IDENTITY = "cross_validation.json"
_FREE = ("progress", "checkpoint", "threads", "device")  # which make no other model


def cross_validate(
    ranker: object,
    data: RankingDataset | None = None,
    folds: object = 5,
    *,
    metrics: MetricLike | Iterable[MetricLike] = ("ndcg@10",),
    seed: int = 0,
    valid: float = 0.2,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: bool | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
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

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=60, n_docs=10, seed=1)
    >>> found = {
    ...     name: rw.cross_validate(rw.LightGBMRanker(name, rounds=10, leaves=4, threads=1), data, folds=3)
    ...     for name in ("lambdarank", "xendcg")
    ... }
    >>> found["xendcg"].query_ids.size, len(found["xendcg"].models), found["xendcg"].scores.size == data.n_docs
    (60, 3, True)
    >>> rw.compare(found).paired.unit
    'query'
    """
    if isinstance(ranker, str):
        ranker = expressions.ranker(ranker)
    if not hasattr(ranker, "fit") or not hasattr(ranker, "predict"):
        hint = "pass a ranker that is not trained yet, such as rw.LightGBMRanker()"
        raise check.error("cross_validate needs something with fit and predict", got=type(ranker).__name__, hint=hint)
    seed = check.integer("seed", seed, least=0)
    share = check.number("valid, a share of the training queries,", valid, least=0.0, most=0.9)
    asked = find_metrics(metrics)
    share = share if getattr(ranker, "patience", None) is not None else 0.0
    plan = fold_list(data, folds, valid=share, seed=seed)
    if resume and checkpoint is None:
        raise check.error("resume needs a checkpoint", hint="set checkpoint= to the folder where it is")
    kept = None if checkpoint is None else _kept(Path(checkpoint), ranker, plan, resume=resume)
    found = []
    with _showing(progress, len(plan)) as show:
        for number, fold in enumerate(plan, 1):
            train, held_out, test = fold.parts()
            model = _finished(kept, number)
            if model is None:
                try:
                    model = _trained(ranker, train, held_out, number, show, resume=resume)
                except KeyboardInterrupt:
                    raise KeyboardInterrupt(_interrupted(number, len(plan), kept)) from None
                if kept is not None:
                    model.save(_place(kept, number), force=True)
            found.append(_tested(model, test, fold.queries, asked))
    return _pooled(data, found, seed=seed, confidence=confidence, resamples=resamples)


@dataclass(frozen=True)
class _Tested:
    """What the test part of a fold gave."""

    model: Any
    scores: Array
    values: dict[str, Array]
    ids: Ids
    weights: Array | None
    queries: NDArray[np.int64] | None


def _tested(model: Any, test: RankingDataset, queries: NDArray[np.int64] | None, asked: Sequence[Metric]) -> _Tested:
    scores = check.scores(model.predict(test.without_rows()), test.offsets, test.query_ids)
    values = {str(one): one(scores, test.labels, test.offsets, test.judged) for one in asked}
    ids: Any = test.query_ids  # parts of data have them
    return _Tested(model, scores, values, ids, test.weights, queries)


def _pooled(data: RankingDataset | None, found: list[_Tested], **about: Any) -> CrossValidation:
    """Put the folds together: in the order of the data, or one after the other."""
    weighted = any(one.weights is not None for one in found)
    weights = np.concatenate([np.ones(one.ids.size) if one.weights is None else one.weights for one in found])
    fold = np.repeat(np.arange(1, len(found) + 1), [one.ids.size for one in found])
    order, scores = np.arange(fold.size), np.concatenate([one.scores for one in found])
    if data is not None:
        numbers = np.concatenate([one.queries for one in found if one.queries is not None])
        order = np.argsort(numbers)
        rows, flat = rows_of(numbers, data.offsets)[0], scores
        scores = np.full(data.n_docs, np.nan)
        scores[rows] = flat
    return CrossValidation(
        {name: np.concatenate([one.values[name] for one in found])[order] for name in found[0].values},
        np.concatenate(comparable(*(one.ids for one in found)))[order],
        weights[order] if weighted else None,
        fold=fold[order],
        scores=scores,
        models=tuple(one.model for one in found),
        **about,
    )


def _trained(
    ranker: Any,
    train: RankingDataset,
    held_out: RankingDataset | None,
    number: int,
    show: "Callable[[int, float], None] | None",
    *,
    resume: bool,
) -> Any:
    """Train a clone; an interruption ends the cross-validation, as the model of the fold is not complete."""
    model = ranker.__sklearn_clone__() if hasattr(ranker, "__sklearn_clone__") else copy.deepcopy(ranker)
    if not isinstance(model, Trained):
        with leakage.checked():
            return model.fit(train) if held_out is None else model.fit(train, held_out)
    wanted = model.progress
    if model.checkpoint is not None:
        Path(model.checkpoint).mkdir(parents=True, exist_ok=True)
        model.set_params(checkpoint=_place(Path(model.checkpoint), number))
    about: Keywords = {"resume": resume and model.checkpoint is not None}
    if show is not None:
        rounds = getattr(model, model.unit)
        about["watch"] = lambda done, _: show(number, done / rounds)
        model.set_params(progress=False)
    with warnings.catch_warnings(), leakage.checked():
        warnings.filterwarnings("ignore", message="interrupted after", category=RuntimeWarning)
        model.fit(train, held_out, **about)
    if model.stopped_ == "interrupted":
        raise KeyboardInterrupt
    return model.set_params(progress=wanted)


def _kept(folder: Path, ranker: Any, plan: list[Fold], *, resume: bool) -> Path:
    """Give the folder of finished folds, which must be of this cross-validation."""
    parameters = {name: storage.plain(value) for name, value in ranker.get_params().items() if name not in _FREE}
    code = ranker._code() if isinstance(ranker, Ranker) else user_code.digests(type(ranker), ranker.get_params())
    identity: Json = {
        "ranker": type(ranker).__name__,
        "parameters": parameters,
        "folds": [[None if part is None else fingerprint(part) for part in fold.parts()] for fold in plan],
    } | ({"code": code} if code else {})
    return folder_of(folder, _IDENTITY, identity, what="cross-validation", same="ranker, data and folds", resume=resume)


def _interrupted(number: int, total: int, kept: Path | None) -> str:
    """Say what is left of a cross-validation that was interrupted."""
    what = f"interrupted in fold {number} of {total}"
    return what if kept is None else f"{what}: the folds before it are kept in {kept}. Hint: set resume=True"


def _finished(folder: Path | None, number: int) -> Any:
    return load(_place(folder, number)) if folder is not None and _place(folder, number).exists() else None


def _place(folder: Path, number: int) -> Path:
    return folder / f"fold-{number}"


@contextlib.contextmanager
def _showing(wanted: bool | None, total: int) -> "Iterator[Callable[[int, float], None] | None]":
    """Give the function to call after every round, with the fold and how much of it is done; None shows nothing."""
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(f"fold 1 of {total}", total=float(total))

        def show(number: int, share: float) -> None:
            bar.update(task, completed=number - 1 + min(share, 1.0), description=f"fold {number} of {total}")

        yield show
