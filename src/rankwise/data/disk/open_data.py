"""Opening data larger than memory: a binary copy of the features is made once, and mapped from then on."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rankwise import check
from rankwise.data.disk import spill
from rankwise.data.disk.cache import mapped
from rankwise.data.disk.mapped import BLOCK, DiskDataset, Mapping
from rankwise.data.letor import reader as letor_reader
from rankwise.data.reading import format_of_data
from rankwise.data.tables import parquet


def open_data(path: str | Path, *, folder: str | Path | None = None, block: int = BLOCK, **options: Any) -> DiskDataset:
    r"""Open ranking data that need not fit into memory: Parquet, a file or a folder of them, or LETOR text.

    The first time the features are copied, a block at a time, into a binary file that is mapped from then on: beside
    the source, in ``.rankwise-cache``, or in ``folder``. It takes four bytes for each feature of each document.
    ``block`` is how many bytes, of text or of features, are in memory at once meanwhile; the copy does not depend on
    it. ``options`` are those of :func:`rankwise.read_parquet` or :func:`rankwise.read_letor`. LightGBMRanker and
    XGBoostRanker then train without ever having all features in memory; every other use works as well.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     _ = Path(here, "rows.txt").write_text("0 qid:1 1:0.5\n2 qid:1 1:0.25\n1 qid:2 1:1\n")
    ...     data = open_data(f"{here}/rows.txt")
    ...     print(data, data.features[:, 0])
    DiskDataset(2 queries, 3 documents, 1 feature, labels 0 to 2, features on disk) [0.5 0.25 1. ]
    """
    path = Path(path)
    if not path.is_dir():
        check.readable(path)
    if options.get("sort") or options.get("progress"):
        raise check.error("data that stay on disk cannot be sorted, nor show progress", hint="sort the file before")
    check.integer("block", block, least=1)
    options = {name: tuple(value) if isinstance(value, Iterator) else value for name, value in options.items()}
    kind = format_of_data(path)
    if kind == "csv":
        hint = "convert it: rankwise data convert rows.csv -o rows.parquet"
        raise check.error("data that stay on disk are Parquet or LETOR text", got=f"{path}, CSV", hint=hint)
    if kind == "parquet":
        write, files = partial(spill.parquet, block=block), parquet.parquet_files(path)
    else:
        write, files = partial(spill.letor, block=block), letor_reader.made_of(path, options.get("sizes"))
    data = mapped(path, write, files, None if folder is None else Path(folder), **options)
    file = Mapping.of(data.features)
    if file is not None:
        file.release()
    return DiskDataset(**vars(data))
