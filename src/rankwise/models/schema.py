"""The columns that a model was trained on, and how other data are brought into their form.

Columns are found by their names and categories by their values, whatever order a table has them in; a value that
training did not see is missing. Where only codes are known, on one side or on both, they are never guessed at.
"""

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.base.arrays import Array, Floats, Json, Keywords
from rankwise.data.categories import Values, join
from rankwise.data.categories import lists as category_lists
from rankwise.data.columns import reading_arguments
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.disk import mapped as disk
from rankwise.data.io.tables import Table

ModelInput = RankingDataset | ArrayLike | Table
"""What can be scored: a data set, a matrix or a table of features."""


@dataclass(frozen=True)
class Schema:
    """How many features there are, their names, and which are categorical."""

    count: int
    names: tuple[str, ...] | None = None
    categorical: tuple[int, ...] = ()
    categories: Mapping[int, Values] = field(default_factory=dict)
    """Categorical column -> its values, where training knew them."""
    init_scores: bool = False
    """Whether training started from ``init_scores``: the model adds those of the documents that it scores."""

    @classmethod
    def of(cls, data: RankingDataset) -> "Schema":
        """Return the columns of a data set."""
        starts = data.init_scores is not None
        return cls(data.n_features, data.feature_names, data.categorical, data.categories, starts)

    @classmethod
    def read(cls, description: Json) -> "Schema":
        """Read what :meth:`written` returned."""
        count = check.integer("the number of features of a model", description["count"], least=0)
        categorical = check.columns("categorical", description.get("categorical", ()), count)
        listed = {int(column): values for column, values in description.get("categories", {}).items()}
        names, categories = check.feature_names(description["names"], count), category_lists(listed, categorical)
        return cls(count, names, categorical, categories, bool(description.get("init_scores", False)))

    def to_dict(self) -> Json:
        """Return plain data for a model's file."""
        return {
            "count": self.count,
            "names": None if self.names is None else list(self.names),
            "categorical": list(self.categorical),
            "categories": {str(column): list(values) for column, values in self.categories.items()},
            **({"init_scores": True} if self.init_scores else {}),
        }

    def name(self, column: int) -> str:
        """Return the name of a column in sentences."""
        return f"column {column if self.names is None else repr(self.names[column])}"

    def column(self, what: str, feature: str | int, hint: str) -> int:
        """Return the number of a column by its name or number; errors call it ``what``."""
        if not isinstance(feature, str):
            return check.columns(what, [feature], self.count)[0]
        if self.names is None:
            raise check.error("the features of these data have no names", got=repr(feature), hint=hint)
        return self.names.index(check.choice(what, feature, self.names))

    def title(self, column: int) -> str:
        """Return the title of a column in tables: its name, or its number from 1 as LETOR files count."""
        return f"feature {column + 1}" if self.names is None else self.names[column]

    def text(self, column: int, number: float) -> str | None:
        """Write a value of a column: the category that a code stands for, or the number; None where it is missing.

        >>> schema = Schema(2, ("colour", "size"), categorical=(0,), categories={0: ("red", "blue")})
        >>> schema.text(0, 1.0), schema.text(1, np.float32(0.1)), schema.text(1, np.nan)
        ('blue', '0.1', None)
        """
        if np.isnan(number):
            return None
        listed = self.categories.get(column)
        return f"{number:.7g}" if listed is None else str(listed[int(number)])

    def lists(self, names: Sequence[str]) -> dict[str, Values]:
        """The categories of those columns that a table has; by number if training knew no names."""
        features = self.names or (tuple(names) if len(names) == self.count else ())
        return {
            features[column]: listed
            for column, listed in self.categories.items()
            if features and features[column] in names
        }

    def columns_to_score(self) -> Keywords:
        """Arguments of ``from_frame`` for a table that is to be scored: these features, and no labels are needed.

        Of a model that knows its features by their numbers alone, the table has the features and nothing else.
        """
        arguments: Keywords = {"to_score": True} | ({"init_score": "init_score"} if self.init_scores else {})
        if self.names is None:
            return arguments
        coded = [self.names[column] for column in self.categorical]
        return arguments | {"features": self.names, "categorical": coded, "categories": self.lists(self.names)}

    def matrix(self, data: ModelInput) -> Floats:
        """Return the features of a data set, a table or a matrix, whose codes are places in the categories here."""
        if isinstance(data, RankingDataset):
            return self.align(data).features
        if is_frame(data):
            return self.align(frame(data, self)).features
        matrix = check.features(data)
        self._check_count(matrix.shape[1])
        self.started(None)
        return matrix

    def started(self, data: RankingDataset | None) -> Array | float:
        """Return what the model adds to its scores: ``init_scores`` where training started from some, else 0."""
        if not self.init_scores:
            return 0.0
        if data is None or data.init_scores is None:
            raise check.error(
                "the model was trained from init_scores, and adds those of the documents that it scores",
                got="documents without init_scores",
                hint="pass a RankingDataset with `init_scores=…`, of the same system as in training",
            )
        return data.init_scores

    def reject_start(self, what: str) -> None:
        """Raise if the model adds ``init_scores``: its own scores are then only a part."""
        if self.init_scores:
            hint = "add model.predict(data), or continue production's model: fit(…, init_model=…)"
            raise check.error(f"{what} know features alone", got="a model that adds init_scores", hint=hint)

    def align(self, data: RankingDataset, *, extend: bool = False) -> RankingDataset:
        """Return data with these columns, in this order, and codes of these categories; ``extend`` adds new ones.

        Columns are found by name: what the data have beside them is left out.
        """
        if extend:  # training data, of which nothing is to be left out unsaid
            self._check_count(data.n_features)
        data = self._in_order(data)
        self._check_count(data.n_features)
        self.started(data)
        categories = dict(self.categories)
        for column in sorted({*self.categories, *data.categories}):
            mine, theirs = self.categories.get(column), data.categories.get(column)
            if not theirs and _is_empty(data, column):
                continue
            if mine is None:
                raise self._unknown_values(column, data.categories[column])
            if theirs is None and data.feature_names is not None:
                raise check.error(
                    "training went by the values of categories, and these data have plain numbers",
                    where=self.name(column),
                    hint="build them from a table that holds the categories, or with `categories={…}`: see model."
                    "categories_",
                )
            if theirs is not None and extend:
                categories[column] = join((mine, theirs), self.name(column))
        data = disk.recode(
            data, {column: listed for column, listed in categories.items() if data.categories.get(column)}
        )
        if (data.categorical, data.categories) == (self.categorical, categories):
            return data
        return replace(data, categorical=self.categorical, categories=categories)

    def check_codes(self, features: Floats, least: float) -> None:
        """Check that categorical columns of a matrix hold codes."""
        first, counts = 0, {column: len(listed) for column, listed in self.categories.items()}
        for block in disk.blocks(features) if self.categorical else ():
            check.categories(block, self.categorical, least=least, counts=counts, first_row=first)
            first += len(block)

    def _check_count(self, count: int) -> None:
        if count != self.count:
            hint = "pass the same columns as in training"
            raise check.error(f"the model was trained on {self.count} features", got=count, hint=hint)

    def _in_order(self, data: RankingDataset) -> RankingDataset:
        """Return data with the columns in this order, by their names where both have them."""
        names, theirs = self.names, data.feature_names
        if theirs is None or names is None or theirs == names:
            return data
        order = self.column_indices(theirs)
        return replace(
            data,
            features=data.features[:, order] if data.is_sparse else np.ascontiguousarray(data.features[:, order]),
            feature_names=names,
            categorical=tuple(sorted(order.index(column) for column in data.categorical if column in order)),
            categories={order.index(column): listed for column, listed in data.categories.items() if column in order},
        )

    def column_indices(self, theirs: Sequence[str]) -> list[int]:
        """Return the places of the features among other columns, by name; a missing one is an error."""
        names, places = self.names or (), _places(theirs)
        missing = [name for name in names if name not in places]
        if missing:
            unknown = [name for name in theirs if name not in names]
            near = difflib.get_close_matches(missing[0], unknown, n=1)
            hint = f"rename {near[0]!r}, if that is it" if near else "pass the columns of training"
            got = f"no {missing[0]!r} among {len(theirs)} columns"
            raise check.error("the model was trained on a feature that these data do not have", got=got, hint=hint)
        return [places[name] for name in names]

    def _unknown_values(self, column: int, values: Values) -> ValueError:
        got = f"{', '.join(map(repr, values[:2]))}{' …' if len(values) > 2 else ''}"
        what, hint = "training knew only numbers, and these data have categories", "pass the numbers"
        if column in self.categorical:
            what = "training knew only codes of categories, and these data have values"
            hint = "pass the codes, or train on data that list their categories"
        return check.error(what, got=got, where=self.name(column), hint=hint)


