"""Checks of columns with one number for each document."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.base.arrays import Array, Ids, Offsets
from rankwise.check.errors import error
from rankwise.check.queries import LARGEST_WEIGHT, query_of_row

_DIVERGED = "look at the learning rate and the features: a trainer that diverges produces such scores"
LARGEST_SCORE = 1e15


def document_values(
    what: str,
    values: ArrayLike,
    query_offsets: Offsets,
    query_ids: Ids | None = None,
    *,
    least: float | None = None,
    above: float | None = None,
    missing_scores: bool = False,
    hint: str = "drop the document or give it a number",
) -> Array:
    """Check one number per document: the right count, finite (−inf allowed for ``missing_scores``) and large enough."""
    array = np.asarray(values)
    if array.ndim != 1 or array.size != query_offsets[-1] or array.dtype.kind not in "fiub":
        raise error(
            f"{what} must be one number per document",
            got=f"shape {array.shape} of {array.dtype} for {query_offsets[-1]} documents",
        )
    array = array.astype(np.float64, copy=False)
    # The extremes, which are NaN if any number is, take a fraction of the time of a search for an invalid number.
    low, high = array.min(initial=np.inf), array.max(initial=-np.inf)
    is_finite = high < np.inf and (low > -np.inf or missing_scores)
    if is_finite and (least is None or low >= least) and (above is None or low > above):
        return array
    bad = ~np.isfinite(array)
    if missing_scores:
        bad &= array != -np.inf
    _reject(bad, f"{what} must be finite", array, query_offsets, query_ids, hint)
    if least is not None:
        _reject(array < least, f"{what} must be at least {least:g}", array, query_offsets, query_ids, hint)
    if above is not None:
        _reject(array <= above, f"{what} must be greater than {above:g}", array, query_offsets, query_ids, hint)
    return array


def _reject(
    bad: NDArray[np.bool_],
    what: str,
    values: Array,
    query_offsets: Offsets,
    ids: Ids | None,
    hint: str,
    unit: str = "",
) -> None:
    """Raise an error about the first document that is bad, if any is; ``unit`` is a word before its number."""
    if bad.any():
        row = int(np.argmax(bad))
        raise error(what, got=f"{unit}{values[row]:.12g}", where=query_of_row(row, query_offsets, ids), hint=hint)


def labels(values: ArrayLike, query_offsets: Offsets, query_ids: Ids | None = None) -> Array:
    """Check the relevance labels: finite and not negative."""
    hint = "give every document a grade of 0 (not relevant) or more; qrels use -1 for 'not judged': make it 0"
    return document_values("labels", values, query_offsets, query_ids, least=0.0, hint=hint)


def scores(values: ArrayLike, query_offsets: Offsets, query_ids: Ids | None = None) -> Array:
    """Check the scores of a ranker; −inf marks a document that was not retrieved."""
    hint = "look at the model's output there; -inf is allowed and means 'not retrieved'"
    return document_values("scores", values, query_offsets, query_ids, missing_scores=True, hint=hint)


def loss_scores(values: ArrayLike, query_offsets: Offsets) -> Array:
    """Check the scores of a loss: finite; those beyond ±1e15 are clipped to ±1e15.

    Squares of larger differences, times a parameter or summed over pairs, would overflow float32 at the latest.
    """
    return _clipped(document_values("scores", values, query_offsets, hint=_DIVERGED))


def diverged(got: str) -> ValueError:
    """Build the error of scores that are not finite, as on a device, where only a result of them is known."""
    return error("scores must be finite", got=got, hint=_DIVERGED)


def teacher_scores(values: ArrayLike, query_offsets: Offsets, ids: Ids | None = None) -> Array:
    """Check the scores of a teacher: finite; those beyond ±1e15 are clipped to ±1e15, as in a loss."""
    hint = "let the teacher score every document, or leave out those that it cannot score"
    return _clipped(document_values("teacher scores", values, query_offsets, ids, hint=hint))


def _clipped(array: Array) -> Array:
    largest = max(array.max(initial=0.0), -array.min(initial=0.0))
    return array.clip(-LARGEST_SCORE, LARGEST_SCORE) if largest > LARGEST_SCORE else array


def propensities(values: ArrayLike, query_offsets: Offsets, ids: Ids | None = None) -> Array:
    """Check examination probabilities: greater than 0."""
    hint = "give every displayed document a positive probability of being examined"
    return document_values("propensities", values, query_offsets, ids, above=0.0, hint=hint)


def chances(what: str, values: ArrayLike, query_offsets: Offsets, ids: Ids | None = None) -> Array:
    """Check probabilities of documents: from 0 to 1."""
    hint = "divide percentages by 100"
    array = document_values(what, values, query_offsets, ids, least=0.0, hint=hint)
    _reject(array > 1.0, f"{what} must be at most 1", array, query_offsets, ids, hint)
    return array


def document_rewards(values: ArrayLike, query_offsets: Offsets, ids: Ids | None = None) -> Array:
    """Check rewards of documents: finite; they may be negative."""
    hint = "give documents about which nothing is known the reward 0"
    return document_values("document rewards", values, query_offsets, ids, hint=hint)


def document_weights(values: ArrayLike, query_offsets: Offsets, ids: Ids | None = None) -> Array:
    """Check weights of documents: not negative."""
    hint = "give every document a weight of 0 or more; for one number per query `pass weights=…`"
    array = document_values("document weights", values, query_offsets, ids, least=0.0, hint=hint)
    what, hint = f"document weights must be at most {LARGEST_WEIGHT:g}", "divide them all by their mean"
    _reject(array > LARGEST_WEIGHT, what, array, query_offsets, ids, hint)
    return array


def positions(values: ArrayLike, query_offsets: Offsets, ids: Ids | None = None) -> NDArray[np.int64]:
    """Check displayed positions: whole numbers from 1."""
    array = np.asarray(values)
    hint = "count displayed positions from 1"
    checked = document_values("positions", array, query_offsets, ids, least=1.0, hint=hint)
    if array.dtype == np.int64:
        return array
    _reject(checked != np.floor(checked), "positions must be whole numbers", checked, query_offsets, ids, hint)
    return checked.astype(np.int64)


def judged(values: ArrayLike, labels: Array, query_offsets: Offsets, ids: Ids | None = None) -> NDArray[np.int8]:
    """Check judgments: 1 (judged), 0 (not judged) or −1 (pooled, not judged); only judged documents have a label."""
    hint = "1 is judged, 0 not judged, -1 pooled for judging, yet not judged"
    flags = np.asarray(values)
    array = document_values("judged", flags, query_offsets, ids, hint=hint)
    _reject(~np.isin(array, (-1.0, 0.0, 1.0)), "judged must be 1, 0 or -1", array, query_offsets, ids, hint)
    what, hint = "a document that was not judged must have label 0", "set its judged to 1, or its label to 0"
    _reject((array < 1.0) & (labels > 0.0), what, labels, query_offsets, ids, hint, "label ")
    return flags if flags.dtype == np.int8 else array.astype(np.int8)


def grades(
    values: Array,
    query_offsets: Offsets,
    ids: Ids | None,
    what: str,
    chances: Array,
) -> NDArray[np.int64]:
    """Return labels as integer grades, each of which must have one of the ``chances``."""
    grade = values.astype(np.int64)
    requirement = f"labels must be the grades 0 to {chances.size - 1}, as there are {chances.size} {what}"
    hint = "give one probability for each grade; make real-valued labels grades first, or use binarize"
    _reject((grade != values) | (grade >= chances.size), requirement, values, query_offsets, ids, hint)
    return grade
