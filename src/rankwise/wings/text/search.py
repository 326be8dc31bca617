"""Search: candidates, features and scores in one, as training computed them; saved as one folder."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from rankwise import Ranker, check, load
from rankwise.base.arrays import Array, Floats
from rankwise.evaluation import Run, run_frame
from rankwise.models import storage
from rankwise.wings.text import documents, features
from rankwise.wings.text.documents import Documents
from rankwise.wings.text.result import SearchResult
from rankwise.wings.text.source import queries_of

if TYPE_CHECKING:
    import polars as pl

BM25 = "bm25"
_FORMAT = 1
"""Of the folder, and of the formulas of features: a search whose numbers would be others is not read."""
_AT_ONCE = 1_000
"""Queries whose features are in memory at once."""
_INDEX = re.compile(r"documents|run-\d+")


Retriever: TypeAlias = "Documents | Callable[[Mapping[str, str], int], Run] | Any"
"""What finds candidates: an object with ``search(queries, k)``, as :class:`Documents` has it, or a function of these.

``queries`` is a dictionary from ids to texts, and what is returned a run with ``k`` documents of each."""


class Search:
    """A trained ranker that answers words: it finds candidates, computes the features of its training, and ranks.

    ``pages`` are the documents, and ``model`` is a ranker trained on :func:`rankwise.text.dataset` of them, with the
    same ``runs`` and ``depth``: features are computed by the same code, and are the same to the bit. ``runs`` names
    retrievers, ``"bm25"`` is ``pages.search``; others are passed by name: ``{"bm25": pages, "engine": function}``,
    where ``function(queries, k)`` returns a run.

    >>> import rankwise as rw
    >>> texts = {f"{word}{n}": f"{word} " * n + "of an array" for word in ("mean", "median", "sum") for n in (1, 2, 3)}
    >>> pages = Documents(texts, fields=("text",))
    >>> queries = {word: f"{word} of array" for word in ("mean", "median", "sum")}
    >>> qrels = {word: {f"{word}3": 2, f"{word}2": 1} for word in queries}
    >>> data = rw.text.dataset(pages, queries, {"bm25": pages.search(queries)}, qrels, unjudged="irrelevant")
    >>> model = rw.LightGBMRanker("xendcg", rounds=5, leaves=3, min_documents=1, threads=1).fit(data)
    >>> search = Search(pages, model)
    >>> search("the median of array", k=2)
    rank  document   score  bm25  text
       1  median3   0.4661   1    median median median of an array
       2  median2   0.1160   2    median median of an array
    """

    def __init__(
        self,
        pages: Documents,
        model: Ranker,
        runs: Sequence[str] | Mapping[str, Retriever] = (BM25,),
        *,
        depth: int = 100,
    ) -> None:
        if not hasattr(model, "scorer"):
            hint = "pass a ranker that was trained on rw.text.dataset(…)"
            raise check.error("the model must be a trained ranker", got=type(model).__name__, hint=hint)
        self.pages, self.model, self.depth = pages, model, check.integer("depth", depth, least=1)
        self.runs = _by_name(pages, runs)
        self.scorer = model.scorer()
        self.features = _needed(pages, model, self.runs, self.depth)

    def __call__(self, query: str, k: int = 10) -> SearchResult:
        """Return the first ``k`` documents for the words of a query; more of the candidates can be explained."""
        check.integer("k", k, least=1)
        if not isinstance(query, str):
            raise check.error("a query must be a text", got=repr(query)[:80], hint="search.search takes several")
        chosen, matrix, scores = self._scored(["0"], [query])
        order = np.argsort(-scores, kind="stable")
        ranks = {name: one[order, -1].astype(np.int64) for name, one in chosen.runs.items()}
        return SearchResult(
            search=self, query=query, k=k, places=chosen.places[order], scores=scores[order], run_ranks=ranks,
            matrix=matrix[order],
        )  # fmt: skip

    def search(self, queries: Any, k: int = 100) -> "pl.DataFrame":
        """Return the first ``k`` documents of each query: a run, columns query, document and score."""
        import polars as pl

        check.integer("k", k, least=1)
        ids, texts = queries_of(queries)
        parts = []
        for first in range(0, max(len(ids), 1), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            chosen, _, scores = self._scored(ids[part], texts[part])
            query = np.repeat(np.arange(len(chosen.queries)), np.diff(chosen.offsets))
            order = np.lexsort((-scores, query))
            kept = order[np.arange(order.size) - chosen.offsets[query] < k]
            names = np.array(chosen.queries, np.object_)[query[kept]]
            columns = {"query": names, "document": self.pages.ids[chosen.places[kept]], "score": scores[kept]}
            parts.append(pl.DataFrame(columns, {"query": pl.String, "document": pl.String, "score": pl.Float64}))
        return pl.concat(parts)

    def _scored(self, ids: Sequence[str], texts: Sequence[str]) -> tuple[features.Candidates, Floats, Array]:
        """Return the candidates of queries, their features and their scores."""
        queries = dict(zip(ids, texts, strict=True))
        runs = {}
        for name, one in self.runs.items():
            found = one.search(queries, self.depth) if hasattr(one, "search") else one(queries, self.depth)
            with check.naming(f"the run {name}"):
                runs[name] = run_frame(found)
        chosen, matrix = features.table(self.pages, queries, runs, self.depth, self.features)
        return chosen, matrix, self.scorer(matrix, np.unique(chosen.offsets))  # without empty queries

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write documents, model and settings to a folder, whole or not at all; no pickle.

        Runs of other :class:`Documents` are written too; other retrievers are passed again when it is loaded.
        """
        numbered = enumerate(self.runs.items())
        kept = {name: f"run-{n}" for n, (name, one) in numbered if isinstance(one, Documents)}
        kept |= {name: "documents" for name, one in self.runs.items() if one is self.pages}

        def fill(new: Path) -> None:
            indexes = {kept[name]: one for name, one in self.runs.items() if name in kept} | {"documents": self.pages}
            for name, one in indexes.items():
                (new / name).mkdir()
                one.write_files(new / name)
            self.model.save(new / "model")

        described = {
            "kind": "search", "opened_by": "rw.text.Search.load", "search": _FORMAT, "depth": self.depth,
            "runs": {name: kept.get(name) for name in self.runs},
        }  # fmt: skip
        return storage.write(folder, described, {}, fill=fill, force=force)

    @classmethod
    def load(cls, folder: str | Path, *, runs: Mapping[str, Retriever] | None = None, verify: bool = True) -> Self:
        """Open a saved search; ``runs`` are the retrievers that its folder does not hold.

        Every byte is read and compared with its checksum. ``verify=False`` opens a folder of your own at once.
        """
        described = documents.described(folder, "search", "Search.save", verify=verify)
        folder, given = Path(folder), dict(runs or {})
        if described.get("search") != _FORMAT:
            got, hint = f"format {described.get('search')}, where this one reads {_FORMAT}", "save it with this version"
            raise check.error("the search was saved by another rankwise", got=got, where=str(folder), hint=hint)
        with storage.malformed_as_error(folder):
            places, depth = dict(described["runs"]), check.integer("depth", described["depth"], least=1)
            held = {name: one for name, one in places.items() if one is not None and _INDEX.fullmatch(one)}
        if missing := [name for name in places if name not in held | given]:
            passed = ", ".join(f"{name!r}: …" for name in missing)
            hint = f"pass what finds them: rw.text.Search.load(folder, runs={{{passed}}})"
            what = "the search has runs that its folder does not hold"
            raise check.error(what, got=", ".join(missing), where=str(folder), hint=hint)
        for name in given:
            check.choice("run", name, places)
        opened = {one: Documents.read_files(folder / one, verify=verify) for one in {*held.values(), "documents"}}
        retrievers = {name: given[name] if name in given else opened[held[name]] for name in places}
        return cls(opened["documents"], load(folder / "model"), retrievers, depth=depth)

    def __repr__(self) -> str:
        """Say what is searched, and how."""
        return f"Search({len(self.pages):,d} documents, runs {', '.join(self.runs)}, {self.model!r})"


