"""LightGBM's data sets, from memory and from disk.

Features on disk are read by a Sequence of rows; LightGBM keeps a byte or two for each number. The borders of bins come
from a sample of documents, so that nothing has to be sorted in full.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array, Keywords
from rankwise.base.sparse import for_library
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.disk.mapped import MappedRows, rows_at_once
from rankwise.models.forests.library_errors import without_lines
from rankwise.models.forests.lightgbm import FATAL, lightgbm
from rankwise.rankers.trees.lightgbm.model import LightGBMMatrices
from rankwise.rankers.trees.protocol import Settings, on_disk

if TYPE_CHECKING:
    from lightgbm import Dataset

NETWORK = ("num_machines", "machines", "local_listen_port", "time_out", "tree_learner", "pre_partition")
POSITION_BIAS = "lambdarank_position_bias_regularization"
_LABEL_GAINS = 31  # of LightGBM itself: 2^label - 1 as long as that fits into an int
_SAMPLE = (50_000, 200_000)  # at least and at most; the last is LightGBM's own number
_SHARE = 20  # one document of so many is in the sample, of which LightGBM makes several copies
_CHECKED, _MOST_CHECKED = 8, 1000  # rows, and features at most, with which parameters are checked
_NAME = re.compile(r"[\w.+/()-]+")  # that LightGBM's file can hold: it splits at spaces, and JSON must escape others
_SURE = 2**16  # LightGBM takes our own parameters up to this
_QUIET_SHARE, _QUIET_SAMPLE = 5, 100_000  # LightGBM warns of a sample below both


def training_parameters(settings: Settings, seed: int) -> Keywords:
    """Return what LightGBM is trained with."""
    parameters = {"verbosity": -1, **settings.native}
    if not {"force_col_wise", "force_row_wise"} & parameters.keys():
        # Otherwise LightGBM times both and takes the faster, and the last bits depend on the clock.
        parameters["force_col_wise"] = True
    return parameters | {
        "objective": "none" if settings.builtin is None else settings.builtin,
        "metric": "None",
        "learning_rate": settings.learning_rate,
        "num_leaves": settings.leaves,
        "min_data_in_leaf": settings.min_documents,
        "num_threads": settings.threads,
        "seed": seed,
    }


def matrices(
    settings: Settings, train: RankingDataset, held_out: Sequence[RankingDataset], seed: int
) -> LightGBMMatrices:
    """Build LightGBM's own data once; LightGBM derives ``data_random_seed``, of its sample for bins, from the seed."""
    parameters = training_parameters(settings, seed)
    if settings.native or max(settings.leaves, settings.min_documents, seed) > _SURE:
        _check_parameters(parameters, train.n_features)
    if settings.builtin is not None:
        _check_labels(settings, train)
    if on_disk(train) is not None:
        parameters.setdefault("bin_construct_sample_cnt", sample_size(train.n_docs))
    names = train.feature_names or ("",)  # LightGBM itself names features where there are no names
    dataset = _dataset(
        train,
        train.labels,
        group=train.sizes,
        weight=_row_weights(train) if settings.builtin is not None else None,
        position=_positions(train) if POSITION_BIAS in parameters else None,
        feature_name=list(names) if all(map(_NAME.fullmatch, names)) else "auto",
        categorical_feature=list(train.categorical),
        params=parameters,
        free_raw_data=False,
    )
    options: Keywords = {"reference": dataset, "params": parameters, "free_raw_data": False}
    return LightGBMMatrices(dataset, [_dataset(data, data.labels, group=data.sizes, **options) for data in held_out])


def _dataset(data: RankingDataset, label: Array, **options: Any) -> "Dataset":
    file = on_disk(data)
    if file is not None:
        return _dataset_on_disk(file, label, **options)
    dataset: Dataset = lightgbm().Dataset(for_library(data.features), label, **options)
    return dataset


def sample_size(n_docs: int) -> int:
    """How many documents LightGBM's bins are made from: few, but as many as it takes without a warning.

    >>> [sample_size(n_docs) for n_docs in (1_000, 300_000, 1_000_000, 3_000_000, 10_000_000)]
    [50000, 60001, 100000, 150000, 200000]
    """
    least, most = _SAMPLE
    quiet = min(n_docs // _QUIET_SHARE + 1, _QUIET_SAMPLE)
    return int(np.clip(max(n_docs // _SHARE, quiet), least, most))


def _dataset_on_disk(file: MappedRows, label: Array, **options: Any) -> "Dataset":
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

    dataset: Dataset = Streamed(BlockRows(), label, **options)
    return dataset


def _check_parameters(parameters: Keywords, n_features: int) -> None:
    """Raise what LightGBM rejects of its parameters, with a booster of a few rows: later it would also write lines."""
    allowed = re.findall(r"\d+", str(parameters.get("interaction_constraints", "")))
    if beyond := [number for number in map(int, allowed) if number >= n_features]:  # it would write beyond its memory
        what = "interaction_constraints name features by their numbers from 0"
        raise check.error(what, got=f"{beyond[0]} for {n_features} features")
    others = NETWORK if NETWORK[0] in parameters else ()  # machines, which it would ask
    alone = {name: value for name, value in parameters.items() if name not in others}
    alone = {"min_data_in_bin": 1, **alone, "verbosity": -1, "feature_pre_filter": False}
    few_features = 0 < n_features <= _MOST_CHECKED
    rows = np.tile(np.arange(_CHECKED, dtype=np.float32)[:, None], n_features if few_features else 1)
    library = lightgbm()
    with without_lines(FATAL):
        few = library.Dataset(rows, np.zeros(_CHECKED), group=[_CHECKED], params=alone).construct()
        if few_features:
            try:
                library.Booster(alone, few)
            except library.basic.LightGBMError as failed:
                if "num_features" not in str(failed):  # of rows so few that nothing can be split
                    raise


def _check_labels(settings: Settings, data: RankingDataset) -> None:
    """Raise unless labels are grades, as LightGBM's own objectives need them."""
    integral, what = data.labels == np.floor(data.labels), ""
    gains: Any = settings.native.get("label_gain")
    most = _LABEL_GAINS if gains is None else len(gains.split(",") if isinstance(gains, str) else gains)
    if not integral.all():
        row, what = int(np.argmin(integral)), f"native:{settings.builtin} needs whole labels"
        hint = "use our own objective, which takes real ones, or round the labels"
    elif settings.builtin == "lambdarank" and data.labels.max(initial=0.0) >= most:
        row, what = int(np.argmax(data.labels)), f"native:lambdarank needs labels below {most}, the number of its gains"
        hint = "set label_gain to a gain for each label, or use our own objective"
    if what:
        where = check.query_of_row(row, data.offsets, data.query_ids)
        raise check.error(what, got=f"{data.labels[row]:g}", where=where, hint=hint)


def _row_weights(data: RankingDataset) -> Array | None:
    """Weights as LightGBM's own objectives take them: of rows."""
    by_query = None if data.weights is None else np.repeat(data.weights, data.sizes)
    if by_query is None or data.document_weights is None:
        return data.document_weights if by_query is None else by_query
    return by_query * data.document_weights


def _positions(data: RankingDataset) -> NDArray[np.int64]:
    """Displayed positions, which make LightGBM's lambdarank learn a bias of each."""
    if data.positions is None:
        hint = "use click data that has them, as 'rankwise data clicks' makes` (rw.clicks.simulate_clicks)|`"
        raise check.error(f"{POSITION_BIAS} needs displayed positions", got="data without positions", hint=hint)
    return data.positions
