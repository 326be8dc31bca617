"""The kernels of the softmax family: targets, cross entropy with a three-term Newton numerator, the calibrated loss."""

import numpy as np

from rankwise.base.arrays import APART
from rankwise.base.compiling import FUSED, REORDERED, kernel
from rankwise.base.stream import fill_uniforms
from rankwise.metrics.sorting import longest_of
from rankwise.objectives.fastmath import BIAS, MANTISSA, ROUNDER, exp, log1p_unit

# The targets: softmax of the labels, labels over their sum, and 2^label − γ for three choices of γ.
EXP, SHARE, GAMMA_ZERO, GAMMA_ONE, GAMMA_UNIFORM = range(5)


@kernel
def fill_targets(first, last, offsets, labels, weights, target, masses, units):
    """Fill the target distribution and the unit of each query.

    For the last target, which depends on draws, fill gains, to which shares of the unit are added later.
    """
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        weight = weights[a:b] if weights.size else weights
        units[q] = _fill_mass(labels[a:b], weight, target, masses[a:b]) if b - a > 1 else -1.0


@kernel(fastmath=REORDERED)
def _fill_mass(labels, weights, target, mass):
    n = labels.size
    unit = 1.0
    if target == EXP:
        top = largest(labels)
        for i in range(n):
            mass[i] = exp(labels[i] - top)
    elif target == SHARE:
        for i in range(n):
            mass[i] = labels[i] * (weights[i] if weights.size else 1.0)
    else:
        if not fill_whole_gains(labels, mass):
            top = largest(labels)
            if top >= 64.0:
                unit = 2.0**-top  # keeps 2^label finite for any label
            for i in range(n):
                mass[i] = 2.0 ** (labels[i] - top) - unit if top >= 64.0 else 2.0 ** labels[i] - 1.0
        if weights.size:
            for i in range(n):
                mass[i] *= weights[i]
        if target == GAMMA_ZERO:
            for i in range(n):
                mass[i] += unit
    return unit if target == GAMMA_UNIFORM or normalise(mass) else -1.0


@kernel
def cross_entropy_kernel(
    first, last, offsets, scores, masses, units, target, epsilon, keys, queries, value, gradient, hessian, numerator
):
    """Fill value, gradient, Hessian and, if there is room for it, the numerator of these queries."""
    scratch = np.empty(APART + (0 if hessian.size else longest_of(first, last, offsets)))
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        s, g = scores[a:b], gradient[a:b]
        h = hessian[a:b] if hessian.size else scratch[: b - a]
        if units[q] < 0.0:
            value[q] = 0.0
            g[:] = 0.0
            h[:] = 0.0
            if numerator.size:
                numerator[a:b] = 0.0
            continue
        if target == GAMMA_UNIFORM:
            fill_uniforms(keys[0], queries[q], h)
            add_complements(masses[a:b], h, units[q], g)
        else:
            for i in range(b - a):
                g[i] = masses[a + i]
        if target < GAMMA_UNIFORM or normalise(g):
            newton = numerator[a:b] if numerator.size else numerator
            value[q] = cross_entropy(s, epsilon, numerator.size > 0, g, h, newton)


@kernel(fastmath=REORDERED)
def add_complements(gains, draws, unit, mass):
    """Fill masses with gains plus 1 − γ, in units of the list."""
    for i in range(draws.size):
        mass[i] = gains[i] + unit * (1.0 - draws[i])


@kernel(fastmath=REORDERED)
def normalise(mass):
    """Divide masses by their sum, in place; return False if there are none."""
    total = 0.0
    for i in range(mass.size):
        total += mass[i]
    if total <= 0.0:
        return False
    share = 1.0 / total
    for i in range(mass.size):
        mass[i] *= share
    return True


@kernel(fastmath=REORDERED)
def largest(labels):
    """Return the largest label, or 0."""
    top = 0.0
    for y in labels:
        top = max(top, y)
    return top


@kernel(fastmath=FUSED)
def fill_whole_gains(labels, gains):
    """Fill ``gains`` with 2^label − 1 from exponent bits; return False if a label is not a whole number below 64."""
    n_invalid = 0
    for i in range(labels.size):
        rounded = labels[i] + ROUNDER
        exponent = np.float64(rounded).view(np.int64) - np.float64(ROUNDER).view(np.int64)
        gains[i] = np.int64((exponent + BIAS) << MANTISSA).view(np.float64) - 1.0
        n_invalid += (rounded - ROUNDER != labels[i]) | (exponent >= 64)
    return n_invalid == 0


