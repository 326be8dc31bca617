"""The documentation of NumPy and SciPy as a data set: real text on every machine, collected from what is installed.

A page is a public function or class with its docstring. A query is a page too: its name and its first sentence.
Relevant are the pages that its authors listed under "See Also", which no page's text contains.
"""

import importlib
import importlib.util
import inspect
import json
import re
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import polars as pl

from rankwise import RankingDataset, check, split
from rankwise.base import caches, files
from rankwise.base import progress as bars
from rankwise.data.io import Parts
from rankwise.wings.text.analyzer import Analyzer
from rankwise.wings.text.dataset import dataset
from rankwise.wings.text.documents import Documents

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
_DRAWN = re.compile(r"(?m)^.*# may vary$")
_SET = re.compile(r"(?<=\{)'\w+'(?:, '\w+')+(?=\})")
"""With :data:`_DRAWN` what SciPy writes otherwise in each process."""
_SIGNATURE = re.compile(r"[\w.]*\(")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
DEPTH = 50
"""Candidates of a query from each of the two retrievers."""
_Kept = tuple[list[dict[str, str]], dict[str, dict[str, int]]]
"""Pages, and their links."""


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

    def index(self) -> Documents:
        """Return the pages as documents."""
        return Documents(self.documents, fields=FIELDS, progress=False)

    def names(self) -> Documents:
        """Return the names of the pages as documents, of which three letters in a row are a word."""
        names = self.documents.select("id", "name")
        return Documents(names, fields=("name",), analyzer=Analyzer(ngrams=3), progress=False)

    def runs(self, index: Documents) -> dict[str, pl.DataFrame]:
        """Return the candidates of each query, among the other pages: by the words of all fields, and by names."""
        found = {"bm25": index, "names": self.names()}
        runs = {name: where.search(self.queries, DEPTH + 1) for name, where in found.items()}
        others = {name: run.filter(pl.col("query") != pl.col("document")) for name, run in runs.items()}
        return {name: run.group_by("query", maintain_order=True).head(DEPTH) for name, run in others.items()}

    def dataset(self) -> RankingDataset:
        """Return the candidates with their features; what is not linked is not relevant."""
        index = self.index()
        return dataset(index, self.queries, self.runs(index), self.qrels, unjudged="irrelevant")

    def __repr__(self) -> str:
        """Say what there is, and of which versions."""
        links = sum(map(len, self.qrels.values()))
        of = " and ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"Pages({self.documents.height:,d} pages, {len(self.queries):,d} queries, {links:,d} links, {of})"


def numpy_scipy(*, cache: bool = True, progress: bool | None = None) -> Pages:
    """Return the pages, the queries with at least one link, and their links.

    They are collected once for each version of the two packages, in a few seconds, and kept in the cache folder.
    """
    versions = {name: importlib.import_module(name).__version__ for name in _MODULES}
    folder = caches.folder() if cache else None
    own = Path(__file__)  # not there in an application that was frozen
    stamp = "-".join([*versions.values(), f"{zlib.crc32(own.read_bytes() if own.exists() else b''):08x}"])
    path = None if folder is None else folder / f"numpy-scipy-{stamp}.json"
    kept = None if path is None else _kept(path)
    if kept is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that are deprecated, which looking at them gives
            kept = _collected(progress)
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with files.replacing(path, force=True) as new:
                    new.write_text(json.dumps(kept), encoding="utf-8")
            except OSError as failed:
                caches.warn_no_cache(f"the pages cannot be kept ({failed.strerror or failed})")
    rows, qrels = kept
    summaries = {row["id"]: row["summary"] for row in rows}
    return Pages(pl.DataFrame(rows), {name: f"{name} {summaries[name]}" for name in qrels}, qrels, versions)


def parts() -> Parts:
    """Return the data set of the pages in three parts, by query: what ``load_dataset("numpy-scipy")`` loads."""
    train, valid, test = split(numpy_scipy().dataset(), (0.6, 0.2, 0.2), seed=0)
    return Parts(train, valid, test)


def _kept(path: Path) -> _Kept | None:
    """Read pages from the cache; None where there are none, or they are damaged."""
    try:
        rows, qrels = json.loads(path.read_text(encoding="utf-8"))
        if {*rows[0]} == {"id", *FIELDS} and qrels.keys() <= {row["id"] for row in rows}:
            return rows, qrels
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        pass
    return None


def _collected(progress: bool | None) -> _Kept:
    found, names = dict[str, str](), dict[str, str]()
    modules = [f"{package}.{inner}".rstrip(".") for package, inside in _MODULES.items() for inner in inside]
    # All of them first: scipy.special adds to numpy.sinc's docstring. Older versions lack some.
    rooms = {name: importlib.import_module(name) for name in modules if importlib.util.find_spec(name)}
    if not inspect.getdoc(rooms["numpy"].median):
        hint = "run Python without -OO and PYTHONOPTIMIZE=2, once: what is collected is kept"
        raise check.error("there are no docstrings", got="functions that were stripped of them", hint=hint)
    with bars.bar(progress, len(rooms), "documentation") as update:
        for number, (module, room) in enumerate(rooms.items()):
            for name, doc in _public(module, room):
                names[name] = doc
                found[doc] = min(found.get(doc, name), name, key=_rank)
            if update:
                update(number + 1, module)
    pages = {name: _sections(doc) for doc, name in found.items()}
    known = {alias: found[doc] for alias, doc in names.items()}
    rows = [_page(name, sections) for name, sections in sorted(pages.items())]
    qrels = {}
    for name, sections in sorted(pages.items()):
        links = {page for one in _listed(sections.get("See Also", "")) if (page := _resolved(one, name, known))}
        if links - {name}:
            qrels[name] = dict.fromkeys(sorted(links - {name}), 1)
    return rows, qrels


def _public(module: str, room: ModuleType) -> Iterator[tuple[str, str]]:
    for name in getattr(room, "__all__", None) or [one for one in dir(room) if not one.startswith("_")]:
        value = getattr(room, name, None)
        if (inspect.isclass(value) or callable(value)) and (doc := (inspect.getdoc(value) or "").strip()):
            yield f"{module}.{name}", _SET.sub(lambda one: ", ".join(sorted(one[0].split(", "))), _DRAWN.sub("", doc))


def _rank(name: str) -> tuple[int, int, str]:
    """Of names of one docstring, as numpy.sin and numpy.ma.sin, that with fewest dots, then the shortest, is taken."""
    return name.count("."), len(name), name


def _sections(doc: str) -> dict[str, str]:
    """Return the sections of a docstring by heading; "" is what comes before the first."""
    pieces = _HEADING.split(doc)
    return {"": pieces[0], **{pieces[i].strip(): pieces[i + 1] for i in range(1, len(pieces), 2)}}


def _page(name: str, sections: Mapping[str, str]) -> dict[str, str]:
    module, _, last = name.rpartition(".")
    paragraphs = [one for one in re.split(r"\n\s*\n", sections[""].strip()) if one]
    while len(paragraphs) > 1 and _SIGNATURE.match(paragraphs[0]):  # functions written in C begin with one or two
        paragraphs = paragraphs[1:]
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
