"""The table from which Plackett-Luce rankings are drawn: a query's documents in positions, with their weights.

The ``head``, the highest documents, as many as there are ranks, stands first and in order; the ``tail`` follows.
``mass[j]`` is the sum of the weights from position j to the end, added up from the end. Weights are exp(score − the
score of the last document of the head), so that those of the tail are at most 1.
"""

import numpy as np

from rankwise.compiling import kernel
from rankwise.metrics.order import order

STEEP = 600.0  # beyond this gap within the head, exp(gap) comes near the end of float64
SHORT = 32  # ranges up to this length are searched one by one, not sorted or bisected
FINENESS = 4  # parts of the guide per document of the tail
_AT_ONCE, _SCRATCH = 64, 1024  # the number of samples drawn at once, and the scratch memory that limits it

# Rows of a thread's working memory, each as long as the longest list.
WEIGHT, REWARD, HEIGHT, MASS, MERIT, ARRIVAL, EVEN, ODD, FLOATS = range(9)
PLACE, LAST_SAMPLE, STRATUM, STRIDE, INTEGERS = range(5)
GUIDE = INTEGERS  # the rows from this on, laid end to end
# Rows that hold a batch of samples, one rank after the other and one sample after the other.
UNIFORM, CHANCE, KEEP, BEFORE, AFTER, BATCH = range(6)


@kernel
def working_memory(longest):
    """Return the working memory of a thread for lists of up to ``longest`` documents."""
    floats, integers = np.empty((FLOATS, longest + 1)), np.empty((INTEGERS + FINENESS, longest + 1), np.int64)
    size = max(_SCRATCH, longest) + _AT_ONCE  # an odd number of ranks makes one row of uniforms more
    return floats, integers, np.empty((BATCH, size)), np.empty(size, np.int64)


@kernel
def samples_at_once(head):
    """Return the number of samples that one call of :func:`draw` draws."""
    return min(max(_SCRATCH // head, 1), _AT_ONCE)


@kernel
def tabulate(scores, rewards, head, floats, integers):
    """Fill the table of a query; return whether the head is too steep for a table."""
    n = scores.size
    place, guide, last_sample = (
        integers[PLACE],
        integers.reshape(-1)[GUIDE * integers.shape[1] :],
        integers[LAST_SAMPLE],
    )
    weight, reward, height, mass, merit = floats[WEIGHT], floats[REWARD], floats[HEIGHT], floats[MASS], floats[MERIT]
    _arrange(scores, rewards, head, place, last_sample)
    level = scores[place[head - 1]]
    for j in range(n):
        height[j] = scores[place[j]] - level
        weight[j] = np.exp(min(height[j], STEEP))
        reward[j] = rewards[place[j]]
        last_sample[j] = -1
    mass[n] = merit[n] = 0.0
    last_sample[n] = -1
    for j in range(n - 1, -1, -1):
        mass[j] = mass[j + 1] + weight[j]
        merit[j] = merit[j + 1] + weight[j] * reward[j]
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
    """Fill the positions: the highest documents in order, then the rest, those without a reward first.

    Strata then hold similar documents.
    """
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
