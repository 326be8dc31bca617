"""Tables with one row per document, to and from a data set: polars, pandas, and other libraries with Arrow data.

Some columns of a table have a role of :mod:`rankwise.data.columns`; the others are features.
"""

import contextlib
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check
from rankwise.base import hooks
from rankwise.base.arrays import Column, Ids, Keywords, Offsets, group_rows
from rankwise.data import columns
from rankwise.data.arguments import Names
from rankwise.data.io.tables import Table
from rankwise.data.io.tables.features import (
    CategoryLists,
    category_lists,
    column_names,
    feature_columns,
    in_days,
    matrix,
    of_values,
    require_column,
)
from rankwise.data.io.tables.polars import as_polars, checked_ids, ids_to_numpy, without_nulls

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset

Data = TypeVar("Data", bound="RankingDataset")
Fill = Callable[[pl.LazyFrame, Sequence[str], int, CategoryLists, NDArray[np.int64] | None], NDArray[np.float32]]
"""From a table, its features, number of rows, categories and order of rows to the matrix of features."""

_LETTERS = 40  # of a value in an error


# Roles in the docstring are generated from the table of columns by python -m tests.generate.
def from_frame(
    frame: Table,
    cls: type[Data],
    *,
    features: Sequence[str] | str | None = None,
    categorical: Iterable[str] | str = (),
    categories: Mapping[str, Sequence[object]] | None = None,
    sort: bool = False,
    to_score: bool = False,
    dates: str | None = None,
    drop_duplicates: bool = False,
    fill: Fill = matrix,
    **names: Unpack[Names],
) -> Data:
    """Build a data set from a polars or pandas frame or an Arrow table with one row per document.

    Args:
        frame: The table. pandas and pyarrow are needed only to make such a table, not to read it here.
        cls: The class to build; :meth:`RankingDataset.from_frame` fills it in.
        features: The columns of features, in this order; by default all columns without another role. ``"f_*"``
            stands for all of these whose names fit, and ``"!f_7"`` leaves one out.
        categorical: Feature columns that are categorical: text, whose values are the categories, or numbers, which are
            plain codes. Columns of a type of categories (polars ``Enum`` and ``Categorical``, pandas ``category``) are
            always among them.
        categories: Column -> the list of its categories, instead of that of its type: codes are
            indexes into it, and values that it lacks are missing. A column of numbers then holds values, too.
        sort: Sort the rows by query first, which must be together otherwise; documents of a query keep their order.
            ``rows`` of the data set are then those of the table, and ``data.unsorted(scores)`` is in the table's order.
        to_score: The documents are only to be scored: where there is no column ``label``, the data have no labels, and
            the rows of a query are brought together where they do not lie so, queries in the order in which they begin.
        dates: ``"days"``: dates and times among the features, also those that are text, become days since 1970.
        drop_duplicates: Keep the first of rows with the same query, document and labels; with other labels they are an
            error.
        fill: What makes the matrix of features, in memory by default; :func:`rankwise.open_data` has another.
        **names: The names of other columns, by role; None where there is no such column:

            - ``query``, by default ``"qid"``: ids of queries, integers or strings, all different. Randomness is keyed
              by them.
            - ``label``, by default ``"label"``: relevance: real numbers of 0 (not relevant) or more.
            - ``weight``: how much each query counts, in training and in means of metrics. All rows of a query have the
              same.
            - ``document``: ids of documents, integers or strings.
            - ``document_weight``: how much each document counts in training, with objectives that weigh documents.
            - ``groups``: integers or strings: the group of each document, among which exposure is to be fair.
            - ``teacher_score``: scores of another model, which a ranker is to learn with ``distil`` or ``margin_mse``.
            - ``document_reward``: how good it is to rank the document first, negative numbers included, as estimated
              from clicks by ``rw.clicks.targets``. They replace the gains of labels in ``plrank``.
            - ``propensity``: probability that the document was examined, for click data.
            - ``position``: 1-based rank at which the document was displayed, for click data.
            - ``init_score``: scores that training starts from, such as production's; ``predict`` then needs them and
              adds them.
            - ``judged``: 1: judged; 0: not judged; −1: pooled for judging, yet not judged. By default all are 1.
            - ``stratum``: integers or strings: the part of its query's pool that the document was sampled from, for
              ``infndcg``.
            - ``inclusion_probability``: probability with which the document was drawn to be judged; 0: it was chosen
              otherwise.
            - ``relevance_probability``: estimated probability that the document is relevant: a weak judge.
            - ``query_text``: the text of each query, for rerankers. All rows of a query have the same.
            - ``document_text``: the text of each document, for rerankers.
            - ``more_labels``, the column of each name: labels of another goal, such as purchases, which ``labels_of``
              returns.

    True and false become 1 and 0, a null in a feature becomes NaN, which means missing, and a number beyond float32
    becomes the largest one.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"qid": ["a", "a", "b"], "label": [2, 0, 1], "bm25": [7.5, None, 3.0]})
    >>> import rankwise as rw
    >>> data = rw.RankingDataset.from_frame(frame)
    >>> print(data, data.feature_names, data.features[:, 0])
    RankingDataset(2 queries, 3 documents, 1 feature, labels 0 to 2) ('bm25',) [7.5 nan 3. ]
    """
    table, listed = as_polars(frame)
    present = table.collect_schema().names()
    defaults = {role: columns.roles()[role] for role in ("query", "label")}
    arguments: Keywords = {**defaults, **names}
    for role in arguments:
        if role not in columns.roles():
            hint = check.suggestion(role, columns.reading_arguments())
            raise check.unexpected("RankingDataset.from_frame", role, hint)
    if to_score and arguments["label"] == defaults["label"] and defaults["label"] not in present:
        arguments["label"] = None
    if arguments.get("more_labels") is not None:
        columns.check_names("more_labels", arguments["more_labels"])
    roles = {role: name for role, name in columns.flat(arguments).items() if name is not None}
    for role, name in roles.items():
        require_column(f"the {role}", name, present)
    chosen = feature_columns(table, {**arguments, "features": features})
    coded, categories = set(column_names(categorical)), categories or {}
    unknown = next((name for name in (*coded, *categories) if name not in chosen), None)
    if unknown is not None:
        similar = difflib.get_close_matches(unknown, chosen, n=1)
        hint = f"did you mean {similar[0]!r}" if similar else "name columns that are features, and play no other role"
        raise check.error("a categorical column must be one of the features", got=repr(unknown), hint=hint)
    table = in_days(table, [name for name in chosen if name not in coded and name not in categories], dates)
    with_role = table.select(list(dict.fromkeys(roles.values()))).collect()
    ids = _ids(with_role, roles, "query")
    order = np.argsort(ids, kind="stable") if sort else group_rows(ids) if to_score else None
    if drop_duplicates:
        first = _first_of_each(table, with_role, roles, chosen, to_score=to_score)
        order = np.flatnonzero(first) if order is None else order[first[order]]
    if order is None or (order.size == ids.size and (np.diff(order) == 1).all()):
        order = None
    else:
        ids, with_role = ids[order], with_role[order]
    with check.placing(lambda row: check.Row(int(order[row]))) if order is not None else contextlib.nullcontext():
        offsets = check.runs(ids, hint="`pass sort=True`, or sort the rows by query id")
        values: Keywords = {"query_ids": ids[offsets[:-1]]}
        for column in columns.COLUMNS:
            for role in [role for role in roles if role.partition(".")[0] == column.role and role != "query"]:
                read = _READERS[column.kind](with_role, roles, role)
                by_document = column.per == "document"
                name = column.name + role.removeprefix(column.role)
                values[name] = read if by_document else _by_query(read, role, offsets, values)
        if "label" not in roles:
            values["labels"] = np.zeros(ids.size)
            values.setdefault("judged", np.zeros(ids.size, np.int8))
        lists = category_lists(table, chosen, listed, coded, categories)
        data = cls(
            features=fill(table, chosen, ids.size, lists, order),
            offsets=offsets,
            feature_names=tuple(chosen),
            rows=None if drop_duplicates else order,
            categorical=tuple(number for number, name in enumerate(chosen) if name in coded or name in lists),
            categories={number: lists[name] for number, name in enumerate(chosen) if name in lists},
            **columns.nested(values),
        )
    requested = set() if features is None else set(column_names(features))
    hint = "leave out with `features={}` what is not known before documents are ranked, or name all features"
    unnamed = [name for name in chosen if name not in requested]
    hooks.find("warning", "features")(unnamed, hint, data if fill is matrix else None)
    return data


