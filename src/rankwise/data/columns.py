"""The table of columns: everything that documents and queries may have beside their features.

Checks, takes, splits, concatenation, frames, files, caches, rows on a cluster, digests, rerankers and ``--help`` loop
over :data:`COLUMNS`: a new column is one row here, and the objective or metric that reads it. ``make format`` writes
its typed arguments, its field of :class:`rankwise.RankingDataset` and its documentation.

A column may hold several arrays by name, as ``more_labels`` does. Where single arrays are needed, as in files, they are
called ``more_labels.purchase``: see :func:`flat` and :func:`nested`.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Column, Keywords, read_only

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset

_LETTERS = 60  # of a value in an error
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class DataColumn:
    """One row of the table."""

    name: str
    """Attribute and keyword argument of :class:`rankwise.RankingDataset`."""
    text: str
    """Sentence about its values, without the full stop: in docstrings and on the page about data."""
    per: Literal["document", "query"] = "document"
    """What has one value each."""
    kind: Literal["number", "id", "text"] = "number"
    """Type in tables: numbers, integers and strings, or text."""
    dtype: str = "float64"
    """NumPy's type of its numbers."""
    check: Callable[[ArrayLike, "RankingDataset"], Column]
    """Return the checked values; the rows above are checked already in the data set."""
    several: bool = False
    """Whether it holds several arrays by name; its role is then its name, and readers take a mapping of names."""
    role: str = ""
    """Argument of readers that names the column of a table; empty: tables have no such column."""
    spelling: str = ""
    """Name in tables that rankwise writes; by default the role."""
    option: str = ""
    """Help text of the command line's option; empty: the column is named by ``--read`` alone."""
    in_text_rows: tuple[str, ...] = ()
    """Usual names in rows of texts, for rerankers; the first one is the role there."""
    objectives: str = ""
    """Objectives that take the column as an argument."""
    trains: bool = False
    """Whether training may depend on it, so that digests of training data include it."""
    in_letor: bool = False
    """Whether LETOR text can hold it."""

    def checked(self, values: Any, data: "RankingDataset") -> Column | Mapping[str, Column] | None:
        """Return the checked values; of several arrays by name, in the order of their names."""
        if not self.several:
            return self.check(values, data)
        check_names(self.name, values)
        arrays: dict[str, Column] = {}
        for name in sorted(values):
            with check.naming(f"{self.name}[{name!r}]"):
                arrays[name] = read_only(self.check(values[name], data), contiguous=False)
        return MappingProxyType(arrays) if arrays else None

    @property
    def default(self) -> str:
        """Default of the option in ``--help``: a name for what every table has, else that there is none."""
        required = self.name in ("query_ids", "labels")
        return self.spelling or self.role if required else f"no {self.name.rpartition('_')[2]}"


def texts(what: str, values: ArrayLike, count: int) -> Column:
    r"""Check one text for each query or document, and return an array of objects: texts differ much in length.

    >>> texts("query", ["a hat", "ü"], 2)
    array(['a hat', 'ü'], dtype=object)
    >>> texts("query", ["a hat", "\ud800"], 2)
    Traceback (most recent call last):
    rankwise.errors.InputError: the text of a query must be a str that UTF-8 can hold: got '\ud800' at query number 1.
    Hint: give an empty text to a query that has none.
    """
    array: Column = np.asarray(values, dtype=object)
    if array.ndim != 1 or array.size != count:
        raise check.error(f"there must be one text for each {what}", got=f"{array.size} texts for {count}")
    wrong = next((number for number, text in enumerate(array.tolist()) if not is_text(text)), None)
    if wrong is not None:
        got, where = repr(array[wrong])[:_LETTERS], f"{what} number {wrong}"
        hint = f"give an empty text to a {what} that has none"
        raise check.error(f"the text of a {what} must be a str that UTF-8 can hold", got=got, where=where, hint=hint)
    return array


