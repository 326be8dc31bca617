"""How numbers and tables are written, once: as plain text, Markdown, LaTeX and HTML.

A :class:`Table` holds what is to be said; its methods know how each format says it. Everything that prints numbers
(evaluations, comparisons, the command line, reports) builds a table and never lays out text itself.
"""

import html
import math
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_LETTERS = "abcdefghijklmnoprstuvwxyz"  # Unicode has no common superscript q
_RAISED = str.maketrans(_LETTERS + "0123456789,?", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ⁰¹²³⁴⁵⁶⁷⁸⁹˒ˀ")
_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": "$<$",
        ">": "$>$",
        "−": "$-$",
    }
)
_ONE_LINE = dict.fromkeys([*range(32), 127, 0x85, 0x2028, 0x2029], " ")  # control characters and line breaks
_MARKDOWN = _ONE_LINE | str.maketrans({character: f"\\{character}" for character in "\\`*_|<>[]#"})
_NUMBER = r"^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$"
NOTHING = "–"
_NOTE_WIDTH = 88


def number(value: float, digits: int = 4, *, signed: bool = False) -> str:
    """Write a value of a metric; NaN is a dash.

    >>> number(0.41234), number(-0.012, 3, signed=True), number(float("nan"))
    ('0.4123', '−0.012', '–')
    """
    if math.isnan(value):
        return NOTHING
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    if not float(text):  # neither −0.000 nor +0.000
        return text.lstrip("+-")
    return text.replace("-", "−")


def probability(value: float) -> str:
    """Write a p-value without more precision than it has.

    >>> probability(0.0312), probability(0.00002), probability(1.0)
    ('0.031', '<0.001', '1.000')
    """
    if math.isnan(value):
        return NOTHING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def interval(low: float | None, high: float | None, digits: int = 4, *, signed: bool = False) -> str:
    """Write an interval; one without ends, which are NaN, or None in JSON, is a dash.

    >>> interval(0.4, 0.45, 3), interval(None, None)
    ('[0.400, 0.450]', '–')
    """
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return NOTHING
    return f"[{number(low, digits, signed=signed)}, {number(high, digits, signed=signed)}]"


def spans(numbers: Iterable[int]) -> str:
    """Write ascending numbers as ranges.

    >>> spans([1, 2, 3, 7])
    '1 to 3, 7'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def count(amount: int, one: str, many: str | None = None) -> str:
    """Write a number of things.

    >>> count(1, "query", "queries"), count(1200, "pair")
    ('1 query', '1,200 pairs')
    """
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Write a time without more precision than it has.

    >>> duration(12.4), duration(600), duration(9000), duration(500000)
    ('12 s', '10 min', '2.5 h', '5.8 days')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 100 * 3600 else f"{seconds / 86400:.1f} days"


def labels(n: int) -> list[str]:
    """Short names for the rows of a table that marks refer to: letters, or numbers where letters run out."""
    return list(_LETTERS[:n]) if n <= len(_LETTERS) else [str(i + 1) for i in range(n)]


def join_marks(marks: Sequence[str]) -> str:
    """Join the short names that stand beside a number; those longer than a letter need a comma between them."""
    return ("," if any(len(mark) > 1 or mark.isdigit() for mark in marks) else "").join(marks)


def raised(marks: str) -> str:
    """Write marks as superscripts.

    >>> raised("ab"), raised("3,12")
    ('ᵃᵇ', '³˒¹²')
    """
    return marks.translate(_RAISED)


def escape_latex(text: str) -> str:
    r"""Make text safe inside a LaTeX document.

    >>> print(escape_latex("my_model & 50%"))
    my\_model \& 50\%
    """
    return text.translate(_ONE_LINE).translate(_LATEX)


def escape_markdown(text: str) -> str:
    r"""Return text that Markdown shows as it is, on one line: no markup, no HTML.

    >>> print(escape_markdown("my_model <b>"))
    my\_model \<b\>
    """
    return text.translate(_MARKDOWN)


def as_csv(frame: "pl.DataFrame", *, separator: str = ",") -> str:
    """Write a frame as CSV, in which no text is a formula to Excel, LibreOffice and the like.

    They compute a cell that begins with ``=``, ``+``, ``-`` or ``@``, and ids and names are chosen by others. Such text
    gets a ``'`` in front, which spreadsheets do not show. Text that is a number stays as it is.

    >>> import polars as pl
    >>> print(as_csv(pl.DataFrame({"query": ["=1+2", "-7", "a-b"], "value": [-0.5, 0.25, 1.0]})))
    query,value
    '=1+2,-0.5
    -7,0.25
    a-b,1.0
    <BLANKLINE>
    """
    import polars as pl
    from polars import selectors

    def safe(text: pl.Expr) -> pl.Expr:
        computed = text.str.contains(r"^[=+\-@\t\r]") & ~text.str.contains(_NUMBER)
        return pl.when(computed).then(pl.lit("'") + text).otherwise(text)

    names = pl.select(safe(pl.lit(pl.Series(frame.columns, dtype=pl.String)))).to_series().to_list()
    texts = (selectors.string() | selectors.categorical() | selectors.enum()).cast(pl.String)
    written = frame.with_columns(safe(texts).name.keep()).rename(dict(zip(frame.columns, names, strict=True)))
    return written.write_csv(separator=separator)


def from_csv(frame: "pl.DataFrame") -> "pl.DataFrame":
    """Return a table that was read from CSV with its text as it was before :func:`as_csv`."""
    import polars as pl

    return frame.with_columns(pl.col(pl.String).str.replace(r"^'([=+\-@\t\r])", "$1"))


def width(text: str) -> int:
    """How many columns of a terminal a text takes: East Asian letters take two, combining accents none."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


