"""Markdown pages as readers see them: every table is one, and no row loses a cell."""

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

HERE = Path(__file__).parents[2]
PAGES = [*HERE.glob("*.md"), *sorted((HERE / "docs").rglob("*.md"))]
READMES = [path for room in ("benchmarks", "examples", "src") for path in sorted((HERE / room).rglob("README.md"))]
_NAMED = re.compile(r"`((?:benchmarks|docs|examples|src|tests)/[\w./-]+)`|`\S+ -m pytest (?:-\S+ )*([\w./-]+)`")
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
_BAR = re.compile(r"(?<!\\)\|")


def broken_rows(text: str) -> list[str]:
    """Lines that look like rows and are shown as text, and rows of another number of cells than their table has."""
    lines = text.split("\n")
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    tables = [range(*token.map) for token in tokens if token.type == "table_open" and token.map]
    code = {
        line for token in tokens if token.type in ("fence", "code_block") and token.map for line in range(*token.map)
    }
    inside = {line for table in tables for line in table}
    rows = [n for n, line in enumerate(lines) if line.lstrip().startswith("|") and n not in code]
    broken = [n for n in rows if n not in inside]
    for table in tables:
        width = len(_BAR.findall(lines[table.start + 1].strip().strip("|")))
        broken += [n for n in table if len(_BAR.findall(re.sub(r"^\||\|$", "", lines[n].strip()))) != width]
    return [f"line {n + 1}: {lines[n]}" for n in sorted(broken)]


def test_a_blank_line_and_a_missing_cell_are_found():
    whole = "| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert not broken_rows(whole)
    assert broken_rows(whole + "\n| 3 | 4 |\n") == ["line 5: | 3 | 4 |"]
    assert broken_rows(whole + "| 5 |\n") == ["line 4: | 5 |"]
    assert broken_rows(whole + "| 6 | a|b |\n") == ["line 4: | 6 | a|b |"]
    assert not broken_rows("```text\n| no table |\n```\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(HERE).as_posix())
def test_the_tables_of_a_page_are_whole(page: Path):
    assert not broken_rows(page.read_text(encoding="utf-8"))


def lost_files(page: Path, text: str) -> list[str]:
    """Files and folders of the repository that a page names or links to, and that are not there."""
    named = {HERE / (one or other) for one, other in _NAMED.findall(text) if not re.search(r"NAME|1\.2\.3", one)}
    linked = {page.parent / link for link in _LINK.findall(text)}
    return sorted(str(path) for path in named | linked if not path.exists())


def test_lost_files_are_found():
    page = HERE / "examples" / "README.md"
    assert not lost_files(page, "`tests/docs/` and `tests/test_NAME.py`, [a](../docs/img/), [b](https://c.d), [e](#f)")
    assert lost_files(page, "`tests/docs/gone.py`, [a](gone.md#b)") == [
        str(HERE / "examples" / "gone.md"),
        str(HERE / "tests" / "docs" / "gone.py"),
    ]
    assert lost_files(page, "run `python -m pytest tests/gone`") == [str(HERE / "tests" / "gone")]


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=lambda page: page.relative_to(HERE).as_posix())
def test_files_that_a_page_names_are_there(page: Path):
    """But for the changelog, which names what there was."""
    if page.name != "CHANGELOG.md":
        assert not lost_files(page, page.read_text(encoding="utf-8"))