def _is_empty(data: RankingDataset, column: int) -> bool:
    """Whether all values of a column are missing; then it may be of any kind."""
    return not data.is_sparse and bool(np.isnan(data.features[:, column]).all())


def _places(names: Sequence[str]) -> dict[str, int]:
    """Return the places of columns by name, also by LightGBM's names, with an underline for each space.

    >>> _places(["unit price", "a b", "a_b"])
    {'unit_price': 0, 'unit price': 0, 'a b': 1, 'a_b': 2}
    """
    underlined = [name.replace(" ", "_") for name in names]
    counts = Counter(underlined)
    unmistakable = {name: place for place, name in enumerate(underlined) if counts[name] == 1}
    return unmistakable | {name: place for place, name in enumerate(names)}


def is_frame(data: object) -> TypeGuard[Table]:
    """Whether ``data`` is a table with named columns."""
    return any(hasattr(data, name) for name in ("collect_schema", "__arrow_c_stream__", "columns"))


def has_queries(table: Table) -> bool:
    """Whether a table has the column by which ``from_frame`` tells queries apart."""
    return "qid" in _names(table)


def _names(table: Table) -> list[str]:
    from rankwise.data.io.tables.polars import as_polars

    return as_polars(table)[0].collect_schema().names()


def queries_of(table: Table) -> RankingDataset:
    """Return the lists of a table with query ids, without its features."""
    with in_from_frame():
        return RankingDataset.from_frame(table, features=(), to_score=True)