def is_text(value: object) -> bool:
    r"""Whether a value is text; a half of a surrogate pair, which JSON can write and nothing can encode, is none.

    >>> is_text("ü"), is_text("\ud800"), is_text(None)
    (True, False, False)
    """
    if not isinstance(value, str):
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_names(what: str, values: object) -> None:
    """Raise unless ``values`` is a mapping whose names can stand in expressions.

    >>> check_names("more_labels", {"net sales": [1, 0]})
    Traceback (most recent call last):
    rankwise.errors.InputError: a name in more_labels must be an identifier, of letters, digits and _: got 'net sales'.
    Hint: rename it to 'net_sales'.
    """
    if not isinstance(values, Mapping):
        hint = f'`set {what}={{"purchase": …}}`'
        raise check.error(f"{what} must be arrays by name", got=type(values).__name__, hint=hint)
    for name in values:
        check_name(what, name)


def check_name(what: str, name: object) -> None:
    """Raise unless a name is an identifier."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name) or name in ("True", "False", "None"):
        usable = re.sub(r"\W", "_", str(name), flags=re.ASCII)
        hint = f"rename it to {usable!r}" if _IDENTIFIER.fullmatch(usable) and usable != name else ""
        problem = f"a name in {what} must be an identifier, of letters, digits and _"
        raise check.error(problem, got=repr(name)[:_LETTERS], hint=hint)


COLUMNS: tuple[DataColumn, ...] = (
    DataColumn(
        name="query_ids",
        text="ids of queries, integers or strings, all different. Randomness is keyed by them",
        per="query",
        kind="id",
        check=lambda values, data: check.query_ids(values, data.n_queries),
        role="query",
        spelling="qid",
        option="The column of query ids.",
        in_text_rows=("query_id",),
        trains=True,
        in_letor=True,
    ),
    DataColumn(
        name="labels",
        text="relevance: real numbers of 0 (not relevant) or more",
        check=lambda values, data: check.labels(values, data.offsets, data.query_ids),
        role="label",
        option="The column of relevance labels; NAME=COLUMN is one of further labels, and may be repeated.",
        in_text_rows=("label", "labels"),
        trains=True,
        in_letor=True,
    ),
    DataColumn(
        name="weights",
        text="how much each query counts, in training and in means of metrics",
        per="query",
        check=lambda values, data: check.query_weights(values, data.n_queries, n_docs=data.n_docs),
        role="weight",
        option="The column of query weights, the same in all rows of a query.",
        in_text_rows=("weight",),
        trains=True,
    ),
    DataColumn(
        name="document_ids",
        text="ids of documents, integers or strings",
        kind="id",
        check=lambda values, data: check.identifiers("document ids", values, data.n_docs, "document"),
        role="document",
        option="The column of document ids.",
        in_text_rows=("document_id", "document_ids"),
        in_letor=True,
    ),
    DataColumn(
        name="document_weights",
        text="how much each document counts in training, with objectives that weigh documents",
        check=lambda values, data: check.document_weights(values, data.offsets, data.query_ids),
        role="document_weight",
        in_text_rows=("document_weight", "document_weights"),
        objectives="SoftmaxCE, XENDCG, LambdaRank and Pairwise",
        trains=True,
    ),
    DataColumn(
        name="groups",
        text="integers or strings: the group of each document, among which exposure is to be fair",
        kind="id",
        check=lambda values, data: check.groups(values, data.n_docs),
        role="groups",
        spelling="group",
        option="The column of groups of documents, among which exposure is to be fair.",
        objectives="fair",
        trains=True,
    ),
    DataColumn(
        name="teacher_scores",
        text="scores of another model, which a ranker is to learn with ``distil`` or ``margin_mse``",
        check=lambda values, data: check.teacher_scores(values, data.offsets, data.query_ids),
        role="teacher_score",
        option="The column of another model's scores, which distil and margin_mse learn.",
        in_text_rows=("teacher_score", "teacher_scores"),
        objectives="Distil and MarginMSE",
        trains=True,
    ),
    DataColumn(
        name="document_rewards",
        text=(
            "how good it is to rank the document first, negative numbers included, as estimated from clicks by "
            "``rw.clicks.targets``. They replace the gains of labels in ``plrank``"
        ),
        check=lambda values, data: check.document_rewards(values, data.offsets, data.query_ids),
        role="document_reward",
        in_text_rows=("document_reward", "document_rewards"),
        objectives="PLRank",
        trains=True,
    ),
    DataColumn(
        name="propensities",
        text="probability that the document was examined, for click data",
        check=lambda values, data: check.propensities(values, data.offsets, data.query_ids),
        role="propensity",
        in_text_rows=("propensity", "propensities"),
        trains=True,
    ),
    DataColumn(
        name="positions",
        text="1-based rank at which the document was displayed, for click data",
        dtype="int64",
        check=lambda values, data: check.positions(values, data.offsets, data.query_ids),
        role="position",
        objectives="positioned",
        trains=True,
    ),
    DataColumn(
        name="init_scores",
        text="scores that training starts from, such as production's; ``predict`` then needs them and adds them",
        check=lambda values, data: check.document_values("init scores", values, data.offsets, data.query_ids),
        role="init_score",
        option="The column of scores that training starts from, and that a model then adds to its own.",
        objectives="safe",
        trains=True,
    ),
    DataColumn(
        name="judged",
        text="1: judged; 0: not judged; −1: pooled for judging, yet not judged. By default all are 1",
        dtype="int8",
        check=lambda values, data: check.judged(values, data.labels, data.offsets, data.query_ids),
        role="judged",
        option="The column of what was judged: 1; 0 of documents that nobody judged.",
    ),
    DataColumn(
        name="strata",
        text="integers or strings: the part of its query's pool that the document was sampled from, for ``infndcg``",
        kind="id",
        check=lambda values, data: check.identifiers("strata", values, data.n_docs, "document"),
        role="stratum",
    ),
    DataColumn(
        name="inclusion_probabilities",
        text="probability with which the document was drawn to be judged; 0: it was chosen otherwise",
        check=lambda values, data: check.chances("inclusion probabilities", values, data.offsets, data.query_ids),
        role="inclusion_probability",
        in_letor=True,
    ),
    DataColumn(
        name="relevance_probabilities",
        text="estimated probability that the document is relevant: a weak judge",
        check=lambda values, data: check.chances("relevance probabilities", values, data.offsets, data.query_ids),
        role="relevance_probability",
        in_letor=True,
    ),
    DataColumn(
        name="rows",
        text=(
            "the row of each document in the table or file that was read, where reading brought the rows of a query "
            "together; None: documents are in the order of the table. See :meth:`unsorted`"
        ),
        dtype="int64",
        check=lambda values, data: check.rows(values, data.n_docs),
        in_letor=True,
    ),
    DataColumn(
        name="query_texts",
        text="the text of each query, for rerankers",
        per="query",
        kind="text",
        check=lambda values, data: texts("query", values, data.n_queries),
        role="query_text",
        in_text_rows=("query",),
    ),
    DataColumn(
        name="document_texts",
        text="the text of each document, for rerankers",
        kind="text",
        check=lambda values, data: texts("document", values, data.n_docs),
        role="document_text",
        in_text_rows=("document", "documents", "docs"),
    ),
    DataColumn(
        name="more_labels",
        text="labels of another goal, such as purchases, which ``labels_of`` returns",
        several=True,
        check=lambda values, data: check.labels(values, data.offsets, data.query_ids),
        role="more_labels",
        objectives="on",
        trains=True,
    ),
)


def names() -> tuple[str, ...]:
    """Return the names of all columns."""
    return tuple(column.name for column in COLUMNS)


def roles() -> dict[str, str]:
    """Return the name of each role's column in tables that rankwise writes.

    >>> roles()["query"], roles()["weight"]
    ('qid', 'weight')
    """
    return {column.role: column.spelling or column.role for column in COLUMNS if column.role}


def named_by(arguments: Mapping[str, Any]) -> set[str | None]:
    """Return the columns of a table that arguments of reading name for a role.

    >>> sorted(named_by({"query": "qid", "features": ["f1"], "more_labels": {"purchase": "bought"}}))
    ['bought', 'qid']
    """
    return set(flat({role: arguments[role] for role in roles() if role in arguments}).values())


def taken_by_objectives() -> list[DataColumn]:
    """Return the columns that objectives take as arguments."""
    return [column for column in COLUMNS if column.objectives]


def reading_arguments() -> tuple[str, ...]:
    """Return the arguments of reading a table: the roles, and those about its features and rows."""
    return (*roles(), "features", "categorical", "categories", "sort", "to_score", "dates", "drop_duplicates")


def take(
    data: "RankingDataset",
    rows: slice | NDArray[np.int64],
    queries: slice | NDArray[np.int64],
    *,
    leave_out: Collection[str] = (),
) -> Keywords:
    """Return the columns of these documents and these queries, as arguments of a data set; None for absent ones."""
    of_queries = {column.name for column in COLUMNS if column.per == "query"}
    parts = {name: values[queries if name in of_queries else rows] for name, values in arrays(data).items()}
    every = dict.fromkeys(names()) | nested(parts)
    return {name: values for name, values in every.items() if name not in leave_out}


def arrays(data: "RankingDataset") -> dict[str, Column]:
    """Return the arrays of all columns that the data have, by name.

    >>> from rankwise.data.dataset import RankingDataset
    >>> arrays(RankingDataset([[1.0]], [2], [0, 1], more_labels={"purchase": [1]}))
    {'labels': array([2.]), 'more_labels.purchase': array([1.])}
    """
    values = flat({name: getattr(data, name) for name in names()})
    return {name: array for name, array in values.items() if array is not None}


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by column or role, where each array of a column that holds several has a name of its own.

    >>> flat({"labels": 1, "more_labels": {"purchase": 2}})
    {'labels': 1, 'more_labels.purchase': 2}
    """
    several = {column.name for column in COLUMNS if column.several}
    single: dict[str, Any] = {}
    for name, value in values.items():
        opened = name in several and isinstance(value, Mapping)
        single |= {f"{name}.{key}": part for key, part in value.items()} if opened else {name: value}
    return single


