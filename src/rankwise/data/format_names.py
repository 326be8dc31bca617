"""Formats of data files by the endings of their names."""

from pathlib import Path

FORMATS = ("letor", "csv", "parquet")
TEXT = (".txt", ".letor", ".svm", ".svmlight", ".libsvm", ".dat", ".train", ".vali", ".test")
TABLES = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet"}
_COMPRESSED = (".gz", ".zst")


def ending(path: Path) -> str:
    """The ending of a name, before one that tells how the file is compressed."""
    plain = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    return plain.suffix.lower()


def by_name(path: Path) -> str:
    """Tell the format by the name: LETOR text, unless the ending is that of a table.

    >>> by_name(Path("train.csv.gz")), by_name(Path("train.parquet")), by_name(Path("train.txt"))
    ('csv', 'parquet', 'letor')
    """
    return TABLES.get(ending(path), "letor")


def is_known(path: Path) -> bool:
    """Whether the ending tells the format."""
    return ending(path) in TEXT or ending(path) in TABLES
