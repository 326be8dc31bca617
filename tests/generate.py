"""Write the lines that are generated: ``python -m tests.generate``, which ``make format`` runs.

They stand between the marks ``NAME:begin`` and ``NAME:end``. Stubs of public names are written whole: classes of a
table are in that of its namespace, other names are added by hand, and all are imported from where they are defined. A
test compares :func:`generated` with the repository.
"""

import functools
import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.harness import markdown
from rankwise.data import columns
from rankwise.data.columns import DataColumn
from rankwise.metrics.table import METRICS
from rankwise.objectives.catalogue import entries
from rankwise.objectives.table import OBJECTIVES, WRAPPERS

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "python -m tests.generate"
_TABLES = {"metrics": METRICS.values(), "objectives": {**OBJECTIVES, **WRAPPERS}.values()}
"""Namespace -> classes that are public since they are in its table."""
_WIDTH = 120
_REQUIRED = ("query_ids", "labels")
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
"""Words in sentences about columns -> the page about them."""


def generated() -> dict[Path, str]:
    """Return the text of every file with generated lines, as it ought to be."""
    files: dict[Path, str] = {}
    for name, start, end, lines in _REGIONS:
        path = ROOT / name
        text = files.get(path) or path.read_text("utf-8")
        files[path] = _replaced(text, start, end, "\n".join(lines()))
    return files | {path: stub(path) for path in sorted((ROOT / "src").rglob("*.pyi"))}


def _replaced(text: str, start: str, end: str, lines: str) -> str:
    """Return a text with other lines between the line of ``start`` and the next one with ``end``."""
    region = re.compile(rf"({re.escape(start)}[^\n]*\n).*?(?=[^\n]*{re.escape(end)})", re.DOTALL)
    text, count = region.subn(lambda begin: f"{begin[1]}{lines}\n", text)
    if count != 1:
        raise ValueError(f"there must be one region from {start!r} to {end!r}: got {count}")
    return text


def _arguments() -> list[str]:
    """Return the lines of columns in the TypedDict of a data set's optional arguments."""
    return [_typed(one.name, "ArrayLike", one) for one in columns.COLUMNS if one.name not in _REQUIRED]


def _roles() -> list[str]:
    """Return the lines of roles in the TypedDict of names. Only that of queries cannot be None."""
    return [_typed(one.role, "str", one) for one in _with_role()]


def _with_role() -> list[DataColumn]:
    return [one for one in columns.COLUMNS if one.role]


def _typed(name: str, kind: str, column: DataColumn) -> str:
    kind = f"Mapping[str, {kind}]" if column.several else kind
    return f"    {name}: {kind}" + ("" if name == "query" else " | None")


def _fields() -> list[str]:
    """Return the fields of a data set with their docstrings, but for labels, which are always there."""
    lines: list[str] = []
    for column in columns.COLUMNS:
        kind = _TYPES.get(column.kind, f"NDArray[np.{column.dtype}]")
        shape = "(n_docs,)" if column.per == "document" else "(n_queries,)"
        if column.several:
            kind, shape = f"Mapping[str, {kind}]", f"Name -> {shape}"
        if column.name != "labels":
            lines.append(f"    {column.name}: {kind} | None = None")
            lines += _wrapped(f'"""{shape} {column.text}."""', "    ", "    ")
    return lines


def _roles_in_words() -> list[str]:
    """Return the list of roles in the docstring of ``from_frame``."""
    lines = [""]
    for column in _with_role():
        default = f', by default ``"{columns.roles()[column.role]}"``' if column.name in _REQUIRED else ""
        default = ", the column of each name" if column.several else default
        same = ". All rows of a query have the same" if column.per == "query" and not default else ""
        lines += _wrapped(f"- ``{column.role}``{default}: {column.text}{same}.", " " * 12, " " * 14)
    return [*lines, ""]


def _wrapped(text: str, first: str, others: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=others, break_long_words=False)