def to_frame(data: "RankingDataset") -> pl.DataFrame:
    """Return one row per document: ``qid``, ``label``, other columns of the data, and the features by name.

    Columns are named after their roles in :func:`from_frame`, except ``group`` for ``groups``, and ``more_labels`` by
    their names, with an underscore at the end if another column has that name; features without names are called
    ``f1``, ``f2`` …. Categorical features whose categories are known hold these: text as polars' ``Enum``.

    >>> import rankwise as rw
    >>> data = rw.RankingDataset([[7.5], [3.0]], [1, 0], [0, 2], query_ids=["a"])
    >>> to_frame(data).to_dicts()
    [{'qid': 'a', 'label': 1.0, 'f1': 7.5}, {'qid': 'a', 'label': 0.0, 'f1': 3.0}]
    """
    hint = "write LETOR text, which leaves zeros out, or "
    check.dense_features(data.features, "a table with a column for every feature", hint)
    names = feature_names(data)
    arrays, by_query = columns.arrays(data), {column.role for column in columns.COLUMNS if column.per == "query"}
    series = []
    for role, (name, key) in titles(data).items():
        values = data.qids() if role == "query" else arrays[key]
        repeated = role in by_query and role != "query"
        series.append(pl.Series(name, np.repeat(values, data.sizes) if repeated else values))
    series += [
        of_values(name, data.features[:, number], data.categories[number])
        if number in data.categories
        else pl.Series(name, data.features[:, number])
        for number, name in enumerate(names)
    ]
    return pl.DataFrame(series)


