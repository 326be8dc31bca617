"""Measurements in the documentation name the benchmark that prints them: it exists and takes the options named."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.commands import PAGES, ROOT

BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))
SOURCES = [*BENCHMARKS, *sorted((ROOT / "src").rglob("*.py"))]
MEASURED = [page for page in PAGES if "results" not in page.parts]  # those name the commands once, at their top

_SCRIPT = re.compile(r"\bbenchmarks/((?:speed|quality|pages)/[\w/]+)\.py\b")
_MODULE = re.compile(r"\bbenchmarks\.((?:speed|quality|pages)(?:\.\w+)+)")
_COMMAND = re.compile(r"python -m benchmarks\.([\w.]+)([^`\n#]*)")
_HEADING = re.compile(r"(?m)^#+ ")
_FIGURE = re.compile(r"(?m)^\|.*\b0\.\d{4,}\b.*\|$|^\|.*[ (+−-]\.\d{4,}\b.*\|$")
_NAMED = re.compile(r"\bbenchmarks\.\w+\.\w+\b|\btests\.generate\b|\brankwise (?:reproduce|report)\b")


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def file(module: str) -> Path:
    """The file of a benchmark, which may be a folder with ``__main__.py``."""
    path = ROOT / "benchmarks" / module.replace(".", "/")
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def options(module: str) -> frozenset[str]:
    """The options of a benchmark, read from its source: running it would load every library that it compares."""
    tree = ast.parse(file(module).read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    words = [word for call in calls if call.func.attr == "add_argument" for word in call.args]  # type: ignore[attr-defined]
    shared = [call for call in calls if call.func.attr == "arguments" and call.keywords]  # type: ignore[attr-defined]
    return frozenset(str(word.value) for word in words if isinstance(word, ast.Constant)) | (
        {"--out", "--processes"} if shared else set()
    )


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_options_of_benchmarks_exist(page: Path):
    check(page)


def test_options_that_benchmarks_and_docstrings_name_exist():
    for source in SOURCES:
        check(source)


def check(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    for path in _SCRIPT.findall(text):
        assert (ROOT / "benchmarks" / f"{path}.py").is_file(), f"{named(source)}: there is no benchmarks/{path}.py"
    for module in _MODULE.findall(text):
        assert any(file(name).is_file() for name in (module, module.rpartition(".")[0])), f"{named(source)}: {module}"
    for module, words in _COMMAND.findall(text):
        assert file(module).is_file(), f"{named(source)}: there is no benchmarks.{module}"
        for word in re.findall(r"--[\w-]+", words):
            assert word in options(module), f"{named(source)}: benchmarks.{module} has no {word}"


@pytest.mark.parametrize("page", MEASURED, ids=named)
def test_a_table_of_measurements_names_its_command(page: Path):
    """A table with figures of four digits after the point stands in a section that says what prints them."""
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    for section in _HEADING.split(text):
        figure = _FIGURE.search(section)
        assert not figure or _NAMED.search(section), f"{named(page)}: what prints this?\n{figure and figure[0]}"
