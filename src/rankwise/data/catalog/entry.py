"""What is known of one data set."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankwise.data.catalog.download import Archive

PARTS = ("train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class Entry:
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
    """``letor``, ``csv``, ``parquet`` or ``ratings``."""
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
