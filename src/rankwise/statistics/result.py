"""The base of all results: how they print, what notebooks show, and how they are written to files."""

import html
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from rankwise import check
from rankwise.base.arrays import Json
from rankwise.base.files import replacing
from rankwise.base.tables import NOTHING, Table, as_csv

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

_TEXTS = {".txt": "to_text", ".md": "to_markdown", ".tex": "to_latex", ".json": "to_json"}
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums }}
th, td {{ padding: .2em .8em; border-bottom: 1px solid #ddd; vertical-align: top }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


class Result:
    """A result, such as an evaluation, a comparison or a search.

    A subclass declares ``table``, or ``tables`` where there are several, ``to_frame``, and ``figure`` where there is a
    plot; it may have a ``sentence``. All else follows.

    >>> import polars as pl
    >>> class Means(Result):
    ...     def table(self):
    ...         return Table(header=("metric", "mean"), rows=(("ap", "0.25"),), align="lr")
    ...     def to_frame(self):
    ...         return pl.DataFrame({"metric": ["ap"], "mean": [0.25]})
    >>> Means()
    metric  mean
    ap      0.25
    >>> print(Means().to_markdown())
    | metric | mean |
    | :-- | --: |
    | ap | 0.25 |
    """

    table: Callable[..., Table]
    to_frame: "Callable[[], pl.DataFrame]"
    figure: "Callable[..., Figure]"

    @property
    def sentence(self) -> str:
        """The result in words; empty where the tables say it all."""
        return ""

    def tables(self, *_: Any, **options: Any) -> list[Table]:
        """Return all tables."""
        return [self.table(**options)]

    def to_text(self, **options: Any) -> str:
        """Return the tables as aligned text; ``options`` are those of ``tables``."""
        return "\n\n".join(table.text() for table in self.tables(**options))

    def to_markdown(self, **options: Any) -> str:
        """Return the tables as Markdown, the best of each column in bold; ``options`` are those of ``tables``."""
        return "\n\n".join(table.markdown() for table in self.tables(**options))

    def to_latex(self, **options: Any) -> str:
        """Return the tables as LaTeX (booktabs), the best of each column in bold; ``options`` as in ``tables``."""
        return "\n\n".join(table.latex() for table in self.tables(**options))

    def to_html(self, **options: Any) -> str:
        """Return the tables as HTML, without a page around them; ``options`` are those of ``tables``."""
        return "".join(table.html() for table in self.tables(**options))

    def to_dict(self) -> Json:
        """Return plain data that JSON can hold."""
        return {"sentence": self.sentence, "rows": plain(self.to_frame().to_dicts())}

    def to_json(self) -> str:
        """Return the data of :meth:`to_dict` as JSON; numbers that are missing or not finite are null."""
        return as_json(self.to_dict())

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.to_html()

    @overload
    def plot(self, path: None = None, *, force: bool = False, **options: Any) -> "Figure": ...

    @overload
    def plot(self, path: str | Path, *, force: bool = False, **options: Any) -> Path: ...

    def plot(self, path: str | Path | None = None, *, force: bool = False, **options: Any) -> "Path | Figure":
        """Draw the result to a .png, .svg or .pdf file and return its path; without a path, return the figure.

        Notebooks show the figure. ``options`` are those of ``figure``; ``force`` replaces a file.
        """
        if not hasattr(self, "figure"):
            raise check.error("this result has no plot", got=type(self).__name__, hint="print it, or save its tables")
        from rankwise.statistics.figures import drawing

        draw = partial(self.figure, **options)
        return draw() if path is None else drawing.plot(draw, path, force=force)

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the result to a file, in the format of its ending, and return the path.

        .csv and .parquet have the rows of ``to_frame``, .json the data of ``to_dict``, .txt, .md, .tex and .html the
        tables, and .png, .svg and .pdf the plot. ``force`` replaces a file.
        """
        from rankwise.statistics.figures import drawing

        path = Path(path)
        ending = path.suffix.lower()
        if ending in drawing.FORMATS and hasattr(self, "figure"):
            return self.plot(path, force=force)
        endings = (".csv", ".parquet", ".html", *_TEXTS, *(drawing.FORMATS if hasattr(self, "figure") else ()))
        if ending not in endings:
            hint = f"end it with {', '.join(endings)}"
            raise check.error("the ending of a file is that of its format", got=repr(path.name), hint=hint)
        if ending in (".csv", ".parquet"):
            write_frame(self.to_frame(), path, force=force)
            return path
        if ending == ".html":
            title = self.sentence or type(self).__name__
            text = _PAGE.format(title=html.escape(title), body=self.to_html())
        else:
            text = f"{getattr(self, _TEXTS[ending])().rstrip()}\n"
        with replacing(path, force=force) as new:
            new.write_text(text, encoding="utf-8")
        return path


def stacked(tables: Mapping[str, Table]) -> Table:
    """Join the tables of rankings by name, one below the other."""
    first = max(tables.values(), key=lambda table: len(table.header))
    if len(tables) == 1:
        return first
    rows = tuple(
        (name, *row, *[NOTHING] * (len(first.header) - len(row)))
        for name, table in tables.items()
        for row in table.rows
    )
    notes = first.notes
    if any(table.notes != notes for table in tables.values()):
        notes = tuple(f"{name}: {note}" for name, table in tables.items() for note in table.notes)
    return replace(first, header=("ranking", *first.header), rows=rows, align="l" + first.align, notes=notes)


def write_frame(
    frame: "pl.DataFrame", path: Path, *, force: bool = False, metadata: dict[str, str] | None = None
) -> None:
    """Write a frame as CSV, JSON or Parquet, which alone has room for ``metadata``."""
    with replacing(path, force=force) as new:
        if path.suffix.lower() == ".parquet":
            frame.write_parquet(new, metadata=metadata)
        else:
            text = as_csv(frame) if path.suffix.lower() == ".csv" else as_json(frame.to_dicts())
            new.write_text(text, encoding="utf-8")


def as_json(value: object) -> str:
    """Write plain data, NumPy values and paths as JSON; numbers that are missing or not finite are null.

    >>> print(as_json({"mean": math.nan, "folds": (1, 2)}))
    {
      "mean": null,
      "folds": [
        1,
        2
      ]
    }
    <BLANKLINE>
    """
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: object) -> Any:
    """Return data that JSON can hold; numbers that are not finite become None, anything unusual its text."""
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(part) for part in value]
    if hasattr(value, "tolist"):  # NumPy's arrays and scalars
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)
