"""The EM of the examination hypothesis: P(click) = examination of a context · attractiveness of a document.

A context is a position, or a position with that of the last click above. :func:`fit` serves propensities and click
models alike. Impressions without a click are completed by the probability that they were examined, and both factors are
renewed from the completed counts, in turn.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.base import threads
from rankwise.base.arrays import Array, Column, read_only
from rankwise.base.compiling import kernel

_BLOCKS = 128  # of pairs; each has sums of its own, so that they do not depend on threads


class Cells(NamedTuple):
    """Impressions and clicks added up by pair and context, sorted by pair."""

    pairs: NDArray[np.int64]
    contexts: NDArray[np.int64]
    shown: Array
    clicked: Array

    def where(self, rows: NDArray[np.bool_]) -> "Cells":
        """Return these cells."""
        return Cells(*(read_only(column[rows]) for column in self))


def fit(
    cells: Cells,
    size: tuple[int, int],
    added: tuple[Array, Array] | None = None,
    *,
    rare: bool = False,
    iterations: int,
    tolerance: float,
) -> tuple[Array, Array, float]:
    """Return examination by context, 1 for the first, attractiveness by pair, and the last change of examination.

    Steps end with a change of ``tolerance`` or less. What was not shown, and has no prior, is NaN.
    ``size`` are the numbers of pairs and of contexts, ``added`` the clicks and skips of a prior for each pair.

    The likelihood is Bernoulli's. With ``rare`` it is its limit for rare clicks, Poisson's, in which attractiveness
    drops out of the estimate of examination: given the clicks of a document, their shares compare contexts. That is
    unbiased however few impressions a document has, where Bernoulli's needs many.
    """
    n_pairs, width = size
    added = (np.zeros(n_pairs), np.zeros(n_pairs)) if added is None else added
    first = int(cells.contexts.min())
    shown, clicked = (np.bincount(cells.contexts, part, width) for part in (cells.shown, cells.clicked))
    clicks = np.bincount(cells.pairs, cells.clicked, n_pairs)
    impressions = np.bincount(cells.pairs, cells.shown, n_pairs)
    attractiveness = (clicks + added[0] + 0.5) / (impressions + sum(added) + 1.0)
    examination = np.where(shown > 0.0, 0.5, np.nan)  # 1 would be a fixed point
    examination[first] = 1.0
    # Pairs without clicks have attractiveness 0: they are examined as often as anything in their context is.
    clickable = clicks + added[0] > 0.0
    attractiveness[~clickable] = 0.0
    never = ~clickable[cells.pairs]
    unattractive = np.bincount(cells.contexts[never], cells.shown[never], width)
    cells = cells.where(~never)
    starts = np.searchsorted(cells.pairs, np.arange(n_pairs + 1))
    of_pairs = clicks + added[0], np.zeros(n_pairs) if rare else clicks + sum(added)
    counts = starts, cells.contexts, cells.shown if rare else read_only(cells.shown - cells.clicked), *of_pairs
    blocks = np.searchsorted(starts, np.linspace(0, cells.pairs.size, _BLOCKS + 1)).astype(np.int64)
    blocks[-1] = n_pairs
    work = 2.0 * np.diff(starts[blocks])
    step, change = 0, np.inf
    while step < iterations and change > tolerance:
        sums = np.zeros((_BLOCKS, width))
        threads.over_queries(_step, blocks, *counts, rare, examination, attractiveness, sums, work=work)
        expected = sums.sum(axis=0)
        if rare:
            update = ratio(clicked, expected)
            update /= update[first]
        else:
            update = ratio(clicked + expected + unattractive * examination, shown)
            update[first] = 1.0
        change = float(np.nanmax(np.abs(update - examination)))
        examination, step = update, step + 1
    attractiveness[impressions + sum(added) == 0.0] = np.nan
    return examination, attractiveness, change


@kernel
def _step(  # type: ignore[no-untyped-def]
    first, last, blocks, starts, contexts, counts, clicks, added, rare, examination, attractiveness, sums
):
    """Add up the expected counts by block and context, and renew attractiveness.

    ``counts`` are impressions without a click; of rare clicks all impressions, and none were without one.
    """
    for block in range(first, last):
        for pair in range(blocks[block], blocks[block + 1]):
            attractive = attractiveness[pair]
            examined = added[pair]
            for cell in range(starts[pair], starts[pair + 1]):
                chance, count = examination[contexts[cell]], counts[cell]
                if rare:
                    sums[block, contexts[cell]] += count * attractive
                    examined += count * chance
                    continue
                # P(examined | not clicked), times the impressions without a click; 1 where all is examined, not 0/0
                if chance < 1.0:
                    count *= chance * (1.0 - attractive) / (1.0 - chance * attractive)
                sums[block, contexts[cell]] += count
                examined += count
            if examined > 0.0:
                attractiveness[pair] = clicks[pair] / examined


def ratio(numerator: Column, denominator: Column) -> Array:
    """Divide; NaN where there is nothing to divide by."""
    quotient = np.full(numerator.size, np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0.0)
    return quotient
