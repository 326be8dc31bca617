"""Arguments of users, converted to the one form of data, once."""

from collections.abc import Collection, Sequence
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Array, Column, Ids, Keywords, group_rows, part_of
from rankwise.data.columns import column_of
from rankwise.data.concatenation import concatenate
from rankwise.data.dataset import RankingDataset
from rankwise.metrics.base import Metric, require_scored, weighted_mean
from rankwise.models.schema import ModelInput, Schema, frame, is_frame, lists_of
from rankwise.objectives.base import Objective
from rankwise.quality import leakage
from rankwise.quality.features import warn_of_training_data
from rankwise.quality.parts import warn_shared
from rankwise.rankers.sklearn import reject

ValidationInput = ModelInput | tuple[ModelInput, ArrayLike, ArrayLike] | None
"""Validation data: a data set, a table with labels and query ids, or (X, y, qid)."""


Labels = ArrayLike | RankingDataset | None
"""The second argument of ``fit``: labels, or validation data."""


class EvalSetArguments(TypedDict, total=False):
    """Validation data as LightGBM and XGBoost name them: lists of one data set, and of its group sizes or query ids."""

    eval_set: Sequence[tuple[ModelInput, ArrayLike] | RankingDataset] | None
    eval_group: Sequence[ArrayLike] | None
    eval_qid: Sequence[ArrayLike] | None


def dataset(
    data: ModelInput,
    labels: ArrayLike | None = None,
    *,
    qid: ArrayLike | None = None,
    group: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    schema: Schema | None = None,
    training: bool = False,
    to_score: bool = False,
) -> RankingDataset:
    """Return the data set that arguments in scikit-learn's style describe, or the data set that was passed itself.

    A table that holds ``qid`` and ``label`` among its columns is enough alone. ``schema`` says which categories a model
    knows that is to score it. For ``training``, weights that change within a query are weights of documents. With
    ``to_score`` the rows of a query need not lie together.

    >>> dataset([[1.0], [2.0], [3.0]], [0, 1, 2], qid=["a", "a", "b"])
    RankingDataset(2 queries, 3 documents, 1 feature, labels 0 to 2)
    """
    beside = {"y": labels, "qid": qid, "group": group, "sample_weight": sample_weight}
    if isinstance(data, RankingDataset):
        extra = [name for name, value in beside.items() if value is not None]
        if extra:
            raise check.error(f"a RankingDataset says itself what {extra[0]} is", hint=f"leave {extra[0]} out")
        return data.without_rows()  # what is made of them here has their own order
    if labels is None and qid is None and group is None:
        return lists_of(data, schema)
    if labels is None:
        raise check.error("labels are needed beside the features", hint="pass y, or one RankingDataset")
    if (qid is None) == (group is None):
        raise check.error(
            "either qid or group must say which documents belong together",
            got="both" if qid is not None else "neither",
            hint="pass qid=, an id for each document, or group=, the number of documents of each query; PyTerrier "
            "passes group with apply_learned_model(ranker, form='ltr'), and nothing with form='regression'; in "
            "scikit-learn's tools qid travels with sklearn.set_config(enable_metadata_routing=True), or as part of "
            "scoring=lambda ranker, X, y: ranker.score(X, y, qid=qid) in permutation_importance",
        )
    columns: Keywords = {}
    if is_frame(data):
        table = frame(data, schema)
        columns = {name: getattr(table, name) for name in ("feature_names", "categorical", "categories")}
        data = table.features
    matrix = check.features(data)
    count = matrix.shape[0]
    if np.size(labels) != count:
        raise check.error("y must be one label per document", got=f"{np.size(labels)} labels for {count} documents")
    ids = None if qid is None else _column("qid", qid, count)
    order = group_rows(ids) if to_score and ids is not None else None
    ids = part_of(ids, slice(None) if order is None else order)
    offsets = check.runs(ids) if ids is not None else check.sizes(np.asarray(group), count)
    columns |= {} if ids is None else {"query_ids": ids[offsets[:-1]], "rows": order}
    if sample_weight is not None:
        weights = check.document_values("sample weights", sample_weight, offsets, columns.get("query_ids"), least=0.0)
        if training and (weights != np.repeat(weights[offsets[:-1]], np.diff(offsets))).any():
            columns["document_weights"] = weights
        else:
            columns["weights"] = query_weights(weights, offsets, columns.get("query_ids"))
    matrix = matrix if order is None else matrix[order]
    built = RankingDataset(matrix, np.asarray(labels), offsets, **columns)
    if training and built.feature_names is not None:
        hint = "leave out of X what is not known before documents are ranked"
        leakage.warn_features(built.feature_names, hint, built)
    return built


