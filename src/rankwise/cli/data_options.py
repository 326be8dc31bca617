"""How a command reads ranking data: options that every command has whose parameter is ``reading: Reading``."""

import inspect
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankwise import check
from rankwise.arrays import Keywords
from rankwise.cli import console, inputs, options
from rankwise.data.columns import COLUMNS, roles

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset

_TEXTS = ("separator", "decimal", "thousands", *roles())
"""Arguments of reading that are words: names of columns, and marks."""


_COLUMNS = [
    f"--{column.role.replace('_', '-')} COLUMN: {column.option}"
    + (f" [default: {column.default}]" if column.default else "")
    for column in sorted(COLUMNS, key=lambda column: column.role not in ("query", "label"))
    if column.option
]
OPTIONS = options.described(f"""
Reading data:
{_COLUMNS[0]}
{_COLUMNS[1]}
--features LIST: The columns of features, between commas; 'f_*' stands for all that fit, and '!price' leaves one out.
    [default: all that are nothing else]
{chr(10).join(_COLUMNS[2:])}
--categorical LIST: Features that hold categories, as text or as codes, between commas.
--decimal MARK: The mark before decimals in CSV, '.' or ','. [default: as the columns show]
--thousands MARK: The mark between thousands in CSV: '.', ',', a blank, an apostrophe or none. [default: as the columns
    show]
--dates days: Read dates and times among the features as days since 1970.
--drop-duplicates: Keep one of rows with the same query, document and label.
--data-format letor|csv|parquet: The format of the data. [default: by the file's ending]
--data-folder DIR: The folder of the catalog's sets. [default: RANKWISE_DATA]
--download: Download a set of the catalog that is not there.
--read NAME=VALUE: Another argument of rw.read_csv, rw.read_parquet or rw.read_letor: sort=true, n_features=46,
    errors=skip; may be repeated.
""")
"""Parameter -> option, for every command that reads ranking data."""
_TYPES: Keywords = {"fold": int | None, "data_folder": Path | None, "download": bool, "drop_duplicates": bool}
_TYPES |= dict.fromkeys(("label", "read"), list[str] | None)
"""Those that are not text."""


@dataclass(frozen=True)
class Reading:
    """How to read ranking data, as the command line says."""

    options: Keywords = field(default_factory=dict)
    """Arguments of ``rw.read_data``."""
    part: str | None = None
    fold: int | None = None
    """Of a set of the catalog, or a .toml file."""

    @classmethod
    def of(cls, words: Keywords) -> "Reading":
        """Read the values of the options."""
        values = {name: value for name, value in words.items() if value not in (None, False)}
        further = inputs.settings(values.pop("read", []), _TEXTS)
        for name in ("part", "fold", "progress", "tables"):  # the command's own, and not of reading
            if name in further:
                raise check.error("unknown argument of reading ranking data", got=repr(name), hint="leave it out")
        for name in ("features", "categorical"):
            for source in (values, further):
                if isinstance(text := source.get(name), str):
                    source[name] = inputs.items(text)
        for name in ("data_format", "data_folder"):
            if name in values:
                values[name.removeprefix("data_")] = values.pop(name)
        part, fold = (values.pop(name, None) for name in ("part", "fold"))
        values |= _labels(values.pop("label", ()))
        return cls(further | values, part, fold)

    def data(self, name: str, *, bar: console.Steps | None = None, tables: Keywords | None = None) -> "RankingDataset":
        """Read one data set; ``tables`` are options for tables, where the user says nothing."""
        from rankwise.data import reading

        progress = None if bar is None else bar.part
        return reading.read(name, part=self.part, fold=self.fold, progress=progress, tables=tables, **self.options)

    def parts(self, data: str, valid: str | None) -> "tuple[RankingDataset, RankingDataset | None]":
        """Read training and validation data."""
        from rankwise.data import reading

        return reading.read_parts(data, valid, self.fold, **self.options)


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


def parameters(described: Mapping[str, Any], left_out: Container[str]) -> list[inspect.Parameter]:
    """Return the options of reading, but for some, as parameters of a command."""
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if _TYPES.get(name) is bool else None,
            annotation=Annotated[_TYPES.get(name, str | None), described[name]],
        )
        for name in ("part", "fold", *OPTIONS)
        if name not in left_out
    ]