def _by_name(pages: Documents, runs: Any) -> dict[str, Any]:
    """Return the retrievers by name."""
    if isinstance(runs, str) or not runs:
        raise check.error("runs must be several names", got=repr(runs), hint='write ("bm25",)')
    if not isinstance(runs, Mapping):
        otherwise = 'pass others by name: `runs={"bm25": pages, "engine": …}`'
        return {check.choice("run", name, [BM25], otherwise=otherwise): pages for name in runs}
    for name, one in runs.items():
        if not (hasattr(one, "search") or callable(one)):
            what = f"the run {name} must be what finds candidates of any query"
            hint = "pass documents, an object with search(queries, k), or a function of these"
            raise check.error(what, got=type(one).__name__, hint=hint)
    return dict(runs)


def _needed(pages: Documents, model: Any, runs: Mapping[str, Any], depth: int) -> tuple[str, ...]:
    """Return the features of a model, all of which can be computed here."""
    names, known = model.model_.schema.names, features.all_names(pages, list(runs))
    if names is None or model.model_.schema.categorical:
        got = "features without names" if names is None else "categorical features"
        hint = "train it on the data of rw.text.dataset"
        raise check.error("the model was not trained on features of texts", got=got, hint=hint)
    if unknown := [name for name in names if name not in known]:
        run = re.fullmatch(rf"(?:{'|'.join(features.OF_RUN)})\((.*)\)", unknown[0])
        hint = "index the documents with the fields and columns of the training data"
        if run is not None:
            hint = f"`pass the run of the training data: runs={{…, {run[1]!r}: …}}|save it in Python: rw.text.Search`"
        got = f"{unknown[0]}{f' and {len(unknown) - 1} more' * (len(unknown) > 1)}"
        raise check.error("the model has features that the search cannot compute", got=got, hint=hint)
    features.check_origin(pages, model)
    trained_on = model.trained_on_
    lists, most = trained_on.get("documents", 0) / max(trained_on.get("queries", 1), 1), depth * len(runs)
    if lists > most:
        got, hint = f"{lists:.4g} a query, where depth={depth} gives at most {most}", "`pass depth=…|use --depth N`"
        raise check.error("the model was trained on longer lists of candidates", got=got, hint=hint)
    return tuple(names)
