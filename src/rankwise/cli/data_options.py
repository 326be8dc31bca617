"""How a command reads ranking data: options that every command has whose parameter is ``reading: Reading``."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import Option, Parameter
from rankwise.cli import inputs, options
from rankwise.data.columns import COLUMNS, is_text, roles

if TYPE_CHECKING:
    from rankwise.base.steps import Steps
    from rankwise.data.dataset import RankingDataset

_TEXTS = ("separator", "decimal", "thousands", *roles())
"""Arguments of reading that are words: names of columns, and marks."""
_LISTS = ("features", "categorical")


def _text(name: str, metavar: str, text: str, unset: str = "", option: str = "", kind: Any = str) -> Parameter:
    declared = Option(option, metavar=metavar, group=options.READING)
    return Parameter(name, kind, None, optional=True, text=text, unset=unset, option=declared)


def _flag(name: str, text: str) -> Parameter:
    return replace(_text(name, "", text, kind=bool), default=False, optional=False)


_COLUMNS = [
    _text(one.role, "COLUMN", one.option, one.default, kind=list[str] if one.role == "label" else str)
    for one in sorted(COLUMNS, key=lambda column: column.role not in ("query", "label"))
    if one.option
]
_LIST = Sequence[str]
_OPTIONS = [
    _text("part", "train|valid|test", "Which part of a catalog set or a .toml file.", "test; train for data"),
    _text("fold", "N", "Which fold of a catalog set or a .toml file.", "1", kind=int),
    *_COLUMNS[:2],
    _text(
        "features", "LIST", "The columns of features, between commas; 'f_*' stands for all that fit, and '!price' "
        "leaves one out.", "all that are nothing else", kind=_LIST,
    ),
    *_COLUMNS[2:],
    _text("categorical", "LIST", "Features that hold categories, as text or as codes, between commas.", kind=_LIST),
    _text("decimal", "MARK", "The mark before decimals in CSV, '.' or ','.", "as the columns show"),
    _text(
        "thousands", "MARK", "The mark between thousands in CSV: '.', ',', a blank, an apostrophe or none.",
        "as the columns show",
    ),
    _text("dates", "days", "Read dates and times among the features as days since 1970."),
    _flag("drop_duplicates", "Keep one of rows with the same query, document and label."),
    _text("format", "letor|csv|parquet", "The format of the data.", "by the file's ending", "data-format"),
    _text("folder", "DIR", "The folder of the catalog's sets.", "RANKWISE_DATA", "data-folder", Path),
    _flag("download", "Download a set of the catalog that is not there."),
    _text(
        "read", "NAME=VALUE", "Another argument of rw.read_csv, rw.read_parquet or rw.read_letor: sort=true, "
        "n_features=46, errors=skip; may be repeated.", kind=list[str],
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """How to read ranking data, as the command line says."""

    arguments: Keywords = field(default_factory=dict)
    """Arguments of ``rw.read_data``."""
    part: str | None = None
    fold: int | None = None
    """Of a set of the catalog, or a .toml file."""

    @staticmethod
    def options() -> dict[str, Parameter]:
        """Return the parameters that it is made from."""
        return {one.name: one for one in _OPTIONS}

    @classmethod
    def of(cls, values: Keywords) -> "Reading":
        """Read the values of the options."""
        further = inputs.settings(values.pop("read", []), _TEXTS)
        for name in ("part", "fold", "progress", "tables"):  # the command's own, and not of reading
            if name in further:
                raise check.error("unknown argument of reading ranking data", got=repr(name), hint="leave it out")
        further |= {name: inputs.items(str(text)) for name, text in further.items() if name in _LISTS and is_text(text)}
        part, fold = values.pop("part", None), values.pop("fold", None)
        labels = _labels(values.pop("label", ()))
        values = {name: list(value) if name in _LISTS else value for name, value in values.items()}
        return cls(further | values | labels, part, fold)

    def data(self, name: str, bar: "Steps | None" = None, tables: Keywords | None = None) -> "RankingDataset":
        """Read one data set; ``tables`` are options for tables, where the user says nothing."""
        from rankwise.data.io import reading

        progress = None if bar is None else bar.part
        return reading.read(name, part=self.part, fold=self.fold, progress=progress, tables=tables, **self.arguments)

    def parts(self, data: str, valid: str | None) -> "tuple[RankingDataset, RankingDataset | None]":
        """Read training and validation data."""
        from rankwise.data.io import reading

        return reading.read_parts(data, valid, self.fold, **self.arguments)


def _labels(words: Sequence[str]) -> Keywords:
    """Read the columns of labels: COLUMN is that of the main one, NAME=COLUMN of another.

    >>> _labels(["clicked", "purchase=bought"])
    {'label': 'clicked', 'more_labels': {'purchase': 'bought'}}
    """
    plain = [word for word in words if "=" not in word]
    if len(plain) > 1:
        hint = f"call the second by a name: --label NAME={plain[1]}"
        raise check.error("there is one column of relevance labels", got=", ".join(plain), hint=hint)
    more = inputs.pairs([word for word in words if "=" in word], "--label NAME=COLUMN")
    return ({"label": plain[0]} if plain else {}) | ({"more_labels": more} if more else {})
