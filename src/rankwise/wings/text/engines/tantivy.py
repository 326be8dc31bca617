"""Tantivy: an engine in the process, for collections larger than memory."""

from pathlib import Path
from typing import Any, ClassVar, Unpack

from rankwise import check
from rankwise.models import storage
from rankwise.wings.text.documents import Documents
from rankwise.wings.text.engines.engine import Engine, Hits, Ids, Opening, about, batches, quoted

_HEAP = 200_000_000


class Tantivy(Engine):
    """An index of Tantivy in a folder, whose ids are a stored field.

    Scores are BM25 with k₁ 1.2 and b 0.75, the sum over fields. Lengths from 40 words on are rounded; N and the mean
    length count documents without the field. Needs ``pip install 'rankwise[text]'``.

    >>> import tempfile, rankwise as rw
    >>> pages = rw.text.Documents({"mean": "mean of an array", "sum": "sum of it"}, fields=("text",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     engine = Tantivy.index(pages, f"{folder}/pages")
    ...     engine.search(["the mean"])["document"].to_list()
    ['mean']
    """

    name = "Tantivy"
    hints: ClassVar = {
        "open the directory": "check the path; Tantivy.index(documents, folder) makes it",
        "incompatible": "index the documents again with this version of tantivy, or install that which made the index",
    }

    def __init__(self, folder: str | Path, **opening: Unpack[Opening]) -> None:
        tantivy: Any = check.optional("tantivy", "text")
        self._tantivy, self._index = tantivy, self.ask(folder, tantivy.Index.open, str(folder))
        described = storage.read(folder)[0] if (Path(folder) / storage.DESCRIPTION).exists() else {}
        super().__init__(folder, described.get("engine", {}), **opening)

    @classmethod
    def index(
        cls, documents: Documents, folder: str | Path, *, force: bool = False, progress: bool | None = None
    ) -> "Tantivy":
        """Make a folder with the words of documents, whole or not at all."""
        tantivy: Any = check.optional("tantivy", "text")

        def fill(new: Path) -> None:
            schema = tantivy.SchemaBuilder().add_text_field("id", stored=True, tokenizer_name="raw")
            for field in documents.fields:
                schema.add_text_field(field, tokenizer_name="whitespace")
            with tantivy.Index(schema.build(), str(new)).writer(_HEAP, 1) as writer:
                for rows in batches(documents, progress, cls.name):
                    for row in rows:
                        writer.add_document(tantivy.Document(**dict(zip(("id", *documents.fields), row, strict=True))))

        described = {"kind": "engine", "opened_by": "rw.text.engines.Tantivy", "engine": about(documents)}
        storage.write(folder, described, {}, fill=lambda new: cls.ask(folder, fill, new), force=force)
        return cls(folder)

    def _hits(self, query: list[str], fields: tuple[str, ...], k: int, among: Ids) -> Hits:
        make, should, must = self._tantivy.Query, self._tantivy.Occur.Should, self._tantivy.Occur.Must
        index, searcher = self._index, self._index.searcher()
        if self.analyzer is None:
            asked = index.parse_query(" ".join(map(quoted, query)), list(fields))
        else:
            terms = [make.term_query(index.schema, field, word) for field in fields for word in query]
            asked = make.boolean_query([(should, term) for term in terms])
        if among is not None:
            chosen = make.const_score_query(make.term_set_query(index.schema, self.id, among), 0.0)
            asked = make.boolean_query([(must, asked), (must, chosen)])
        found = searcher.search(asked, min(k, max(searcher.num_docs, 1)), count=False).hits
        return [(self._stored(searcher.doc(address).get_first(self.id)), score) for score, address in found]