def parts(
    data: ModelInput,
    labels: Labels,
    *,
    valid: ValidationInput,
    qid: ArrayLike | None = None,
    group: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    older: Schema | None = None,
    pool: bool = False,
    exponential: Collection[str | None] = (None,),
) -> tuple[RankingDataset, RankingDataset | None]:
    """Return training and validation data, from ``fit(train, valid)`` or ``fit(X, y, valid=(X, y, qid), qid=qid)``.

    The columns of the validation data come in the order of the training data's, and these in that of the ``older``
    model that is continued, with its categories first. Categories that only validation data have are missing values.
    With ``pool`` they come after those of the training data, and all queries are both training and validation data.
    ``exponential`` names the labels that count by 2^y in training.
    """
    if isinstance(data, RankingDataset) and labels is not None:
        if valid is not None:
            raise check.error("validation data were passed twice", hint="write fit(train, valid)")
        labels, valid = None, labels
    beside: Keywords = {"qid": qid, "group": group, "sample_weight": sample_weight}
    train = dataset(data, cast("ArrayLike | None", labels), training=True, **beside)
    if not train.n_docs or not train.n_features:
        got, hint = f"{train.n_docs:,} documents with {train.n_features} features", "look at what was read"
        raise check.error("a ranker learns from features of documents", got=got, hint=hint)
    if older is not None:
        train = older.align(train, extend=True)
    warn_of_training_data(train, exponential)
    if valid is None:
        return train, train if pool else None
    held_out = aligned(validation(valid) if isinstance(valid, tuple) else valid, train, extend=pool)
    warn_shared(train=train, valid=held_out)
    if pool:
        train = held_out = _pooled(train, held_out)
    return train, held_out


def _pooled(train: RankingDataset, held_out: RankingDataset) -> RankingDataset:
    """Return all queries, those of the training data first."""
    if train.query_ids is not None and held_out.query_ids is not None:
        common = np.intersect1d(train.query_ids, held_out.query_ids)
        if common.size:
            what = "a bag pools training and validation queries, and these have ids in common"
            hint = "leave queries of the training data out of valid, or give its queries ids of their own"
            raise check.error(what, got=f"{common[0]!s} in both", hint=hint)
    with check.naming("training data (number 1) and validation data (number 2)"):
        return concatenate([train, held_out])


def aligned(data: ModelInput, train: RankingDataset, *, extend: bool = False) -> RankingDataset:
    """Return data with the columns of the training data, in their order; ``extend`` keeps categories that are new."""
    data, schema = dataset(data), Schema.of(train)
    if Schema.of(data) == schema:
        return data
    aligned = schema.align(data, extend=extend).with_(feature_names=train.feature_names)
    return aligned if train.init_scores is not None else aligned.with_(init_scores=None)


def reject_start(data: RankingDataset, ranker: object) -> None:
    """Raise if a ranker that cannot start from ``init_scores`` is to be trained on data that have some."""
    if data.init_scores is not None:
        hint = "train trees, a net or a bag of either, or `leave init_scores out`"
        raise check.error(f"a {type(ranker).__name__} cannot start from init_scores", hint=hint)


def validation(valid: Any) -> RankingDataset:
    """Return the validation data from a data set, or a tuple (X, y, qid)."""
    if not isinstance(valid, tuple):
        return dataset(valid)
    if len(valid) != 3:
        raise check.error("valid must be a RankingDataset or (X, y, qid)", got=f"a tuple of {len(valid)}")
    return dataset(valid[0], valid[1], qid=valid[2])


