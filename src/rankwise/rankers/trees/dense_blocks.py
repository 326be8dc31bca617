"""How XGBoost reads sparse features: as dense rows, a block at a time.

To XGBoost, what a sparse matrix does not store is missing, and a split sends it to the side that suits it; here it is
zero, in training and in prediction, for every ranker alike. So bins of all numbers are made, one or two bytes for each.
"""

from typing import Any

from rankwise import check
from rankwise.arrays import Floats, Keywords
from rankwise.data.disk.mapped import blocks
from rankwise.sparse import Matrix, dense, is_sparse

_MOST = 2**31  # numbers


def dense_matrix(features: object) -> Floats:
    """Give all numbers of a matrix, unless that is absurd."""
    _check_size(features)
    return dense(features)


def binned(features: Matrix, columns: Keywords, bins: int | None) -> Any:
    """Build XGBoost's matrix of bins; ``columns`` is what it takes beside the features."""
    import xgboost

    _check_size(features)
    about = dict(columns)
    label, sizes, weights = (about.pop(name) for name in ("label", "group", "weight"))
    shared = {name: about.pop(name) for name in ("nthread", "enable_categorical")}

    class Blocks(xgboost.DataIter):
        """All rows, a block at a time."""

        def __init__(self) -> None:
            super().__init__(release_data=True)
            self.reset()

        def reset(self) -> None:
            self.blocks = blocks(features)

        def next(self, input_data: Any) -> bool:
            rows = next(self.blocks, None)
            if rows is None:
                return False
            input_data(data=rows, **about)
            return True

    matrix = xgboost.QuantileDMatrix(Blocks(), max_bin=bins, **shared)
    matrix.set_info(label=label, group=sizes, weight=weights)
    return matrix


def _check_size(features: Matrix) -> None:
    numbers = features.shape[0] * features.shape[1]
    if is_sparse(features) and numbers > _MOST:
        raise check.error(
            "XGBoost takes the zeros of a sparse matrix for missing values, and with them there are too many numbers",
            got=f"{features.shape[0]:,} documents × {features.shape[1]:,} features",
            hint="use LightGBMRanker or CatBoostRanker, which leave zeros out of memory, or fewer features",
        )
