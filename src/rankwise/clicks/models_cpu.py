"""Loops of click models: expectation steps, and probabilities of clicks."""

import numpy as np

from rankwise.compiling import kernel


@kernel
def contexts(first, last, offsets, positions, clicked, depth, out):  # type: ignore[no-untyped-def]
    """Fill the context of each row, (position − 1) · depth + position of the last click above it (0 without one)."""
    for n in range(first, last):
        above = 0
        for row in range(offsets[n], offsets[n + 1]):
            out[row] = (positions[row] - 1) * depth + above
            if clicked[row]:
                above = positions[row]


@kernel
def examine(  # type: ignore[no-untyped-def]
    first, last, offsets, starts, contexts, skips, clicks, added, examination, attractiveness, sums
):
    """One EM step of P(click) = examination[context] · attractiveness[pair] over blocks of pairs.

    ``sums`` (blocks × contexts) gets the expected examinations without a click, and ``attractiveness`` its new values.
    A block has its own sums, so that they do not depend on threads.
    """
    for block in range(first, last):
        for pair in range(offsets[block], offsets[block + 1]):
            attractive = attractiveness[pair]
            examined = added[pair]
            for cell in range(starts[pair], starts[pair + 1]):
                chance = examination[contexts[cell]]
                # P(examined | not clicked), times the impressions without a click
                unclicked = skips[cell] * (chance * (1.0 - attractive) / (1.0 - chance * attractive))
                examined += unclicked
                sums[block, contexts[cell]] += unclicked
            if examined > 0.0:
                attractiveness[pair] = clicks[pair] / examined


@kernel
def forward_backward(  # type: ignore[no-untyped-def]
    first, last, groups, offsets, pairs, clicked, weights, attractiveness, satisfaction, continuation,
    examined, satisfied, unsatisfied, going,
):  # fmt: skip
    """One expectation step of the DBN over the impressions of each query; sums are added to the last four arrays.

    Up to the last click everything is certain: examined, and no click before it satisfied. Below it, ``unseen[j]`` is
    the probability of no click from row j on, if it is examined.
    """
    unseen = np.empty(16)
    for q in range(first, last):
        for n in range(groups[q], groups[q + 1]):
            begin, end, weight = offsets[n], offsets[n + 1], weights[n]
            if unseen.size < end - begin + 1:
                unseen = np.empty(2 * (end - begin) + 1)
            bottom = end - 1
            while bottom >= begin and not clicked[bottom]:
                bottom -= 1
            unseen[end - begin] = 1.0
            for row in range(end - 1, bottom, -1):
                onward = 1.0 if row == end - 1 else 1.0 - continuation + continuation * unseen[row + 1 - begin]
                unseen[row - begin] = (1.0 - attractiveness[pairs[row]]) * onward
            for row in range(begin, bottom):
                examined[pairs[row]] += weight
                if clicked[row]:
                    unsatisfied[pairs[row]] += weight
            present = weight
            if bottom >= begin:
                going[q, 0] += weight * (bottom - begin)
                going[q, 1] += weight * (bottom - begin)
                examined[pairs[bottom]] += weight
                if bottom == end - 1:  # nothing below tells whether the last click satisfied
                    continue
                sure = satisfaction[pairs[bottom]]
                below = unseen[bottom + 1 - begin]
                tail = sure + (1.0 - sure) * (1.0 - continuation + continuation * below)
                satisfied[pairs[bottom]] += weight * sure / tail
                unsatisfied[pairs[bottom]] += weight * (1.0 - sure / tail)
                present = weight * (1.0 - sure) * continuation * below / tail
                going[q, 0] += weight * (1.0 - sure / tail)
                going[q, 1] += present
            for row in range(bottom + 1, end):
                examined[pairs[row]] += present
                if row + 1 < end and present > 0.0:
                    below = continuation * unseen[row + 1 - begin]
                    onward = present * below / (1.0 - continuation + below)
                    going[q, 0] += present
                    going[q, 1] += onward
                    present = onward


@kernel
def predict_by_context(  # type: ignore[no-untyped-def]
    first, last, offsets, pairs, positions, clicked, given_clicks, attractiveness, examination, out
):
    """Fill the probability of a click on each row by the table examination[position − 1, last click above]."""
    above = np.empty(examination.shape[0] + 1)  # the probability that the last click was there
    for n in range(first, last):
        above[:] = 0.0
        above[0] = 1.0
        for row in range(offsets[n], offsets[n + 1]):
            position, attractive = positions[row], attractiveness[pairs[row]]
            out[row] = 0.0
            for k in range(position):
                click = above[k] * examination[position - 1, k] * attractive
                out[row] += click
                if not given_clicks:
                    above[k] -= click
            if not given_clicks:
                above[position] = out[row]
            elif clicked[row]:
                above[:] = 0.0
                above[position] = 1.0


@kernel
def predict_by_chain(  # type: ignore[no-untyped-def]
    first,
    last,
    offsets,
    pairs,
    positions,
    clicked,
    given_clicks,
    attractiveness,
    satisfaction,
    onward,
    continuation,
    out,
):
    """Fill the probability of a click on each row, for users who read from the top.

    After a click they go on with probability onward[position − 1] · (1 − satisfaction[pair]), else with
    ``continuation``.
    """
    for n in range(first, last):
        present = 1.0
        for row in range(offsets[n], offsets[n + 1]):
            attractive = attractiveness[pairs[row]]
            out[row] = present * attractive
            after = onward[positions[row] - 1] * (1.0 - satisfaction[pairs[row]])
            if not given_clicks:
                present *= attractive * after + (1.0 - attractive) * continuation
            elif clicked[row]:
                present = after
            else:
                present *= continuation * (1.0 - attractive) / (1.0 - out[row]) if out[row] < 1.0 else 0.0


@kernel
def log_likelihoods(first, last, offsets, clicked, chances, out):  # type: ignore[no-untyped-def]
    """Fill the logarithm of the probability of each impression's clicks from the conditional ones of its rows."""
    for n in range(first, last):
        out[n] = 0.0
        for row in range(offsets[n], offsets[n + 1]):
            out[n] += np.log(chances[row] if clicked[row] else 1.0 - chances[row])
