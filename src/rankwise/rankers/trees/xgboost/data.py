"""XGBoost's matrices: of numbers or of bins, from memory, from disk, and of sparse features.

Features on disk are read a block at a time, and XGBoost keeps a byte or two for each number in a file of its own, which
is removed again. The borders of bins come from a sample of documents, so that nothing has to be sorted in full. For a
GPU the blocks are copied there, the borders come from all documents, and the bins stay in the memory of the GPU, of the
host, or in part of each.

To XGBoost, what a sparse matrix does not store is missing, and a split sends it to the side that suits it; here it is
zero, in training and in prediction, for every ranker alike. So bins of all numbers are made.
"""

import contextlib
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankwise import check
from rankwise.base import caches
from rankwise.base.arrays import Floats, Keywords
from rankwise.base.sparse import Matrix, dense, is_sparse
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.disk.mapped import MappedRows, blocks
from rankwise.models.forests.xgboost import xgboost
from rankwise.rankers.trees.protocol import Settings, on_disk

if TYPE_CHECKING:
    from xgboost import DMatrix

_MOST = 2**31  # numbers of a sparse matrix with its zeros
_SAMPLE = 1 << 16  # documents that bins are made from
_GPU_BLOCK = 1 << 28  # bytes of features that are on a GPU at once while bins are made
CACHE_PARAMETERS = ("cache_host_ratio", "min_cache_page_bytes")
"""Of a matrix for a GPU that is made from data on disk: where its bins are, and in what pages they travel."""


def gpu(settings: Settings) -> str | None:
    """Return the GPU of ``device="cuda"``, where XGBoost is built for one."""
    name = str(settings.native.get("device", "cpu")).replace("gpu", "cuda", 1)
    return name if name.startswith("cuda") and xgboost().build_info()["USE_CUDA"] else None


class XGBoostMatrices(NamedTuple):
    """The data as XGBoost holds them."""

    data: RankingDataset
    train: "DMatrix"
    held_out: "list[DMatrix]"


def matrices(
    settings: Settings,
    train: RankingDataset,
    held_out: Sequence[RankingDataset],
    seed: int,  # noqa: ARG001 (nothing is drawn)
) -> XGBoostMatrices:
    """Build XGBoost's own data once; nothing is drawn: bins are of all documents, or of some at even distances."""
    return XGBoostMatrices(train, binned_matrix(settings, train), [raw_matrix(settings, data) for data in held_out])


def raw_matrix(settings: Settings, data: RankingDataset) -> "DMatrix":
    """Build a matrix of numbers."""
    file, columns = on_disk(data), _LibraryColumns.of(settings, data)
    if file is not None:
        return _on_disk(data, file, columns, bins=None, binned=False)
    _check_size(data.features)
    matrix: DMatrix = xgboost().DMatrix(dense(data.features), **columns.blocks, **columns.matrix, **columns.queries)
    return matrix


def binned_matrix(settings: Settings, data: RankingDataset) -> "DMatrix":
    """Build a matrix of bins: a byte for each number, where a raw one takes eight and makes the same bins beside."""
    binned = settings.native.get("tree_method", "hist") in ("hist", "auto")
    bins, file, columns = settings.native.get("max_bin"), on_disk(data), _LibraryColumns.of(settings, data)
    device, cache = gpu(settings), {name: settings.native.get(name) for name in CACHE_PARAMETERS}
    if binned and file is not None and device is not None:
        return _on_gpu(data, device, columns, bins=bins, **cache)
    if any(value is not None for value in cache.values()):
        what = "cache_host_ratio and min_cache_page_bytes are for features on disk and trees on a GPU"
        raise check.error(what, hint="`set device='cuda'` and pass data of rw.open_data, or leave them out")
    if not binned:
        return raw_matrix(settings, data)
    if file is not None:
        return _on_disk(data, file, columns, bins=bins, binned=True)
    matrix: DMatrix
    if not data.is_sparse:
        options = columns.blocks | columns.matrix | columns.queries
        matrix = xgboost().QuantileDMatrix(data.features, max_bin=bins, **options)
        return matrix
    _check_size(data.features)
    rows = _iterator(data, columns, release_data=True)
    matrix = xgboost().QuantileDMatrix(rows, max_bin=bins, **columns.matrix)
    matrix.set_info(**columns.queries)
    return matrix


