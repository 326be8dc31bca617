"""The kernel of squared differences to a teacher."""

from rankwise.base.compiling import kernel


@kernel
def margins_kernel(first, last, offsets, scores, teacher, value, gradient, hessian):
    """Fill twice the variance of scores − teacher, and its derivatives."""
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        n = end - start
        value[q] = 0.0
        mean = 0.0
        for i in range(start, end):
            gradient[i] = scores[i] - teacher[i]
            mean += gradient[i]
        mean /= max(n, 1)
        pairs = max(n - 1, 1)
        for i in range(start, end):
            gap = gradient[i] - mean if n > 1 else 0.0
            value[q] += 2.0 * gap * gap / pairs
            gradient[i] = 4.0 * gap / pairs
            if hessian.size:
                hessian[i] = 4.0 / n if n > 1 else 0.0
