"""The table from which Plackett-Luce rankings are drawn: a query's documents in positions, with what they weigh.

The ``head``, the highest documents, as many as there are ranks, stands first and in order; the ``tail`` follows.
``mass[j]`` is the sum of the weights from position j to the end, added up from the end. Weights are exp(score − the
score of the last document of the head), so that those of the tail are at most 1.
"""

import numpy as np

from rankwise.compiling import kernel
from rankwise.metrics.order import order

STEEP = 600.0  # beyond this gap within the head, exp(gap) comes near the end of float64
SHORT = 32  # what is no longer than this is gone through, not sorted or bisected
FINENESS = 4  # parts of the guide per document of the tail
_AT_ONCE, _SCRATCH = 64, 1024  # so many samples are drawn at once, as far as the scratch goes

# Rows of a thread's working memory, each as long as the longest list.
WEIGHT, WORTH, HEIGHT, MASS, MERIT, ARRIVAL, EVEN, ODD, FLOATS = range(9)
PLACE, TAKEN, STRATUM, STRIDE, INTEGERS = range(5)
GUIDE = INTEGERS  # the rows from this on, laid end to end
# Rows that hold a batch of samples, one rank after the other and one sample after the other.
UNIFORM, CHANCE, KEEP, BEFORE, AFTER, BATCH = range(6)


@kernel
def working_memory(longest):
    """What a thread needs for lists of up to ``longest`` documents."""
    numbers, whole = np.empty((FLOATS, longest + 1)), np.empty((INTEGERS + FINENESS, longest + 1), np.int64)
    size = max(_SCRATCH, longest) + _AT_ONCE  # an odd number of ranks makes one row of uniforms more
    return numbers, whole, np.empty((BATCH, size)), np.empty(size, np.int64)


@kernel
def samples_at_once(head):
    """How many samples :func:`draw` makes in one call."""
    return min(max(_SCRATCH // head, 1), _AT_ONCE)


@kernel
def tabulate(scores, rewards, head, numbers, whole):
    """Put a query's documents into positions and add up their weights; tell whether the head is too steep for that."""
    n = scores.size
    place, guide, taken = whole[PLACE], whole.reshape(-1)[GUIDE * whole.shape[1] :], whole[TAKEN]
    weight, worth, height, mass, merit = numbers[WEIGHT], numbers[WORTH], numbers[HEIGHT], numbers[MASS], numbers[MERIT]
    _arrange(scores, rewards, head, place, taken)
    level = scores[place[head - 1]]
    for j in range(n):
        height[j] = scores[place[j]] - level
        weight[j] = np.exp(min(height[j], STEEP))
        worth[j] = rewards[place[j]]
        taken[j] = -1
    mass[n] = merit[n] = 0.0
    taken[n] = -1
    for j in range(n - 1, -1, -1):
        mass[j] = mass[j + 1] + weight[j]
        merit[j] = merit[j + 1] + weight[j] * worth[j]
    # guide[c] is the position whose interval holds the lower end of the c-th of equal parts of the tail's mass.
    cells, j = FINENESS * (n - head), n - 1
    part = mass[head] / cells
    for c in range(cells):
        while j > head and mass[j] <= c * part:
            j -= 1
        guide[c] = j
    return height[0] > STEEP


@kernel
def _arrange(scores, rewards, head, place, mark):
    """The highest documents in order, then the rest, those without a reward first: so strata hold like documents."""
    n = scores.size
    if head > SHORT:
        order(scores, place[:n])
    else:
        count = 0
        for i in range(n):
            score = scores[i]
            if count == head and score <= scores[place[head - 1]]:
                continue
            at = count if count < head else head - 1
            while at > 0 and scores[place[at - 1]] < score:
                place[at] = place[at - 1]
                at -= 1
            place[at] = i
            count = min(count + 1, head)
    mark[:n] = 0
    for j in range(head):
        mark[place[j]] = 1
    left, right = head, n - 1
    for i in range(n):
        if mark[i] == 0:
            if rewards[i] == 0.0:
                place[left] = i
                left += 1
            else:
                place[right] = i
                right -= 1
