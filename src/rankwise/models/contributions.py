"""What each feature adds to each document's score: the numbers, and all that is needed to read them."""

from dataclasses import dataclass

from rankwise.base.arrays import Array, Floats
from rankwise.models.schema import Schema


@dataclass(frozen=True, kw_only=True, eq=False)
class Contributions:
    """Contributions of features to scores, as a model computes them."""

    parts: Array
    """(n_docs, n_features + 1); the last column is the start, the same for every document. Rows add up to scores."""
    left: Array
    """(n_docs,) what the method itself left over of a score, and was shared out among the features in ``parts``."""
    method: str
    """How they were found, for people."""
    start: str
    """What contributions start from, for people."""
    features: Floats
    """(n_docs, n_features) values, in the order and with the codes of training."""
    schema: Schema
    """Names and categories of the columns."""