def _table_of_columns() -> str:
    rows = []
    for column in _with_role():
        text = re.sub(r"``([^`]+)``", r"`\1`", column.text)
        for words, page in _LINKS.items():
            text = text.replace(words, f"[{words}]({page})")
        default = f'"{columns.roles()[column.role]}"' if column.name in _REQUIRED else ""
        default = '{"…": …}' if column.several else default
        rows.append((f"`{column.name}`", f"`{column.role}={default}`", column.per, text))
    return markdown(("in a data set", "in a table", "one per", "values"), rows)


def _table_of_objectives() -> str:
    rows = [(f"`{e.name}`", e.description.replace("|", r"\|"), e.paper or "–", e.hessian()) for e in entries()]
    return markdown(("name", "what it is", "paper", "Hessian"), rows)


def _table_of_arguments() -> str:
    words: dict[bool | str, bool | str] = {True: "yes", False: "no"}
    rows = [
        (
            f"`{e.name}`",
            f"`{e.class_name}`",
            f"`{e.defaults()}`" if e.defaults() else "–",
            words.get(e.estimator, e.estimator),
        )
        for e in entries()
    ]
    return markdown(("name", "class", "arguments and defaults", "estimator"), rows)


def stub(path: Path) -> str:
    """Return a stub with the names that it has and those of its table, each from the module that defines it now."""
    text = path.read_text("utf-8")
    names = {
        name: module for module, name in re.findall(r"^from (rankwise\S*) import (\w+) as \w+$", text, re.MULTILINE)
    }
    if path.stem == "__init__":
        names |= {cls.__name__: cls.__module__ for cls in _TABLES.get(path.parent.name, ())}
    imports = [(_defining(name, module), name) for name, module in names.items()]
    lines = [f"from {module} import {name} as {name}" for module, name in sorted(imports, key=_order)]
    modules = sorted(re.findall(r"^from \. import .*$", text, re.MULTILINE))
    return "\n\n".join("\n".join(part) for part in (lines, modules) if part) + "\n"


def _order(imported: tuple[str, str]) -> tuple[str, int, str]:
    """Sort as ruff does: by module, then constants, classes and functions."""
    module, name = imported
    return module, 0 if name.isupper() else 1 if name[0].isupper() else 2, name.lower()


def _defining(name: str, module: str) -> str:
    """Return the module of a name: ``module`` if it has the name, or else the one that defines it."""
    modules = _modules()
    if f"{module}.{name}" in modules:  # a module itself
        return module
    if module in modules and re.search(
        rf"^(?:def|class|from .* import\b.*|(?:\w+, )*) ?{name}\b", modules[module], re.MULTILINE
    ):
        return module
    definition = re.compile(rf"^(?:def|class) {name}\b|^{name}\b[^=\n]*= ", re.MULTILINE)
    found = [one for one, text in modules.items() if definition.search(text)]
    if len(found) != 1:
        raise ValueError(f"{module} does not define {name} any more: got {found or 'no module'} that does")
    return found[0]


@functools.cache
def _modules() -> dict[str, str]:
    """Return the texts of all modules."""
    paths = {path.relative_to(ROOT / "src"): path for path in sorted((ROOT / "src").rglob("*.py"))}
    return {
        ".".join(part.with_suffix("").parts).removesuffix(".__init__"): path.read_text("utf-8")
        for part, path in paths.items()
    }


_REGIONS: tuple[tuple[str, str, str, Callable[[], Iterable[str]]], ...] = (
    ("src/rankwise/data/arguments.py", "arguments:begin", "arguments:end", _arguments),
    ("src/rankwise/data/arguments.py", "roles:begin", "roles:end", _roles),
    ("src/rankwise/data/dataset.py", "fields:begin", "fields:end", _fields),
    # A docstring has no comments.
    ("src/rankwise/data/frames.py", "names of other columns, by role", "True and false become", _roles_in_words),
    ("docs/data.md", "columns:begin", "columns:end", lambda: ("", _table_of_columns(), "")),
    ("docs/reference.md", "objectives:begin", "objectives:end", lambda: ("", _table_of_objectives(), "")),
    ("docs/reference.md", "arguments:begin", "arguments:end", lambda: ("", _table_of_arguments(), "")),
)
"""File, words of the lines before and after, and what is between."""


def main() -> None:
    """Write the files that differ."""
    for path, text in generated().items():
        if path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
