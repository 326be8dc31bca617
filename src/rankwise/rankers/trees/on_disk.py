"""How the libraries read features that stay on disk: LightGBM by a Sequence of rows, XGBoost by an iterator of blocks.

Both keep a byte or two for each number: LightGBM in memory, XGBoost in a file of its own, which is removed again.
The borders of bins come from a sample of documents, so that nothing has to be sorted in full.
"""

import contextlib
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from rankwise import caches, check
from rankwise.arrays import Array, Floats, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.data.disk.mapped import DiskDataset, MappedRows, rows_at_once

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


def lightgbm_dataset(file: MappedRows, label: Array, **about: Any) -> Any:
    """Build a LightGBM data set from features on disk; ``about`` is what ``lightgbm.Dataset`` takes beside."""
    import lightgbm

    class Rows(lightgbm.Sequence):
        """Single rows, for the sample of which bins are made, and blocks."""

        batch_size = rows_at_once(file.shape[1])

        def __len__(self) -> int:
            return file.shape[0]

        def __getitem__(self, index: Any) -> Any:
            if isinstance(index, slice):
                return file.read(index.start, index.stop)
            return file.read(index, index + 1)[0].astype(np.float64)  # the type that LightGBM wants for its sample

    class Streamed(lightgbm.Dataset):
        """A data set that can be told the scores of a model that is continued: LightGBM itself wants an array."""

        def _set_init_score_by_predictor(self, predictor: Any, data: Any, used_indices: Any) -> Any:
            if predictor is None or not isinstance(data, Rows):
                return super()._set_init_score_by_predictor(predictor, data, used_indices)
            starts = range(0, len(data), data.batch_size)
            parts = (data[start : min(start + data.batch_size, len(data))] for start in starts)
            self.set_init_score(np.concatenate([predictor.predict(part, raw_score=True) for part in parts]))
            return self

    return Streamed(Rows(), label, **about)


def xgboost_matrix(file: MappedRows, columns: Keywords, *, bins: int | None, binned: bool) -> Any:
    """Build an XGBoost matrix, of bins or of numbers, whose pages lie in a file of its own."""
    import xgboost

    about = dict(columns)
    threads, categorical = about.pop("nthread"), about.pop("enable_categorical")
    sizes, weights = about.pop("group"), about.pop("weight")
    label = about.pop("label")
    step = rows_at_once(file.shape[1])

    class Blocks(xgboost.DataIter):
        """All features, a block at a time."""

        at = 0

        def reset(self) -> None:
            self.at = 0

        def next(self, input_data: Any) -> bool:
            if self.at == file.shape[0]:
                return False
            first, self.at = self.at, min(self.at + step, file.shape[0])
            input_data(data=file.read(first, self.at), **about)
            return True

    shared = {"nthread": threads, "enable_categorical": categorical}
    matrix: Any
    with contextlib.ExitStack() as made:  # removed at once if something fails
        iterator = Blocks(cache_prefix=str(_scratch(Path(file.path).parent, made) / "pages"))
        if binned:
            sample = xgboost.QuantileDMatrix(_sample(file), max_bin=bins, **about, **shared)
            matrix = xgboost.ExtMemQuantileDMatrix(iterator, max_bin=bins, ref=sample, **shared)
        else:
            matrix = xgboost.DMatrix(iterator, **shared)
        matrix.set_info(label=label, group=sizes, weight=weights)
        weakref.finalize(matrix, made.pop_all().close)
    return matrix


def _scratch(beside: Path, made: contextlib.ExitStack) -> Path:
    """Make a folder for XGBoost's pages, on the disk of the features if it can be written; ``made`` removes it.

    XGBoost cannot open a path that is not ASCII, so such a folder is reached through a link elsewhere.
    """
    try:
        place = tempfile.TemporaryDirectory(prefix="rankwise-", dir=beside, ignore_cleanup_errors=True)
    except OSError:  # a copy that somebody else made
        place = tempfile.TemporaryDirectory(prefix="rankwise-", dir=caches.scratch(), ignore_cleanup_errors=True)
    folder = Path(made.enter_context(place))
    if str(folder).isascii():
        return folder
    elsewhere = Path(made.enter_context(tempfile.TemporaryDirectory(prefix="rankwise-")))
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
    """Take documents at even distances; all of them where there are few."""
    rows = file.shape[0]
    if rows <= _SAMPLE:
        return file.read(0, rows)
    return np.concatenate([file.read(at, at + 1) for at in np.linspace(0, rows - 1, _SAMPLE, dtype=np.int64).tolist()])