def _first_of_each(
    table: pl.LazyFrame, with_role: pl.DataFrame, roles: Mapping[str, str], features: Sequence[str], *, to_score: bool
) -> NDArray[np.bool_]:
    """Return which rows are the first of their query and document; all of them must have the same labels."""
    if to_score or "document" not in roles:
        what, got = "duplicates are rows of judged documents by their ids", "rows to score" if to_score else "no ids"
        hint = "leave `drop_duplicates` out" if to_score else "`set document=…`, or leave `drop_duplicates` out"
        raise check.error(what, got=got, hint=hint)
    keys = [roles["query"], roles["document"]]
    labels = [name for role, name in roles.items() if role.partition(".")[0] in ("label", "more_labels")]
    for name in labels:
        other = with_role.select(pl.col(name).ne_missing(pl.col(name).first().over(keys))).to_series()
        if other.any():
            row = int(other.arg_max() or 0)
            got = f"{with_role[name][row]!r} in column {name!r} after another, document {with_role[keys[1]][row]!r}"
            hint = "keep the label that is right"
            raise check.error("a document of a query must have one label", got=got, where=check.Row(row), hint=hint)
    first = with_role.select(pl.struct(keys).is_first_distinct()).to_series()
    content = list(dict.fromkeys((*roles.values(), *features)))
    different = table.select(pl.struct(content).n_unique()).collect().item() - int(first.sum())
    if different:
        what = f"{different:,} dropped rows differ from the kept one of their query and document in other columns"
        hint = "see which are right; the first of each is kept"
        check.warn(what, hint=hint, stacklevel=3)
    return first.to_numpy()


