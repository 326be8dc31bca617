"""Data files of any format, chosen by the name."""

from pathlib import Path
from typing import Any

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.data.letor import text as letor
from rankwise.data.tables import parquet

_TEXT = (".txt", ".letor", ".svm", ".svmlight", ".libsvm", ".dat", ".train", ".vali", ".test")
_PARQUET = (".parquet", ".pq")
_COMPRESSED = (".gz", ".zst")


def read_data(path: str | Path, **options: Any) -> RankingDataset:
    """Read ranking data: Parquet from a ``.parquet`` file or a folder of them, LETOR text from anything else.

    ``options`` go to :func:`rankwise.read_parquet` or :func:`rankwise.read_letor`.
    """
    path = Path(path)
    return parquet.read_parquet(path, **options) if is_parquet(path) else letor.read_letor(path, **options)


def is_parquet(path: Path) -> bool:
    """Tell Parquet, a file or a folder of them, from LETOR text."""
    return path.suffix.lower() in _PARQUET or path.is_dir()


def write_data(data: RankingDataset, path: str | Path, *, force: bool = False) -> Path:
    """Write ranking data in the format that the name asks for: ``.parquet``, ``.txt``, ``.txt.gz``, ``.svm.zst`` ….

    >>> write_data(None, "ranking.csv")
    Traceback (most recent call last):
    ValueError: cannot tell the format of a data file from its name: got 'ranking.csv'. Hint: end it in .parquet, or for
    LETOR text in .txt, .letor or .svm, with .gz or .zst after it to compress.
    """
    path = Path(path)
    if format_of(path) == "parquet":
        return parquet.write_parquet(data, path, force=force)
    return letor.write_letor(data, path, force=force)


def format_of(path: Path) -> str:
    """Tell by its name which format a data file is to have: ``parquet`` or ``letor``."""
    plain = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    if path.suffix.lower() in _PARQUET:
        return "parquet"
    if plain.suffix.lower() in _TEXT:
        return "letor"
    raise check.error(
        "cannot tell the format of a data file from its name",
        got=repr(path.name),
        hint="end it in .parquet, or for LETOR text in .txt, .letor or .svm, with .gz or .zst after it to compress",
    )