@kernel(fastmath=REORDERED)
def cross_entropy(scores, epsilon, neumann, phi, hessian, numerator):
    """Fill the gradient and the Hessian of a list, and return the value; ``phi`` holds the target, then the gradient.

    Only the document with the largest score can have ρ near 1, where 1 − ρ must not be computed by subtraction. It is
    therefore computed apart: its 1 − ρ is the share of the rest in the mass. All terms stay finite however far the best
    document is ahead.
    """
    n = scores.size
    top = scores[0]
    for i in range(n):
        top = max(top, scores[i])
    best = 0
    while scores[best] != top:
        best += 1
    shift = max(top, np.log(epsilon)) if epsilon > 0.0 else top
    loss = 0.0
    for i in range(n):
        hessian[i] = exp(scores[i] - shift)
        loss += phi[i] * (shift - scores[i])
    mass = hessian[best]
    hessian[best] = 0.0
    rest = epsilon * np.exp(-shift) if epsilon > 0.0 else 0.0
    for i in range(n):
        rest += hessian[i]
    total = rest + mass
    scale = 1.0 / total
    target = phi[best]
    for i in range(n):
        rho = hessian[i] * scale
        phi[i] = rho - phi[i]
        hessian[i] = rho
    phi[best] = mass * scale - target
    # From here on phi holds the gradient, and hessian ρ, with 0 for the best document.
    if neumann:
        _neumann(scores, epsilon, phi, hessian, best, mass * scale, rest, total, numerator)
    for i in range(n):
        hessian[i] -= hessian[i] * hessian[i]
    hessian[best] = mass * scale * (rest * scale)
    return loss + np.log(total)


@kernel(fastmath=REORDERED)
def _neumann(scores, epsilon, gradient, rho, best, rho_best, rest, total, numerator):
    """Fill three terms of the Neumann series of the inverse Hessian times the gradient, times the diagonal (2021, 4.3).

    With a = t₁/(1 − ρ) and b = t₂/(1 − ρ) the terms are t₁ = gradient, t₂ = ρ(Σa − a), t₃ = ρ(Σb − b). The term
    ρ·a of the best document in the sums of the others is written as its t₁ times their shares of the rest, which is
    always finite. ``rho`` is 0 at the best document, which is thus not in the sums.
    """
    n = scores.size
    first_best = gradient[best]
    gradient[best] = 0.0
    a_sum, b_sum = 0.0, 0.0
    if rest >= 1e-200:
        for i in range(n):
            numerator[i] = 1.0 / (1.0 - rho[i])
            a_sum += gradient[i] * numerator[i]
        second_best = rho_best * a_sum
        share = total / rest
        for i in range(n):
            inverse = numerator[i]
            second_term = rho[i] * (share * first_best + a_sum - gradient[i] * inverse)
            b = second_term * inverse
            b_sum += b
            numerator[i] = gradient[i] + second_term + rho[i] * (share * second_best - b)
    else:  # the best is so far ahead that 1 − ρ of the others is 1, and their shares need a shift of their own
        second = np.log(epsilon) if epsilon > 0.0 else -np.inf
        for i in range(n):
            a_sum += gradient[i]
            if i != best:
                second = max(second, scores[i])
        second_best = rho_best * a_sum
        rest = epsilon * np.exp(-second) if epsilon > 0.0 else 0.0
        for i in range(n):
            numerator[i] = 0.0 if i == best else exp(scores[i] - second)
            rest += numerator[i]
        for i in range(n):
            second_term = numerator[i] / rest * first_best
            b_sum += second_term
            numerator[i] = gradient[i] + second_term + numerator[i] / rest * second_best
    for i in range(n):
        numerator[i] += rho[i] * b_sum
    gradient[best] = first_best
    numerator[best] = first_best + second_best + rho_best * b_sum


@kernel
def calibrated_kernel(first, last, offsets, scores, relevance, alpha, exact, value, gradient, hessian):
    """Fill value, gradient and Hessian of these queries."""
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        h = hessian[a:b] if hessian.size else hessian
        value[q] = _calibrated_list(scores[a:b], relevance[a:b], alpha, exact, gradient[a:b], h)


@kernel(fastmath=REORDERED)
def _calibrated_list(scores, relevance, alpha, exact, gradient, hessian):
    """Fill the derivatives of a list, and return its value; ``gradient`` holds log σ first, then multiples of σ.

    1 − p of the document with the largest p is the share of the rest: by subtraction it would lose its digits near 1.
    """
    n = scores.size
    pointwise, listwise, total_relevance, top = 0.0, 0.0, 0.0, -np.inf
    for i in range(n):
        s, y = scores[i], relevance[i]
        tail = log1p_unit(exp(-abs(s)))
        gradient[i] = min(s, 0.0) - tail
        top = max(top, gradient[i])
        pointwise += (max(s, 0.0) - y * s) + tail
        listwise -= y * gradient[i]
        total_relevance += y
    best = 0
    while best < n and gradient[best] != top:
        best += 1
    total = 0.0
    for i in range(n):
        gradient[i] = exp(gradient[i] - top)
        total += gradient[i]
    rest = 0.0
    for i in range(n):
        rest += gradient[i] if i != best else 0.0
    for i in range(n):
        s, y = scores[i], relevance[i]
        small = exp(-abs(s))
        sigmoid, complement = (1.0 if s >= 0.0 else small), (small if s >= 0.0 else 1.0)
        sigmoid, complement = sigmoid / (1.0 + small), complement / (1.0 + small)
        share = gradient[i] / total
        others = rest / total if i == best else 1.0 - share
        gap = (total_relevance - y) * share - y * others  # Yp − y, without cancellation where y is all of Y
        gradient[i] = (1.0 - alpha) * (sigmoid - y) + alpha * gap * complement
        if hessian.size:
            bend = -gap * sigmoid * complement
            bend = bend if exact else max(bend, 0.0)
            listed = total_relevance * share * others * complement * complement + bend
            hessian[i] = (1.0 - alpha) * sigmoid * complement + alpha * listed
    return (1.0 - alpha) * pointwise + alpha * (listwise + total_relevance * (top + np.log(total)))
