"""Checks of labels, lists and the order of rows; the scale by which orders are judged."""

from collections.abc import Iterator

import numpy as np

from rankwise.base.arrays import Array
from rankwise.base.tables import count
from rankwise.data.dataset import RankingDataset
from rankwise.metrics.base import weighted_mean
from rankwise.metrics.dcg import NDCG
from rankwise.quality.findings import DataFinding

FEWEST = 20
"""Queries from which on an order is compared with the labels: in fewer they may agree by chance."""
SUSPECT, LEAK = 0.8, 0.95
"""From which :meth:`NdcgRange.lift` on an order is close to that of the labels, or the same."""
_HIGHEST = 31  # the highest label for which LightGBM has a gain
_HIGHEST_MEAN = 5  # of labels that are not whole: means of grades are hardly higher, amounts are
_FLOOR = 0.85  # NDCG of random order from which on rankers cannot be told apart
_NOTED = 0.2  # lift of the order of rows
_MOST_SINGLE, _MOST_EMPTY = 0.5, 0.9  # of all queries; few clicks leave most queries without a relevant document


class NdcgRange:
    """NDCG@10 of orders of documents, between that of random order and the best."""

    def __init__(self, data: RankingDataset) -> None:
        self.data = data
        self.metric = NDCG(cutoff=10, gain="linear" if data.labels.max() > _HIGHEST else "exponential")
        values = self.values(np.zeros(data.n_docs))  # the mean over all orders, since all documents are tied
        self.random = weighted_mean(values, data.weights) if (values >= 0).any() else np.nan
        self.deciding = int((values < 1 - 1e-9).sum())  # queries in which the order matters

    def values(self, scores: Array) -> Array:
        """Return NDCG@10 of each query; NaN without relevant documents."""
        return self.metric.of(scores, self.data)

    def ndcg(self, scores: Array) -> float:
        """Return the mean NDCG@10 of documents in the order of scores."""
        return weighted_mean(self.values(scores), self.data.weights)

    def lift(self, value: float) -> float:
        """Return where a value lies: 0 is random order, 1 the best.

        >>> scale = NdcgRange(RankingDataset([[0.0], [0.0]], [0, 1], [0, 2]))
        >>> round(scale.random, 4), scale.lift(1.0), round(scale.lift(scale.ndcg(np.array([1.0, 0.0]))), 4)
        (0.8155, 1.0, -1.0)
        """
        return (value - self.random) / (1.0 - self.random) if self.random < 1.0 else 0.0


def labels(data: RankingDataset, part: str) -> Iterator[DataFinding]:
    """Iterate over findings on labels: one grade, all positive, too high."""
    low, high = float(data.labels.min()), float(data.labels.max())
    if low == high:
        sentence = f"All {count(data.n_docs, 'document')} have the label {low:g}: no order is better than another."
        yield DataFinding("error", "one grade", sentence, part, data.n_docs, "see which column holds the labels")
    elif low > 0:
        sentence = f"No document has label 0 (labels are {low:g} to {high:g}): every order has a high NDCG."
        hint = f"add documents that are not relevant, or subtract {low:g} from all labels"
        yield DataFinding("warning", "all positive", sentence, part, data.n_docs, hint)
    yield from _amounts(data, part, None)
    for name, column in (data.more_labels or {}).items():
        if np.ptp(column) == 0.0:
            sentence = f"All {count(data.n_docs, 'document')} have the label {column[0]:g} of {name}."
            hint = "nothing can be learned or measured by it; see which column holds it"
            yield DataFinding("warning", "one grade", sentence, part, data.n_docs, hint)
        yield from _amounts(data, part, name)


def _amounts(data: RankingDataset, part: str, name: str | None) -> Iterator[DataFinding]:
    """Iterate over findings on labels that are no grades: too high, or not whole, as money is."""
    column, of = data.labels_of(name), "" if name is None else f" of {name}"
    high, integers = float(column.max()), (column == np.floor(column)).all()
    if high > _HIGHEST:
        number, what = int((column > _HIGHEST).sum()), f"above {_HIGHEST}, up to {high:g}"
    elif not integers and high > _HIGHEST_MEAN:
        number, what = int((column != np.floor(column)).sum()), f"not whole, up to {high:g}, as amounts are"
    else:
        return
    sentence = f"{count(number, 'label')}{of} {what}: gains of 2^y − 1 are for grades."
    losses = [loss if name is None else f"on({name}, {loss})" for loss in ("lambdarank(gain=linear)", "softmax_ce")]
    metric = "ndcg(gain=linear)@10" if name is None else f"ndcg(gain=linear, label={name})@10"
    hint = f"train {losses[0]} or {losses[1]}, and measure {metric}; or map labels to a few grades"
    yield DataFinding("warning", "high labels", sentence, part, number, hint, label=name)


def lists(data: RankingDataset, part: str) -> Iterator[DataFinding]:
    """Iterate over findings on lists of one document, and on lists without a relevant one."""
    empty = np.maximum.reduceat(data.labels, data.offsets[:-1]) <= 0
    for what, queries, most, hint in (
        ("one document", data.sizes == 1, _MOST_SINGLE, "there is nothing to order; see what query ids are"),
        ("no relevant document", empty, _MOST_EMPTY, "metrics skip them; judge more of their documents"),
    ):
        if number := int(queries.sum()):
            share = number / data.n_queries
            sentence = f"{number:,} of {count(data.n_queries, 'query', 'queries')} ({share:.1%}) with {what}."
            yield DataFinding("warning" if share > most else "note", what, sentence, part, number, hint)


def order(scale: NdcgRange, part: str) -> Iterator[DataFinding]:
    """Iterate over findings on NDCG of random order, and of the order of rows."""
    if not scale.deciding:
        return
    poor = scale.random >= _FLOOR
    sentence = f"Random order has NDCG@10 {scale.random:.3f}{': rankers hardly differ.' if poor else '.'}"
    hint = "judge more documents that are not relevant, or measure at a smaller cutoff" if poor else ""
    yield DataFinding("warning" if poor else "note", "random order", sentence, part, scale.random, hint)
    rows = np.arange(scale.data.n_docs, dtype=np.float64)
    for scores, what in ((-rows, "The order of rows"), (rows, "The order of rows from last to first")):
        value = scale.ndcg(scores)
        if scale.deciding >= FEWEST and scale.lift(value) >= _NOTED:
            sorted_ = scale.lift(value) >= SUSPECT
            sentence = f"{what} has NDCG@10 {value:.3f}{': rows are sorted by label.' if sorted_ else '.'}"
            hint = "where ties are broken by row, equal scores have this value: shuffle the rows of each query"
            yield DataFinding("warning" if sorted_ else "note", "order of rows", sentence, part, value, hint)