def nested(values: Mapping[str, Any]) -> Keywords:
    """Return values by column or role from those of :func:`flat`.

    >>> nested({"labels": 1, "more_labels.purchase": 2})
    {'labels': 1, 'more_labels': {'purchase': 2}}
    """
    by_column: Keywords = {}
    for name, value in values.items():
        column, dot, key = name.partition(".")
        if dot:
            by_column.setdefault(column, {})[key] = value
        else:
            by_column[name] = value
    return by_column


def column_of(data: "RankingDataset", name: str) -> Any:
    """Return a column, or one of the arrays that it holds by name, ``more_labels.purchase``; None if there is none."""
    column, dot, key = name.partition(".")
    return data.labels_of(key) if dot else getattr(data, column)


def labels_of(name: str, more_labels: Mapping[str, Any] | None) -> Any:
    """Return the labels of this name, or raise an error that lists the names that there are."""
    labels = (more_labels or {}).get(name)
    if labels is None:
        present = ", ".join(map(repr, more_labels or ())) or "none"
        hint = check.suggestion(name, more_labels or ()) if more_labels else ""
        hint = hint or f'name their column: more_labels={{"{name}": …}}, or --label {name}=COLUMN'
        raise check.error(f"the data have no labels called {name!r}", got=f"more_labels: {present}", hint=hint)
    return labels