def titles(data: "RankingDataset") -> dict[str, tuple[str, str]]:
    """Return the name of each role's column in :func:`to_frame`, and of its array in the data set."""
    keys = dict.fromkeys(("query_ids", *columns.arrays(data)))
    names, by_role = feature_names(data), {}
    for column in columns.COLUMNS:
        for key in [key for key in keys if key.partition(".")[0] == column.name and column.role]:
            name = key.partition(".")[2] or columns.roles()[column.role]
            while name in names:
                name += "_"
            names.append(name)
            by_role[column.role + key.removeprefix(column.name)] = names[-1], key
    return by_role


def query_ids(table: pl.LazyFrame, query: str) -> Ids:
    """Return the query id of every row."""
    require_column("the query", query, table.collect_schema().names())
    return _ids(table.select(query).collect(), {"query": query}, "query")


def feature_names(data: "RankingDataset") -> list[str]:
    """Return the names of the features: f1, f2, … where they have none."""
    return list(data.feature_names or (f"f{number + 1}" for number in range(data.n_features)))


def _by_query(read: Column, role: str, offsets: Offsets, values: Keywords) -> Column:
    """Return the value of each query, which must be the same in all of its rows."""
    starts = offsets[:-1]
    changes = np.flatnonzero(read != np.repeat(read[starts], np.diff(offsets)))
    if changes.size:
        row = int(changes[0])
        got = f"{read[row]:g}" if read.dtype.kind == "f" else repr(read[row])[:_LETTERS]
        where = check.query_of_row(row, offsets, values["query_ids"])
        hint = "give all rows of a query the same"
        if f"document_{role}" in columns.roles():
            hint = f"name it `document_{role}=` if it belongs to documents; else {hint}"
        raise check.error(f"the {role} changes within a query", got=got, where=where, hint=hint)
    return read[starts]


def _ids(table: pl.DataFrame, roles: Keywords, role: str) -> Ids:
    series = _whole(table, roles, role)
    if role == "groups" and series.dtype == pl.Boolean:
        series = series.cast(pl.Int64)
    return ids_to_numpy(checked_ids(series, role, lambda row: check.Row(row, f" of column {series.name!r}")))


def _numbers(table: pl.DataFrame, roles: Keywords, role: str) -> NDArray[np.float64]:
    series = _whole(table, roles, role)
    if len(series) and not (series.dtype.is_numeric() or series.dtype == pl.Boolean):
        got, hint = f"{series.dtype} in column {series.name!r}", "cast it before"
        if series.dtype == pl.String:
            wrong = series.filter(series.cast(pl.Float64, strict=False).is_null())
            if wrong.len():
                got, hint = f"{got}, such as {wrong[0][:_LETTERS]!r}", "write a number there, or leave the row out"
        raise check.error(f"the {role} column must hold numbers", got=got, hint=hint)
    return series.cast(pl.Float64).to_numpy()


def _texts(table: pl.DataFrame, roles: Keywords, role: str) -> Column:
    series = _whole(table, roles, role)
    if isinstance(series.dtype, pl.Categorical | pl.Enum):
        series = series.cast(pl.String)
    if len(series) and series.dtype != pl.String:
        got = f"{series.dtype} in column {series.name!r}"
        raise check.error(f"the {role} column must hold text", got=got, hint="cast it before")
    return np.array(series.to_list(), np.object_)


def _whole(table: pl.DataFrame, roles: Keywords, role: str) -> pl.Series:
    """Return the column of a role, which must have a value in every row."""
    name = roles[role]
    what = f"the {role} must be known for every document"
    return without_nulls(table[name], what, lambda row: check.Row(row, f" of column {name!r}"))


_READERS: dict[str, Callable[[pl.DataFrame, Keywords, str], Column]] = {
    "number": _numbers,
    "id": _ids,
    "text": _texts,
}
