"""What engines share: queries in, runs and scores out, and errors that name the engine and say what to do."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypedDict, TypeVar

from rankwise import check
from rankwise.base import progress as bars
from rankwise.base.arrays import Json
from rankwise.data import io
from rankwise.evaluation import Run, run_frame
from rankwise.models import is_frame
from rankwise.wings.text.analyzer import Analyzer
from rankwise.wings.text.documents import Documents
from rankwise.wings.text.source import queries_of

if TYPE_CHECKING:
    import polars as pl

Hits: TypeAlias = Iterable[tuple[Any, float]]
Ids: TypeAlias = list[str] | None
Result = TypeVar("Result")
_FORMAT, _BATCH, _SHOWN = 1, 5_000, 300
_RUNS = Analyzer(split=False).raw


class Opening(TypedDict, total=False):
    """What :class:`Engine` takes about an index that was made elsewhere."""

    fields: Sequence[str] | None
    id: str
    analyzer: Analyzer | None


class Engine:
    """Documents in an engine, found and scored by it: made by ``index`` from documents, or opened on what exists.

    Of an index that was made elsewhere, name the ``fields`` to search, and ``id``, where ids of documents are if not in
    ``"id"``. ``analyzer`` makes words of queries; where it is None, and ``index`` has kept none, the engine does.
    """

    name: ClassVar[str]
    modules: ClassVar[tuple[str, ...]] = ()
    """Where its errors are defined; OSError and ValueError are always its own."""
    hints: ClassVar[Mapping[str, str]] = {}
    """What an error of the engine says, in lower case -> what to do; otherwise :attr:`again` is."""
    again: ClassVar[str] = "index the documents again, or name its id and fields: id=…, fields=(…)"

    def __init__(
        self,
        where: object,
        described: Json,
        /,
        *,
        fields: Sequence[str] | None = None,
        id: str = "id",  # noqa: A002 (as in Documents)
        analyzer: Analyzer | None = None,
    ) -> None:
        """Take what :func:`about` wrote, and what the user says."""
        self.where, self.id, self.fields = str(where), id, tuple(fields or described.get("fields", ()))
        if not self.fields or described.get("format", _FORMAT) != _FORMAT:
            got = f"format {described['format']}" if self.fields else "an index that does not name its fields"
            what = f"{self.name} needs an index of this version"
            raise check.error(what, got=got, where=check.shown(self.where), hint=self.again)
        self.analyzer = analyzer or (Analyzer(**described["analyzer"]) if "analyzer" in described else None)

    @property
    def scored(self) -> tuple[str, ...]:
        """What :meth:`scores` has a column for."""
        return self.fields

    def __repr__(self) -> str:
        """Name engine, place and fields; nothing secret."""
        return f"{self.name}({check.shown(self.where)}, fields {', '.join(self.fields)})"

    def search(self, queries: Any, k: int = 100, *, progress: bool | None = None) -> "pl.DataFrame":
        """Return the first ``k`` documents of each query: a run, columns query, document and score."""
        check.integer("k", k, least=1)
        names, texts = queries_of(queries)
        return self._run(names, [(one, self.fields, k, None) for one in self._prepared(texts)], "score", progress)

    def scores(self, queries: Any, pairs: Run, *, progress: bool | None = None) -> "pl.DataFrame":
        """Return the scores of pairs of a query and a document: a column ``score(field)`` for each field.

        ``pairs`` is a run, or a table with columns query and document. A field with no word of the query scores 0.
        """
        if is_frame(pairs):  # scores are not looked at
            pairs = io.as_polars(pairs)[0].select("query", "document", score=0.0).collect()
        found = run_frame(pairs).select("query", "document")
        texts = dict(zip(*queries_of(queries), strict=True))
        wanted = {one: part["document"].to_list() for (one,), part in found.group_by("query", maintain_order=True)}
        if unknown := wanted.keys() - texts.keys():
            raise check.error("a query of the pairs is not among the queries", got=repr(min(unknown)))
        prepared = self._prepared([texts[name] for name in wanted])
        for field in self.scored:
            asked = [(one, (field,), len(ids), ids) for one, ids in zip(prepared, wanted.values(), strict=True)]
            column = self._run(list(wanted), asked, f"score({field})", progress)
            found = found.join(column, on=["query", "document"], how="left", maintain_order="left")
        return found.fill_null(0.0)

    def _run(self, names: list[str], asked: list[Any], score: str, progress: bool | None) -> "pl.DataFrame":
        import polars as pl

        parts = [pl.DataFrame(schema={"query": pl.String, "document": pl.String, score: pl.Float64})]
        with bars.bar(progress, len(asked), self.name) as update:
            for number, (name, one) in enumerate(zip(names, asked, strict=True), 1):
                hits = list(self.ask(self.where, self._hits, *one)) if len(one[0]) else []
                rows = {"query": [name] * len(hits), "document": [str(hit[0]) for hit in hits]}
                parts.append(pl.DataFrame(rows | {score: [hit[1] for hit in hits]}, schema=parts[0].schema))
                if update:
                    update(number, f"{self.name}: {number:,d} of {len(asked):,d} queries")
        return pl.concat(parts)

    def _prepared(self, texts: Sequence[str]) -> Sequence[Any]:
        """Return what :meth:`_hits` gets of each query, its words; where there are none, it is not called."""
        return [(self.analyzer or _RUNS)(text) for text in texts]

    def _hits(self, query: Any, fields: tuple[str, ...], k: int, among: Ids) -> Hits:
        """Return the first ``k`` documents of a query in these fields, ``among`` these ids or all, with scores."""
        raise NotImplementedError

    def _stored(self, name: str | None) -> str:
        """Return the id of a document as it was stored."""
        if name is None:
            raise ValueError(f"documents without the stored field {self.id}")
        return name

    @classmethod
    def ask(cls, where: object, call: Callable[..., Result], *arguments: Any) -> Result:
        """Call something of the engine's; its errors become ours, without a trace, which could hold a password."""
        try:
            return call(*arguments)
        except Exception as failed:
            its = isinstance(failed, OSError | ValueError) or type(failed).__module__.partition(".")[0] in cls.modules
            if isinstance(failed, check.InputError) or not its:
                raise
            got = " ".join(str(failed).split())[:_SHOWN] or type(failed).__name__
        hint = next((hint for part, hint in cls.hints.items() if part in got.lower()), cls.again)
        raise check.error(f"{cls.name} failed", got=check.shown(got), where=check.shown(str(where)), hint=hint)