@dataclass(frozen=True)
class TableCell:
    """One entry: its text, the marks beside it (short names of rows) and whether it is the best of its column."""

    text: str
    marks: str = ""
    best: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table in no format yet.

    >>> rows = ("a", "one", "0.4000"), ("b", "two", TableCell("0.5000", marks="a", best=True))
    >>> table = Table(header=("", "system", "ndcg@10"), rows=rows, align="llr", notes=("ᵃ better than a",))
    >>> print(table.text())
       system  ndcg@10
    a  one     0.4000
    b  two     0.5000ᵃ
    <BLANKLINE>
    ᵃ better than a
    """

    header: tuple[str, ...]
    rows: tuple[tuple[TableCell | str, ...], ...]
    align: str
    """One letter per column: l or r."""
    notes: tuple[str, ...] = ()
    title: str = ""
    """Above the table; a line break at its end leaves a line free."""

    def cells(self) -> list[list[TableCell]]:
        """Every row, all entries as cells."""
        return [[cell if isinstance(cell, TableCell) else TableCell(cell) for cell in row] for row in self.rows]

    def text(self) -> str:
        """Aligned columns; numbers line up also where some have marks beside them."""
        rows = self.cells()
        marked = [max((len(row[j].marks) for row in rows), default=0) for j in range(len(self.header))]
        columns = [
            [head, *(row[j].text.translate(_ONE_LINE) + raised(row[j].marks).ljust(marked[j]) for row in rows)]
            for j, head in enumerate(self.header)
        ]
        widths = [max(map(width, column)) for column in columns]
        lines = []
        for entries in zip(*columns, strict=True):
            parts = [
                " " * (room - width(entry)) + entry if side == "r" else entry + " " * (room - width(entry))
                for entry, room, side in zip(entries, widths, self.align, strict=True)
            ]
            lines.append("  ".join(parts).rstrip())
        if not any(self.header):
            del lines[0]
        room = max(_NOTE_WIDTH, *map(width, lines))
        notes = [line for note in self.notes for line in ("", *textwrap.wrap(note, room))]
        return "\n".join([*([self.title] if self.title else []), *lines, *notes])

    def markdown(self) -> str:
        """Write a Markdown table; the best of each column in bold."""

        def write(cell: TableCell) -> str:
            text = escape_markdown(cell.text)
            return (f"**{text}**" if cell.best else text) + raised(cell.marks)

        lines = [f"**{escape_markdown(self.title.strip())}**", ""] if self.title else []
        lines += ["| " + " | ".join(escape_markdown(head) for head in self.header) + " |"]
        lines.append("|" + "|".join({"l": " :-- ", "r": " --: "}[side] for side in self.align) + "|")
        lines += ["| " + " | ".join(map(write, row)) + " |" for row in self.cells()]
        return "\n".join([*lines, *(line for note in self.notes for line in ("", escape_markdown(note)))])

    def latex(self) -> str:
        """Write a LaTeX tabular for the booktabs package; the best of each column in bold, names escaped."""

        def write(cell: TableCell) -> str:
            text = escape_latex(cell.text)
            return (rf"\textbf{{{text}}}" if cell.best else text) + (f"$^{{{cell.marks}}}$" if cell.marks else "")

        lines = [rf"\begin{{tabular}}{{{self.align}}}", r"\toprule"]
        lines += [" & ".join(map(escape_latex, self.header)) + r" \\", r"\midrule"]
        lines += [" & ".join(map(write, row)) + r" \\" for row in self.cells()]
        lines += [r"\bottomrule", r"\end{tabular}"]
        said = (line for text in (self.title, *self.notes) for line in text.splitlines() if line)
        return "\n".join([*(f"% {line}" for line in said), *lines])

    def html(self) -> str:
        """Write an HTML table, as notebooks show it."""

        def write(cell: TableCell, side: str) -> str:
            text = html.escape(cell.text)
            text = f"<b>{text}</b>" if cell.best else text
            marks = f"<sup>{html.escape(cell.marks)}</sup>" if cell.marks else ""
            return f'<td style="text-align:{sides[side]}">{text}{marks}</td>'

        sides = {"l": "left", "r": "right"}
        head = "".join(
            f'<th scope="col" style="text-align:{sides[side]}">{html.escape(entry)}</th>'
            for entry, side in zip(self.header, self.align, strict=True)
        )
        body = "".join("<tr>" + "".join(map(write, row, self.align)) + "</tr>" for row in self.cells())
        notes = "".join(f"<p><small>{html.escape(note)}</small></p>" for note in self.notes)
        title = f"<h4>{html.escape(self.title.strip())}</h4>" if self.title else ""
        return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def shortened(text: str, most: int = 24) -> str:
    """Return a name on one line, cut in the middle if it is long: beginnings and ends tell names apart.

    >>> shortened("https://example.org/a/long/path", 12)
    'https:…/path'
    """
    text = text.translate(_ONE_LINE)
    return text if len(text) <= most else f"{text[: most // 2]}…{text[len(text) - (most - most // 2) + 1 :]}"
