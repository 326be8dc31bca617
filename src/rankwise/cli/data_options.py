"""How a command reads ranking data: the options for it, defined once and added to every command that needs them."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankwise import check
from rankwise.arrays import Keywords
from rankwise.cli import console, inputs, options
from rankwise.cli.options import flag, option
from rankwise.data.columns import COLUMNS, roles

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset

_PANEL = options.READING
_TEXTS = ("separator", *roles())
"""Arguments of reading that are words: names of columns."""


_COLUMNS: Keywords = {
    column.role: Annotated[str | None, option(column.option, "COLUMN", default=column.default or False, panel=_PANEL)]
    for column in COLUMNS
    if column.option
}
_OPTIONS: Keywords = {
    **{role: _COLUMNS.pop(role) for role in ("query", "label")},
    "features": Annotated[
        str | None,
        option(
            "The columns of features, between commas; 'f_*' stands for all that fit, and '!price' leaves one out.",
            "LIST",
            default="all that are nothing else",
            panel=_PANEL,
        ),
    ],
    **_COLUMNS,
    "categorical": Annotated[
        str | None,
        option(
            "Features that hold categories, as text or as codes, between commas.", "LIST", default=False, panel=_PANEL
        ),
    ],
    "data_format": Annotated[
        str | None,
        option(
            "The format of the data.",
            "letor|csv|parquet",
            "--data-format",
            default="by the file's ending",
            panel=_PANEL,
        ),
    ],
    "data_folder": Annotated[
        Path | None,
        option("The folder of the catalog's sets.", "DIR", "--data-folder", default="RANKWISE_DATA", panel=_PANEL),
    ],
    "download": Annotated[bool, flag("Download a set of the catalog that is not there.", "--download", panel=_PANEL)],
    "read": Annotated[
        list[str] | None,
        option(
            "Another argument of rw.read_csv, rw.read_parquet or rw.read_letor: sort=true, n_features=46, errors=skip; "
            "may be repeated.",
            "NAME=VALUE",
            "--read",
            default=False,
            panel=_PANEL,
        ),
    ],
}


@dataclass(frozen=True)
class Reading:
    """How to read ranking data, as the command line says."""

    options: Keywords = field(default_factory=dict)
    """Arguments of ``rw.read_data``."""

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
        return cls(further | values)

    def data(
        self,
        name: str,
        *,
        part: str | None = None,
        fold: int | None = None,
        bar: console.Steps | None = None,
        tables: Keywords | None = None,
    ) -> "RankingDataset":
        """Read one data set; ``tables`` are options for tables, where the user says nothing."""
        from rankwise.data import reading

        progress = None if bar is None else bar.part
        return reading.read(name, part=part, fold=fold, progress=progress, tables=tables, **self.options)

    def parts(self, data: str, valid: str | None, fold: int | None) -> "tuple[RankingDataset, RankingDataset | None]":
        """Read training and validation data."""
        from rankwise.data import reading

        return reading.read_parts(data, valid, fold, **self.options)


def reads_data(command: Callable[..., None], *, leave_out: Sequence[str] = ()) -> Callable[..., None]:
    """Add the options of reading to a command; their values are its argument ``reading``.

    A command that calls something else so, as ``explain --query ID`` does, keeps that, and ``--read`` does instead.
    """
    signature = inspect.signature(command)
    declared = [parameter for parameter in signature.parameters.values() if parameter.name != "reading"]
    added = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=False if name == "download" else None, annotation=annotation
        )
        for name, annotation in _OPTIONS.items()
        if name not in signature.parameters and name not in leave_out
    ]

    @functools.wraps(command)
    def run(**words: Any) -> None:
        values = {one.name: words.pop(one.name) for one in added}
        command(**words, reading=Reading.of(values))

    run.__signature__ = signature.replace(parameters=[*declared, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in (*declared, *added)}
    return run