def about(documents: Documents) -> Json:
    """Describe an index: what searching it needs to know."""
    analyzer = dataclasses.asdict(documents.analyzer)
    return {"format": _FORMAT, "fields": list(documents.fields), "analyzer": analyzer}


def batches(documents: Documents, progress: bool | None, name: str) -> Iterator[list[tuple[str, ...]]]:
    """Yield the id of documents and the words of each of their fields, some thousands at a time."""
    words, n_fields = list(documents.words), len(documents.fields)
    tokens, bounds = documents.arrays["tokens"], documents.arrays["bounds"]
    with bars.bar(progress, len(documents), name) as update:
        for first in range(0, len(documents), _BATCH):
            ids = documents.ids[first : first + _BATCH].tolist()
            cuts = bounds[first * n_fields : (first + len(ids)) * n_fields + 1].tolist()
            flat = [words[number] for number in tokens[cuts[0] : cuts[-1]].tolist()]
            texts = [" ".join(flat[a - cuts[0] : b - cuts[0]]) for a, b in itertools.pairwise(cuts)]
            yield [(one, *texts[row * n_fields : (row + 1) * n_fields]) for row, one in enumerate(ids)]
            if update:
                update(first + len(ids), f"{name}: {first + len(ids):,d} documents")


def quoted(name: str) -> str:
    """Quote a name or a word as SQL, and query languages like it, do.

    >>> print(quoted('3" pipe'))
    "3"" pipe"
    """
    return '"' + name.replace('"', '""') + '"'