def with_eval_set(valid: ValidationInput, ranker: object, others: EvalSetArguments) -> ValidationInput:
    """Return the validation data of ``fit``: ``valid``, or the one data set of LightGBM's and XGBoost's arguments.

    Other arguments are an error.

    >>> with_eval_set(None, None, {"eval_set": [([[1.0], [2.0], [3.0]], [0, 1, 2])], "eval_group": [[2, 1]]})
    RankingDataset(2 queries, 3 documents, 1 feature, labels 0 to 2)
    """
    reject(
        ranker, "fit", {name: value for name, value in others.items() if name not in EvalSetArguments.__annotations__}
    )
    lists = {name: value for name, value in others.items() if value is not None}
    if not lists:
        return valid
    if valid is not None:
        raise check.error("validation data were passed twice", got="valid and eval_set", hint="leave one of them out")
    for name, value in {"eval_set": None, **lists}.items():
        if not isinstance(value, list | tuple) or len(value) != 1:
            got = "nothing" if value is None else type(value).__name__
            got = f"{len(value)} entries" if isinstance(value, list | tuple) else got
            hint = "pass eval_set=[(X, y)], on which training stops, and further data sets in eval_sets={…: data}"
            raise check.error(f"{name} must be a list with one entry", got=got, hint=hint)
    entry, *_ = cast("Sequence[Any]", lists.pop("eval_set"))
    pair = entry if isinstance(entry, tuple | list) else (entry, None)
    if len(pair) != 2:
        raise check.error("an entry of eval_set must be (X, y)", got=f"{len(pair)} parts")
    queries = {name.removeprefix("eval_"): cast("Sequence[Any]", value)[0] for name, value in lists.items()}
    return dataset(*pair, **queries)


def query_weights(rows: ArrayLike, offsets: NDArray[np.int64], query_ids: Ids | None = None) -> Array:
    """Convert weights by document, the same within a query, to weights by query."""
    column = check.document_values("sample weights", rows, offsets, query_ids, least=0.0)
    weights = column[offsets[:-1]]
    changes = column != np.repeat(weights, np.diff(offsets))
    if changes.any():
        row = int(np.argmax(changes))
        raise check.error(
            "the weight changes within a query",
            got=f"{column[row]:g}",
            where=check.query_of_row(row, offsets, query_ids),
            hint="give all documents of a query the same; weights of documents are RankingDataset(document_weights=…), "
            "for training",
        )
    return weights


def mean(metric: Metric, values: Array, weights: Array | None) -> float:
    """Return the mean of a metric over the queries that it scores, by their weights."""
    require_scored(metric, values, weights)
    return weighted_mean(values, weights)


def _column(what: str, values: ArrayLike, count: int) -> Column:
    check.different_as_text(what, values)
    array = np.asarray(values)
    if array.shape != (count,):
        raise check.error(f"{what} must be one id per document", got=f"shape {array.shape} for {count} documents")
    return check.identifiers(what, array, count, "document")


def document_columns(data: RankingDataset, objective: Objective, *, debias: bool) -> dict[str, Column]:
    """Return the columns that the objective reads, and weights, which ``debias`` divides by propensities."""
    if data.document_rewards is not None:
        reject_rewards(data, objective, accepts=objective.accepts)
    names = (*objective.reads, *objective.accepts)
    columns: dict[str, Column] = {name: column for name in names if (column := column_of(data, name)) is not None}
    weights = data.document_weights
    if debias:
        if data.propensities is None:
            raise no_propensities("data without propensities")
        weights = (1.0 if weights is None else weights) / data.propensities
    return columns if weights is None else {"document_weights": weights, **columns}


def reject_rewards(data: RankingDataset, objective: object, accepts: tuple[str, ...] = ()) -> None:
    """Raise where documents have rewards and the objective learns from labels."""
    if data.document_rewards is not None and "document_rewards" not in accepts:
        raise check.error(
            f"{objective} does not learn from document_rewards, which may be negative",
            hint="train plrank, which does; make labels instead, with rw.clicks.targets(…, labels='regression') or "
            "labels='offset'; or leave them out, with data.with_(document_rewards=None)",
        )


def no_propensities(got: object) -> ValueError:
    """Return the error of ``debias`` without propensities."""
    hint = "use click data that has them, as 'rankwise data clicks --click-model position' makes"
    hint += "` (rw.clicks.simulate_clicks)|`"
    return check.error("debias needs propensities and an objective that weighs documents", got=got, hint=hint)
