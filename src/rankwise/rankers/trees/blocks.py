"""How the libraries read features a block at a time: from disk, and sparse ones as dense rows.

LightGBM reads features on disk by a Sequence of rows, XGBoost by an iterator of blocks. Both keep a byte or two for
each number: LightGBM in memory, XGBoost in a file of its own, which is removed again. The borders of bins come from a
sample of documents, so that nothing has to be sorted in full.

To XGBoost, what a sparse matrix does not store is missing, and a split sends it to the side that suits it; here it is
zero, in training and in prediction, for every ranker alike. So bins of all numbers are made.
"""

import contextlib
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rankwise import caches, check
from rankwise.arrays import Array, Floats, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.data.disk.mapped import DiskDataset, MappedRows, blocks, rows_at_once
from rankwise.sparse import Matrix, dense, is_sparse

_MOST = 2**31  # numbers of a sparse matrix with its zeros
_SAMPLE = 1 << 16  # documents that XGBoost's bins are made from
_LIGHTGBM_SAMPLE = (50_000, 200_000)  # at least and at most; the last is LightGBM's own number
_SHARE = 20  # one document of so many is in LightGBM's sample, of which it makes several copies
_QUIET_SHARE, _QUIET_SAMPLE = 5, 100_000  # LightGBM warns of a sample below both


def on_disk(data: RankingDataset) -> MappedRows | None:
    """Where the features lie, if they are to stay there."""
    return MappedRows.of(data.features) if isinstance(data, DiskDataset) else None


