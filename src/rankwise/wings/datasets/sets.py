"""The public data sets by name: facts, files, source and terms of each.

This is the one table: :func:`rankwise.load_dataset` reads by it, and the documentation and the command line print it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankwise import check
from rankwise.base.tables import Table
from rankwise.wings.datasets.archive import Archive

PARTS = ("train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class CatalogEntry:
    """One data set: facts for people, and where its files lie.

    ``folders`` are alternatives below the data folder, ``files`` alternatives below one of those; case and a ``.gz``
    or ``.zst`` at the end do not matter. ``{fold}`` stands for the number of the fold.
    """

    name: str
    title: str
    files: Mapping[str, tuple[str, ...]]
    folders: tuple[str, ...] = (".",)
    folds: int = 0
    """How many folds there are; 0 for one fixed split."""
    format: str = "letor"
    """``letor``, ``csv``, ``parquet`` or ``ratings``; or ``made``, by what a wing registers under the name."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """For tables: which columns hold the query, the label …, as ``RankingDataset.from_frame`` has it."""
    first_index: int | str = 1
    """For LETOR text: the index of the first feature, 0, 1 or ``auto``."""
    n_features: int | None = None
    n_queries: int | None = None
    n_docs: int | None = None
    """Documents, or ratings, as published."""
    grades: str = ""
    aliases: tuple[str, ...] = ()
    source: str = ""
    """Where to get it, in words."""
    terms: str = ""
    citation: str = ""
    note: str = ""
    archive: Archive | None = None
    """What may be downloaded without a form; None: fetch it by hand from ``source``."""


_LETOR_PAGE = "Microsoft Research, project page 'LETOR: Learning to Rank for Information Retrieval'"
_MSLR_PAGE = (
    "Microsoft Research, project page 'Microsoft Learning to Rank Datasets' (microsoft.com/research/project/mslr)"
)
_ISTELLA_PAGE = "istella.ai, page 'Istella LETOR dataset', after accepting its licence agreement"
_GROUPLENS_PAGE = "GroupLens, page 'MovieLens' (grouplens.org/datasets/movielens)"

_RESEARCH = "for research; read the terms on the distributor's page"
_ISTELLA = "non-commercial use only, under the Istella LETOR licence agreement"
_GROUPLENS = "research use; no commercial use without permission; acknowledge GroupLens (see the set's README)"

_QIN_LIU = "T. Qin and T.-Y. Liu. Introducing LETOR 4.0 Datasets. arXiv:1306.2597, 2013"
_QIN_LETOR = "T. Qin, T.-Y. Liu, J. Xu and H. Li. LETOR: A Benchmark Collection. Information Retrieval 13(4), 2010"
_CHAPELLE = "O. Chapelle and Y. Chang. Yahoo! Learning to Rank Challenge Overview. JMLR W&CP 14, 2011"
_DATO_2016 = "D. Dato et al. Fast Ranking with Additive Ensembles of Regression Trees. ACM TOIS 35(2), 2016"
_LUCCHESE = "C. Lucchese et al. Post-Learning Optimization of Tree Ensembles for Efficient Ranking. SIGIR 2016"
_DATO_2022 = "D. Dato et al. The Istella22 Dataset. SIGIR 2022"
_HARPER = "F. M. Harper and J. A. Konstan. The MovieLens Datasets: History and Context. ACM TiiS 5(4), 2015"

_FOLDS = {
    part: (f"Fold{{fold}}/{file}.txt",) for part, file in (("train", "train"), ("valid", "vali"), ("test", "test"))
}
_SPLIT = {"train": ("train.txt",), "valid": ("vali.txt", "valid.txt"), "test": ("test.txt",)}


# The checksums are those that TensorFlow Datasets and pytorchltr (MSLR), and TensorFlow Datasets and others
# (MovieLens), publish for these archives. A distributor who changes an archive makes the download stop, not go wrong.
_SHA256 = {
    "10k": "2902142ea33f18c59414f654212de5063033b707d5c3939556124b1120d3a0ba",
    "30k": "08cb7977e1d5cbdeb57a9a2537a0923dbca6d46a76db9a6afc69e043c85341ae",
    "latest-small": "696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
    "100k": "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
    "1m": "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
}


def _mslr(size: str, share: str, n_bytes: int, **counts: Any) -> CatalogEntry:
    title = f"MSLR-WEB{size.upper()}"
    url = f"https://api.onedrive.com/v1.0/shares/s!AtsMfWUz5l8n{share}/root/content"
    return CatalogEntry(
        name=f"mslr-web{size}",
        title=title,
        aliases=(f"mslr{size}", f"web{size}"),
        folders=(title, f"MSLR{size.upper()}"),
        files=_FOLDS,
        folds=5,
        n_features=136,
        grades="0 to 4",
        source=_MSLR_PAGE,
        terms=_RESEARCH,
        citation=_QIN_LIU,
        archive=Archive(url=url, sha256=_SHA256[size], size=n_bytes, folder=title),
        **counts,
    )


def _million_query(year: int, **counts: Any) -> CatalogEntry:
    return CatalogEntry(
        name=f"mq{year}",
        title=f"LETOR 4.0 MQ{year}, supervised ranking",
        folders=(f"MQ{year}", f"LETOR4.0/MQ{year}", f"MQ{year}/QueryLevelNorm"),
        files=_FOLDS,
        folds=5,
        n_features=46,
        grades="0 to 2",
        source=f"{_LETOR_PAGE}, LETOR 4.0, MQ{year}.rar",
        terms=_RESEARCH,
        citation=_QIN_LIU,
        **counts,
    )


def _yahoo(number: int, n_used: int, **counts: Any) -> CatalogEntry:
    return CatalogEntry(
        name=f"yahoo-set{number}",
        title=f"Yahoo! Learning to Rank Challenge, set {number}",
        aliases=(f"yahoo{number}", f"yahoo-ltrc-set{number}", f"ltrc-set{number}"),
        folders=("ltrc_yahoo", "yahoo-ltrc", "yahoo", "C14", f"yahoo-set{number}"),
        files={part: (f"set{number}.{part}.txt",) for part in PARTS},
        n_features=700,
        grades="0 to 4",
        source="Yahoo Webscope, data set C14, on request (a form)",
        terms="on request, for academic research; not to be passed on",
        citation=_CHAPELLE,
        note=f"{n_used} of the 700 features occur in this set; the others are 0",
        **counts,
    )


def _movielens(size: str, file: str, n_bytes: int | None = None, *, note: str = "", **counts: Any) -> CatalogEntry:
    folder = f"ml-{size}"
    url = f"https://files.grouplens.org/datasets/movielens/{folder}.zip"
    return CatalogEntry(
        name=f"movielens-{size}",
        title=f"MovieLens {size}",
        aliases=(folder,),
        folders=(folder, f"movielens-{size}"),
        files={"ratings": (file,)},
        format="ratings",
        grades="0.5 to 5 in halves" if size == "latest-small" else "1 to 5",
        source=_GROUPLENS_PAGE,
        terms=_GROUPLENS,
        citation=_HARPER,
        archive=Archive(url=url, sha256=_SHA256[size], size=n_bytes, folder=folder),
        note=note,
        **counts,
    )


ENTRIES: tuple[CatalogEntry, ...] = (
    _mslr("10k", "bOIoJ6Ks0bEMp78", 1_234_144_912, n_queries=10_000, n_docs=1_200_192),
    _mslr("30k", "bXGPBlwD1rnFdBY", 3_849_406_307, n_queries=31_531, n_docs=3_771_125),
    _yahoo(1, n_used=519, n_queries=29_921, n_docs=709_877),
    _yahoo(2, n_used=596, n_queries=6_330, n_docs=172_870),
    CatalogEntry(
        name="istella",
        title="Istella LETOR, full",
        aliases=("istella-full", "istella-letor"),
        folders=("istella-letor/full", "istella/full", "istella-letor", "istella", "full"),
        files={part: _SPLIT[part] for part in ("train", "test")},
        n_features=220,
        n_queries=33_018,
        n_docs=10_454_629,
        grades="0 to 4",
        source=_ISTELLA_PAGE,
        terms=_ISTELLA,
        citation=_DATO_2016,
        note="no validation part: take it off train with rw.split",
    ),
    CatalogEntry(
        name="istella-s",
        title="Istella-S LETOR",
        aliases=("istella-sample",),
        folders=("istella-s-letor/sample", "istella-s/sample", "istella-s-letor", "istella-s", "sample"),
        files=_SPLIT,
        n_features=220,
        n_queries=33_018,
        n_docs=3_408_630,
        grades="0 to 4",
        source=_ISTELLA_PAGE,
        terms=_ISTELLA,
        citation=_LUCCHESE,
    ),
    CatalogEntry(
        name="istella22",
        title="Istella22, learning-to-rank features",
        folders=("istella22", "istella22-letor", "istella22/letor"),
        files={
            "train": ("train.svm", "train.txt"),
            "valid": ("valid.svm", "vali.svm", "valid.txt", "vali.txt"),
            "test": ("test.svm", "test.txt"),
        },
        n_features=220,
        grades="0 to 4",
        source="istella.ai, page 'Istella22 dataset', on request (a form)",
        terms=_ISTELLA,
        citation=_DATO_2022,
    ),
    _million_query(2007, n_queries=1_692, n_docs=69_623),
    _million_query(2008, n_queries=784, n_docs=15_211),
    CatalogEntry(
        name="ohsumed",
        title="LETOR 3.0 OHSUMED",
        folders=(
            *(f"{top}/{kind}" for kind in ("QueryLevelNorm", "Feature-min") for top in ("OHSUMED", "OHSUMED/OHSUMED")),
            *("OHSUMED", "LETOR3.0/OHSUMED/QueryLevelNorm"),
        ),
        files={
            "train": ("Fold{fold}/trainingset.txt", "Fold{fold}/train.txt"),
            "valid": ("Fold{fold}/validationset.txt", "Fold{fold}/vali.txt"),
            "test": ("Fold{fold}/testset.txt", "Fold{fold}/test.txt"),
        },
        folds=5,
        n_features=45,
        n_queries=106,
        n_docs=16_140,
        grades="0 to 2",
        source=f"{_LETOR_PAGE}, LETOR 3.0, OHSUMED",
        terms=_RESEARCH,
        citation=_QIN_LETOR,
        note="the query-normalised version is taken where both lie there",
    ),
    _movielens(
        "latest-small",
        "ratings.csv",
        n_queries=610,
        n_docs=100_836,
        note="GroupLens may replace this archive; the checksum is that of the release of September 2018",
    ),
    _movielens("100k", "u.data", 4_924_029, n_queries=943, n_docs=100_000),
    _movielens("1m", "ratings.dat", n_queries=6_040, n_docs=1_000_209),
    CatalogEntry(
        name="numpy-scipy",
        title="Documentation of NumPy and SciPy",
        files=dict.fromkeys(PARTS, ()),
        format="made",
        n_features=72,
        grades="0, 1",
        source="docstrings of the installed NumPy and SciPy: rw.text.numpy_scipy()",
        terms="BSD-3-Clause",
        citation="C. R. Harris et al. Array programming with NumPy. Nature 585, 2020; P. Virtanen et al. SciPy 1.0. "
        "Nature Methods 17, 2020",
        note="made on this machine; numbers depend on the installed versions",
    ),
)


class Catalog(tuple[CatalogEntry, ...]):
    """Entries that print as a table."""

    __slots__ = ()

    def table(self) -> Table:
        """Return a table with a row for each."""
        rows = []
        for entry in self:
            counts = ("" if one is None else f"{one:,}" for one in (entry.n_queries, entry.n_docs, entry.n_features))
            download = "-" if entry.format == "made" else "yes" if entry.archive else "by hand"
            rows.append((entry.name, *counts, entry.grades, str(entry.folds or "-"), download))
        header = ("name", "queries", "documents", "features", "labels", "folds", "download")
        return Table(header=header, rows=tuple(rows), align="lrrrlrl")

    def __repr__(self) -> str:
        return self.table().text()


def datasets() -> Catalog:
    """Return the data sets of :func:`rankwise.load_dataset`, which print as a table.

    For MovieLens, users stand in the column of queries and ratings in that of documents.

    >>> print(*(entry.name for entry in datasets()))
    mslr-web10k mslr-web30k yahoo-set1 yahoo-set2 istella istella-s istella22 mq2007 mq2008 ohsumed
    movielens-latest-small movielens-100k movielens-1m numpy-scipy
    """
    return Catalog(ENTRIES)


def entry(name: str) -> CatalogEntry:
    """Return the data set of a name or alias; case, spaces, ``-`` and ``_`` do not matter.

    >>> entry("MSLR WEB10K").title
    'MSLR-WEB10K'
    >>> entry("mq2009")
    Traceback (most recent call last):
    rankwise.errors.InputError: unknown data set: got 'mq2009'. Hint: did you mean 'mq2008', of those ...
    """
    match = _BY_NAME.get(_plain(name))
    if match is not None:
        return match
    similar = check.suggestion(name.lower(), (one.name for one in ENTRIES)).rstrip("?")
    raise check.error(
        "unknown data set",
        got=repr(name),
        hint=f"{similar}, of those that 'rankwise data list' lists; a file of yours has an ending, or / in its name",
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_BY_NAME = {_plain(word): one for one in ENTRIES for word in (one.name, *one.aliases)}
