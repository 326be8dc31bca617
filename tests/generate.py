"""Write generated lines, typed arguments and documentation of columns: ``python -m tests.generate``.

``make format`` runs it, and a test compares :func:`generated` with the repository.
"""

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

from rankwise.data import columns
from rankwise.data.columns import DataColumn

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "python -m tests.generate"
START, END = f"Generated from the table of columns by {COMMAND}:", "End of the generated lines."
WIDTH = 120
_TYPES = {"id": "Ids", "text": "NDArray[np.object_]"}
_LINKS = {
    "estimated from clicks": "clicks.md",
    "exposure is to be fair": "fairness.md",
    "labels of another goal": "goals.md#labels-by-name",
    "objectives that weigh documents": "rankers.md#data",
    "rerankers": "rerank.md",
    "sampled": "metrics.md#unjudged-documents",
    "a ranker is to learn": "objectives.md#learning-from-a-teacher",
}
"""Words of columns' sentences -> the page about them."""


def generated() -> dict[Path, str]:
    """Return the text of every file with generated lines, as it ought to be."""
    with_role = [column for column in columns.COLUMNS if column.role]
    optional = [column for column in columns.COLUMNS if column.name != "labels"]
    arguments = [_line(column.name, "ArrayLike", column) for column in optional if column.name != "query_ids"]
    roles = [_line(column.role, "str", column) for column in with_role]
    fields = [line for column in optional for line in _field(column)]
    bullets = [line for column in with_role for line in _bullet(column)]
    header = ["| in a data set | in a table | one per | values |", "| --- | --- | --- | --- |"]
    regions = [
        ("src/rankwise/data/arguments.py", ("class Columns", START), END, arguments),
        ("src/rankwise/data/arguments.py", ("class Names", START), END, roles),
        ("src/rankwise/data/dataset.py", ("class RankingDataset", START), END, fields),
        (
            "src/rankwise/data/frames.py",
            ("by role; None where there is no such column:",),
            "    True and false become",
            ["", *bullets, ""],
        ),
        ("docs/data.md", ("## Columns", START), END, ["", *header, *map(_table_row, with_role), ""]),
    ]
    files: dict[Path, str] = {}
    for name, after, before, lines in regions:
        path = ROOT / name
        files[path] = _replaced(files.get(path) or path.read_text("utf-8"), after, before, lines)
    return files


def _replaced(text: str, after: Iterable[str], before: str, lines: Iterable[str]) -> str:
    """Return a text with other lines between that of the last words of ``after``, which follow one another, and the
    next line with the words ``before``."""
    start = 0
    for words in after:
        start = text.index(words, start)
    start = text.index("\n", start) + 1
    end = text.rindex("\n", 0, text.index(before, start)) + 1
    return text[:start] + "".join(f"{line}\n" for line in lines) + text[end:]


def _line(name: str, kind: str, column: DataColumn) -> str:
    """The line of a name in a TypedDict. Only queries are always named."""
    kind = f"Mapping[str, {kind}]" if column.several else kind
    return f"    {name}: {kind}" + ("" if name == "query" else " | None")


def _field(column: DataColumn) -> list[str]:
    """The field of a data set and its docstring."""
    kind = _TYPES.get(column.kind, f"NDArray[np.{column.dtype}]")
    shape = "(n_docs,)" if column.per == "document" else "(n_queries,)"
    if column.several:
        kind, shape = f"Mapping[str, {kind}]", f"Name -> {shape}"
    docstring = textwrap.wrap(f'"""{shape} {column.text}."""', WIDTH, initial_indent="    ", subsequent_indent="    ")
    return [f"    {column.name}: {kind} | None = None", *docstring]


def _bullet(column: DataColumn) -> list[str]:
    """The lines of a role in the docstring of ``from_frame``."""
    required = ("query_ids", "labels")
    default = f', by default ``"{columns.roles()[column.role]}"``' if column.name in required else ""
    default = ", the column of each name" if column.several else default
    same = ". All rows of a query have the same" if column.per == "query" and column.name not in required else ""
    text = f"- ``{column.role}``{default}: {column.text}{same}."
    return textwrap.wrap(text, WIDTH, initial_indent=" " * 12, subsequent_indent=" " * 14)


def _table_row(column: DataColumn) -> str:
    """The row of a column on the page about data."""
    text = re.sub(r"``([^`]+)``", r"`\1`", column.text)
    for words, page in _LINKS.items():
        text = text.replace(words, f"[{words}]({page})")
    default = f'"{columns.roles()[column.role]}"' if column.name in ("query_ids", "labels") else ""
    default = '{"…": …}' if column.several else default
    return f"| `{column.name}` | `{column.role}={default}` | {column.per} | {text} |"


def main() -> None:
    """Write the files that differ."""
    for path, text in generated().items():
        if path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