def lightgbm_sample(n_docs: int) -> int:
    """How many documents LightGBM's bins are made from: few, but as many as it takes without a warning.

    >>> [lightgbm_sample(n_docs) for n_docs in (1_000, 300_000, 1_000_000, 3_000_000, 10_000_000)]
    [50000, 60001, 100000, 150000, 200000]
    """
    least, most = _LIGHTGBM_SAMPLE
    quiet = min(n_docs // _QUIET_SHARE + 1, _QUIET_SAMPLE)
    return int(np.clip(max(n_docs // _SHARE, quiet), least, most))


def lightgbm_dataset(file: MappedRows, label: Array, **options: Any) -> Any:
    """Build a LightGBM data set from features on disk; ``options`` are those of ``lightgbm.Dataset``."""
    import lightgbm

    class BlockRows(lightgbm.Sequence):
        """Single rows, for the sample of which bins are made, and blocks."""

        batch_size = rows_at_once(file.shape[1])

        def __len__(self) -> int:
            return file.shape[0]

        def __getitem__(self, index: Any) -> Any:
            if isinstance(index, slice):
                return file.read(index.start, index.stop)
            return file.read(index, index + 1)[0].astype(np.float64)  # the type that LightGBM wants for its sample

    class Streamed(lightgbm.Dataset):
        """A data set with initial scores of the model that is continued: LightGBM itself needs an array."""

        def _set_init_score_by_predictor(self, predictor: Any, data: Any, used_indices: Any) -> Any:
            if predictor is None or not isinstance(data, BlockRows):
                return super()._set_init_score_by_predictor(predictor, data, used_indices)
            starts = range(0, len(data), data.batch_size)
            parts = (data[start : min(start + data.batch_size, len(data))] for start in starts)
            self.set_init_score(np.concatenate([predictor.predict(part, raw_score=True) for part in parts]))
            return self

    return Streamed(BlockRows(), label, **options)


def xgboost_matrix(file: MappedRows, columns: Keywords, *, bins: int | None, binned: bool) -> Any:
    """Build an XGBoost matrix, of bins or of numbers, whose pages lie in a file of its own."""
    import xgboost

    columns, of_matrix, of_queries = _divided(columns)
    step = rows_at_once(file.shape[1])

    def rows() -> Iterator[Floats]:
        return (file.read(at, min(at + step, file.shape[0])) for at in range(0, file.shape[0], step))

    matrix: Any
    with contextlib.ExitStack() as scratch:  # removed at once if something fails
        pages = str(_scratch(Path(file.path).parent, scratch) / "pages")
        iterator = _iterator(rows, columns, cache_prefix=pages)
        if binned:
            sample = xgboost.QuantileDMatrix(_sample(file), max_bin=bins, **columns, **of_matrix)
            matrix = xgboost.ExtMemQuantileDMatrix(iterator, max_bin=bins, ref=sample, **of_matrix)
        else:
            matrix = xgboost.DMatrix(iterator, **of_matrix)
        matrix.set_info(**of_queries)
        weakref.finalize(matrix, scratch.pop_all().close)
    return matrix


def binned_sparse(features: Matrix, columns: Keywords, bins: int | None) -> Any:
    """Build XGBoost's matrix of bins from a sparse matrix; ``columns`` is what it has beside the features."""
    import xgboost

    _check_size(features)
    columns, of_matrix, of_queries = _divided(columns)
    iterator = _iterator(lambda: blocks(features), columns, release_data=True)
    matrix = xgboost.QuantileDMatrix(iterator, max_bin=bins, **of_matrix)
    matrix.set_info(**of_queries)
    return matrix


def dense_matrix(features: object) -> Floats:
    """Return all numbers of a matrix; an error if there are absurdly many."""
    _check_size(features)
    return dense(features)


def _check_size(features: Matrix) -> None:
    numbers = features.shape[0] * features.shape[1]
    if is_sparse(features) and numbers > _MOST:
        raise check.error(
            "XGBoost takes the zeros of a sparse matrix for missing values, and with them there are too many numbers",
            got=f"{features.shape[0]:,} documents × {features.shape[1]:,} features",
            hint="use LightGBMRanker or CatBoostRanker, which leave zeros out of memory, or fewer features",
        )


def _divided(columns: Keywords) -> tuple[Keywords, Keywords, Keywords]:
    """What XGBoost is told with each block, for the whole matrix, and about queries at the end."""
    of_matrix, of_queries = ("nthread", "enable_categorical"), ("label", "group", "weight")
    return (
        {name: value for name, value in columns.items() if name not in of_matrix + of_queries},
        {name: columns[name] for name in of_matrix},
        {name: columns[name] for name in of_queries},
    )


def _iterator(rows: Callable[[], Iterator[Floats]], columns: Keywords, **options: Any) -> Any:
    """Return XGBoost's iterator over all rows, a block at a time."""
    import xgboost

    class Blocks(xgboost.DataIter):
        """Blocks of rows."""

        def __init__(self) -> None:
            super().__init__(**options)
            self.reset()

        def reset(self) -> None:
            self.rows = rows()

        def next(self, input_data: Any) -> bool:
            block = next(self.rows, None)
            if block is not None:
                input_data(data=block, **columns)
            return block is not None

    return Blocks()


def _scratch(beside: Path, stack: contextlib.ExitStack) -> Path:
    """Make a folder for XGBoost's pages, on the disk of the features if it can be written; ``stack`` removes it.

    XGBoost cannot open a path that is not ASCII, so such a folder is reached through a link elsewhere.
    """
    try:
        place = tempfile.TemporaryDirectory(prefix="rankwise-", dir=beside, ignore_cleanup_errors=True)
    except OSError:  # a copy that somebody else made
        place = tempfile.TemporaryDirectory(prefix="rankwise-", dir=caches.scratch(), ignore_cleanup_errors=True)
    folder = Path(stack.enter_context(place))
    if str(folder).isascii():
        return folder
    elsewhere = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rankwise-")))
    if not str(elsewhere).isascii():
        raise check.error(
            "XGBoost reads features from disk through an ASCII path alone",
            got=f"the temporary folder {elsewhere.parent}",
            hint="set the environment variable TMPDIR to a folder whose path is ASCII",
        )
    link = elsewhere / "pages"
    link.symlink_to(folder.resolve(), target_is_directory=True)
    return link


def _sample(file: MappedRows) -> Floats:
    """Read documents at even distances; all of them where there are few."""
    rows = file.shape[0]
    if rows <= _SAMPLE:
        return file.read(0, rows)
    return np.concatenate([file.read(at, at + 1) for at in np.linspace(0, rows - 1, _SAMPLE, dtype=np.int64).tolist()])
