"""Evaluation of recommenders on held-out items, ranked among the full catalogue or among drawn items."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rankwise import Evaluation, RankingDataset, check, evaluate, moved
from rankwise.base.arrays import Ids, Keywords, index_of, offsets_of, row_blocks
from rankwise.base.tables import count
from rankwise.evaluation import Predictor
from rankwise.metrics import MetricLike
from rankwise.metrics import metrics as find_metrics
from rankwise.statistics import digests
from rankwise.wings.recommend.data.holdout import ratings_of
from rankwise.wings.recommend.data.interactions import Interactions

_BLOCK = 1 << 22  # how many scores of users by items lie in memory at once


@moved.renamed("rw.recommend.evaluate_interactions")
def evaluate_interactions(
    model: Predictor,
    test: Interactions,
    metrics: "MetricLike | Iterable[MetricLike]" = ("ndcg@10",),
    *,
    exclude: Interactions | None = None,
    negatives: int | None = None,
    graded: bool = False,
    seed: int = 0,
    level: float = 0.95,
    resamples: int = 2000,
) -> Evaluation:
    """Evaluate a model on the held-out items of every user.

    By default each user's relevant items of ``test`` compete with the full catalogue, less what the user has rated in
    ``exclude`` (the training data). With ``negatives`` they compete with so many drawn items for each relevant one, as
    in ``evaluate(model, test.dataset(negatives))``: an easier task, whose figures cannot be compared with the others.
    The table says which it was. ``graded`` takes ratings for labels instead of 1.

    ``model`` is anything that predicts lists with ids; one that has ``matrix(users, items)`` is asked for the scores of
    many users at once.

    >>> import polars as pl, rankwise as rw
    >>> rows = {"user": [1, 1, 1, 2, 2, 2], "item": [10, 20, 30, 20, 30, 40], "rating": [5] * 6, "time": range(6)}
    >>> ratings = rw.recommend.Interactions.from_frame(pl.DataFrame(rows), time="time")
    >>> train, test = ratings.split((0.6, 0.4), by="time", seed=2)
    >>> class Newest:
    ...     def predict(self, data):
    ...         return data.document_ids
    >>> rw.recommend.evaluate_interactions(Newest(), test, ["rr"], exclude=train)
    metric    mean  95% interval  scored  skipped
    rr      0.7500  –                  2        0
    <BLANKLINE>
    Candidates: the full catalogue of 4 items, without those that the user rated in
    training.
    <BLANKLINE>
    Fewer than 3 queries: no interval.
    """
    settings: Keywords = {"seed": seed, "level": level, "resamples": resamples}
    measured = find_metrics(metrics)
    if negatives is not None:
        data = test.dataset(check.integer("negatives", negatives, least=0), seed=seed, graded=graded)
        drawn = f"relevant items and {count(negatives, 'drawn item')} for each of them"
        sampled: Evaluation = evaluate(model, data, measured, **settings)
        return replace(sampled, candidates=drawn)
    columns: list[list[NDArray[np.float64]]] = [[] for _ in measured]
    users, labelled = [], []
    for block, scores, labels in _scored_users(model, test, exclude, graded):
        offsets = np.arange(block.size + 1) * test.n_items
        for one, column in zip(measured, columns, strict=True):
            column.append(one(scores, labels, offsets))
        users.append(block)
        labelled.append(digests({"labels": np.ravel(labels)}, offsets, None)["labels"])
    if not users:
        raise check.error("no user has a relevant item to be found", got=repr(test), hint="look at the split")
    values = {str(one): np.concatenate(column) for one, column in zip(measured, columns, strict=True)}
    left_out = ", those known from training among them"
    if exclude is not None:
        left_out = ", without those that the user rated in training"
    candidates = f"the full catalogue of {count(test.n_items, 'item')}{left_out}"
    facts: Keywords = {"candidates": candidates, "judgements": {"labels": np.concatenate(labelled)}}
    return Evaluation(values, test.users[np.concatenate(users)], **settings, **facts)


def _scored_users(
    model: Predictor, test: Interactions, exclude: Interactions | None, graded: bool
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]]:
    """Yield users, and flat the scores and labels of all items for them, a few users at a time.

    Excluded items have the score −inf, which no metric ranks.
    """
    offsets, items, ratings = test.relevant_items()
    users = np.flatnonzero(np.diff(offsets))
    seen = None if exclude is None else _seen(exclude, test)
    for some in row_blocks(users.size, test.n_items, _BLOCK):
        block = users[some]
        scores = _scores(model, test, test.users[block])
        labels = np.zeros(scores.shape)
        rows, owners = ratings_of(block, offsets)
        labels[owners, items[rows]] = ratings[rows] if graded else 1.0
        if seen is not None:
            seen_rows, seen_owners = ratings_of(block, seen[0])
            hidden = seen_owners, seen[1][seen_rows]
            if labels[hidden].any():
                at = int(np.argmax(labels[hidden] > 0))
                user, item = test.users[block[hidden[0][at]]].item(), test.catalogue[hidden[1][at]].item()
                raise check.error(
                    "an item cannot be both left out and to be found",
                    got=f"item {item!r} of user {user!r} in test and in exclude",
                    hint="pass the training part of the same split as exclude",
                )
            scores[hidden] = -np.inf
        yield block, scores.ravel(), labels.ravel()


def _scores(model: Predictor, test: Interactions, users: Ids) -> NDArray[np.float64]:
    if (matrix := getattr(model, "matrix", None)) is not None:
        scores = matrix(users, test.catalogue)
    else:
        n_docs = users.size * test.n_items
        lists = RankingDataset(
            np.empty((n_docs, 0), np.float32),
            np.zeros(n_docs),
            np.arange(users.size + 1) * test.n_items,
            query_ids=users,
            document_ids=np.tile(test.catalogue, users.size),
        )
        scores = model.predict(lists)
    return np.array(scores, np.float64).reshape(users.size, test.n_items)


def _seen(exclude: Interactions, test: Interactions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the items to leave out for each user of ``test``: offsets, and numbers in its catalogue."""
    offsets, items = exclude.seen()
    numbers = index_of(test.users, exclude.users)
    shared = np.flatnonzero(numbers >= 0)
    rows, owners = ratings_of(numbers[shared], offsets)
    seen = index_of(exclude.catalogue, test.catalogue)[items[rows]]
    counts = np.bincount(shared[owners[seen >= 0]], minlength=test.n_users)
    return offsets_of(counts), seen[seen >= 0]