class _LibraryColumns(NamedTuple):
    """What XGBoost is told beside the features: with each block, for the matrix, and about queries at the end."""

    blocks: Keywords
    matrix: Keywords
    queries: Keywords

    @classmethod
    def of(cls, settings: Settings, data: RankingDataset) -> "_LibraryColumns":
        """Columns of a data set; labels and weights for XGBoost's own objectives alone."""
        names, builtin = data.feature_names, settings.builtin is not None
        # XGBoost's text of a tree could not be read with other names.
        legible = names is not None and not any(set(name) & set("[]<\n") for name in names)
        types = ["c" if column in data.categorical else "q" for column in range(data.n_features)]
        return cls(
            {
                "feature_names": list(names or ()) if legible else None,
                "feature_types": types if data.categorical else None,
            },
            {"enable_categorical": True, "nthread": settings.threads},
            {
                "label": data.labels if builtin else None,
                "group": data.sizes,
                "weight": data.weights if builtin else None,
            },
        )


def _on_disk(
    data: RankingDataset, file: MappedRows, columns: _LibraryColumns, *, bins: int | None, binned: bool
) -> "DMatrix":
    """Build a matrix, of bins or of numbers, whose pages lie in a file of its own."""
    matrix: DMatrix
    with contextlib.ExitStack() as scratch:  # removed at once if something fails
        pages = str(_scratch(Path(file.path).parent, scratch) / "pages")
        rows = _iterator(data, columns, cache_prefix=pages)
        if binned:
            sample = xgboost().QuantileDMatrix(_sample(file), max_bin=bins, **columns.blocks, **columns.matrix)
            matrix = xgboost().ExtMemQuantileDMatrix(rows, max_bin=bins, ref=sample, **columns.matrix)
        else:
            matrix = xgboost().DMatrix(rows, **columns.matrix)
        matrix.set_info(**columns.queries)
        weakref.finalize(matrix, scratch.pop_all().close)
    return matrix


def _on_gpu(
    data: RankingDataset,
    device: str,
    columns: _LibraryColumns,
    *,
    bins: int | None,
    cache_host_ratio: float | None,
    min_cache_page_bytes: int | None,
) -> "DMatrix":
    """Build a matrix of bins for a GPU; as much of it stays there as fits, or the rest of ``cache_host_ratio``."""
    torch = check.optional("torch", "torch")
    rows = _iterator(data, columns, device, min_cache_page_bytes=min_cache_page_bytes)
    ratio = {} if cache_host_ratio is None else {"cache_host_ratio": cache_host_ratio}  # from XGBoost 3.1 on
    matrix: DMatrix = xgboost().ExtMemQuantileDMatrix(rows, max_bin=bins, **ratio, **columns.matrix)
    matrix.set_info(**columns.queries)
    torch.cuda.empty_cache()  # memory of blocks, which torch would keep
    return matrix


def _check_size(features: Matrix) -> None:
    numbers = features.shape[0] * features.shape[1]
    if is_sparse(features) and numbers > _MOST:
        raise check.error(
            "XGBoost takes the zeros of a sparse matrix for missing values, and with them there are too many numbers",
            got=f"{features.shape[0]:,} documents × {features.shape[1]:,} features",
            hint="use LightGBMRanker or CatBoostRanker, which leave zeros out of memory, or fewer features",
        )


def _iterator(data: RankingDataset, columns: _LibraryColumns, device: str | None = None, **options: Any) -> Any:
    """Return XGBoost's iterator over all rows, a block at a time, on a device if one is named."""

    class Blocks(xgboost().DataIter):  # type: ignore[misc]
        """Blocks of rows."""

        def __init__(self) -> None:
            super().__init__(**options)
            self.reset()

        def reset(self) -> None:
            self.rows, self.block = blocks(data.features, None if device is None else _GPU_BLOCK), None

        def next(self, input_data: Any) -> bool:
            block = next(self.rows, None)
            if block is not None and device is None:
                input_data(data=block, **columns.blocks)
            elif block is not None:
                self.block = _copied(block, device)
                self.proxy._ref_data_from_cuda_interface(self.block)  # input_data would need CuPy for it
                self.proxy.set_info(**columns.blocks)
            return block is not None

    return Blocks()


def _copied(block: Floats, device: str | None) -> Any:
    """Copy rows to a device, and wait: XGBoost reads them on another stream."""
    import torch

    tensor = torch.from_numpy(block).to(device)
    torch.cuda.synchronize(device)
    return tensor


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