def frame(table: Table, schema: Schema | None = None) -> RankingDataset:
    """Read every column of a table as a feature, or those that ``schema`` names; ids and labels are all 0."""
    import polars as pl

    from rankwise.data.io.tables.polars import as_polars

    columns, listed = as_polars(table)
    names = columns.collect_schema().names()
    if not names:
        raise check.error("a table of features must have columns", got="none", hint="pass the features")
    lists: dict[str, Values] = {}
    if schema is not None and schema.names is not None:
        names = [names[place] for place in schema.column_indices(names)]
        lists = {names[column]: values for column, values in schema.categories.items()}
    elif schema is not None:
        lists = schema.lists(names)
    lists = {name: listed[name] for name in names if name in listed} | lists
    query, label = "_" * (max(map(len, names), default=0) + 1), "_" * (max(map(len, names), default=0) + 2)
    complete = columns.with_columns(pl.lit(0).alias(query), pl.lit(0).alias(label))
    with in_from_frame():
        return RankingDataset.from_frame(complete, query=query, label=label, features=names, categories=lists)


def lists_of(data: ModelInput, schema: Schema | None = None) -> RankingDataset:
    """Return a data set itself, or that of a table with columns ``qid`` and ``label``.

    ``schema`` says which categories a model knows that is to score it.
    """
    if isinstance(data, RankingDataset):
        return data.without_rows()  # what is made of them here has their own order
    if not is_frame(data):
        raise check.error("labels are needed beside the features", hint="pass y, or one RankingDataset")
    with in_from_frame():
        return RankingDataset.from_frame(data, categories=None if schema is None else schema.lists(_names(data)))


def in_from_frame() -> AbstractContextManager[None]:
    """Errors about a table that was passed to a ranker, whose hints say how it is read otherwise."""

    def write(name: str, value: str | None) -> str | None:
        argument = f"RankingDataset.from_frame(…, {name}={value or '…'})"
        return argument if name in reading_arguments() and value is not None else None

    return check.hints(write, "use")
