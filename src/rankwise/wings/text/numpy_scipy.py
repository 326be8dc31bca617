"""The documentation of NumPy and SciPy as a data set: real text on every machine, collected from what is installed.

A page is a public function or class with its docstring. A query is a page too: its name and its first sentence.
Relevant are the pages that its authors listed under "See Also", which no page's text contains.
"""

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from rankwise.base import progress as bars

_MODULES = {
    "numpy": ("", "linalg", "fft", "random", "ma", "polynomial", "char", "strings", "testing"),
    "scipy": (
        *("cluster.hierarchy", "cluster.vq", "differentiate", "fft", "fftpack", "integrate", "interpolate", "io"),
        *("linalg", "ndimage", "optimize", "signal", "signal.windows", "sparse", "sparse.csgraph", "sparse.linalg"),
        *("spatial", "spatial.distance", "spatial.transform", "special", "stats", "stats.contingency", "stats.mstats"),
        "stats.qmc",
    ),
}
FIELDS = ("name", "module", "summary", "parameters", "returns", "notes", "text")
_HEADING = re.compile(r"(?m)^(\w[\w ]*)\n-{3,}[ ]*\n")
_ROLE = re.compile(r":\w+:`~?([^`<]*?)(?:\s*<[^`]*>)?`")
_NAME = re.compile(r"[A-Za-z_][\w.]*")


@dataclass(frozen=True, eq=False)
class Pages:
    """Pages, queries and links of the installed versions."""

    documents: pl.DataFrame
    """A page per row: id, its public name, and the columns of :data:`FIELDS`."""
    queries: Mapping[str, str]
    """Id of a page -> its name and its first sentence."""
    qrels: Mapping[str, Mapping[str, int]]
    """Id of a page -> the pages listed under "See Also", each with grade 1."""
    versions: Mapping[str, str]

    def __repr__(self) -> str:
        """Say what there is, and of which versions."""
        links = sum(map(len, self.qrels.values()))
        of = " and ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"Pages({self.documents.height:,d} pages, {len(self.queries):,d} queries, {links:,d} links, {of})"


def numpy_scipy(*, progress: bool | None = None) -> Pages:
    """Collect the pages, the queries with at least one link, and their links."""
    found: dict[int, tuple[str, Any]] = {}
    names: dict[str, int] = {}
    modules = [(package, name) for package, inner in _MODULES.items() for name in inner]
    with bars.bar(progress, len(modules), "documentation") as update:
        for number, (package, inner) in enumerate(modules):
            for name, value in _public(f"{package}.{inner}" if inner else package):
                names[name] = id(value)
                kept = found.get(id(value))
                if kept is None or _rank(name) < _rank(kept[0]):
                    found[id(value)] = name, value
            if update:
                update(number + 1, f"{package}.{inner}")
    pages = {name: _sections(inspect.getdoc(value) or "") for name, value in found.values()}
    known = {alias: found[one][0] for alias, one in names.items()}
    rows = [_page(name, sections) for name, sections in sorted(pages.items())]
    qrels = {}
    for name, sections in sorted(pages.items()):
        links = {page for one in _listed(sections.get("See Also", "")) if (page := _resolved(one, name, known))}
        if links - {name}:
            qrels[name] = dict.fromkeys(sorted(links - {name}), 1)
    documents = pl.DataFrame(rows)
    summaries = dict(documents.select("id", "summary").iter_rows())
    versions = {name: importlib.import_module(name).__version__ for name in _MODULES}
    return Pages(documents, {name: f"{name} {summaries[name]}" for name in qrels}, qrels, versions)


def _public(module: str) -> Iterator[tuple[str, Any]]:
    room = importlib.import_module(module)
    for name in getattr(room, "__all__", None) or [one for one in dir(room) if not one.startswith("_")]:
        value = getattr(room, name, None)
        if (inspect.isclass(value) or callable(value)) and (getattr(value, "__doc__", None) or "").strip():
            yield f"{module}.{name}", value


def _rank(name: str) -> tuple[int, int, str]:
    """Of several names of one object, the one with fewest dots, then the shortest, is its page."""
    return name.count("."), len(name), name


def _sections(doc: str) -> dict[str, str]:
    """Return the sections of a docstring by heading; "" is what comes before the first."""
    pieces = _HEADING.split(doc)
    return {"": pieces[0], **{pieces[i].strip(): pieces[i + 1] for i in range(1, len(pieces), 2)}}


def _page(name: str, sections: Mapping[str, str]) -> dict[str, str]:
    module, _, last = name.rpartition(".")
    paragraphs = [one for one in re.split(r"\n\s*\n", sections[""].strip()) if one]
    if (
        len(paragraphs) > 1
        and re.match(r"\w*\(.*\)?", paragraphs[0].split("\n")[0])
        and "(" in paragraphs[0].split(" ")[0]
    ):
        paragraphs = paragraphs[1:]  # the signature, which functions written in C begin with
    text = "\n".join([*paragraphs[1:], *(part for title, part in sections.items() if title not in ("", "See Also"))])
    return {
        "id": name, "name": last, "module": module, "summary": " ".join(paragraphs[0].split()) if paragraphs else "",
        "parameters": sections.get("Parameters", ""), "returns": sections.get("Returns", ""),
        "notes": sections.get("Notes", ""), "text": text,
    }  # fmt: skip


def _listed(section: str) -> Iterator[str]:
    """Names of a section "See Also": before the colon of lines that are not indented."""
    for line in section.splitlines():
        if line and not line[0].isspace():
            listed = re.split(r"\s:(?:\s|$)|:$", _ROLE.sub(r"\1", line))[0]
            for word in listed.replace("`", "").split(","):
                if match := _NAME.fullmatch(word.strip()):
                    yield match.group()


def _resolved(name: str, page: str, known: Mapping[str, str]) -> str | None:
    """Return the page that a name means on another page: as it stands, or in the page's module or package."""
    module = page.rpartition(".")[0]
    while module:
        if f"{module}.{name}" in known:
            return known[f"{module}.{name}"]
        module = module.rpartition(".")[0]
    return known.get(name) or known.get(name.replace("np.", "numpy.", 1)) or known.get(f"numpy.{name}")
