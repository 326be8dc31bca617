"""Functions with more digits than the fast ones of a GPU."""

import triton
import triton.language as tl


@triton.jit
def sigmoid(x):
    """σ(x), exact to rounding on either side: e^−|x| never overflows."""
    small = tl.exp(-tl.abs(x))
    return tl.where(x > 0.0, 1.0, small) / (1.0 + small)


@triton.jit
def log1p_unit(x):
    """log(1 + x) for x in [0, 1], with all its digits near 0, where the logarithm of a GPU has none: 2·atanh(z)."""
    if x.dtype == tl.float64:  # the logarithm of 1 + x has all digits; the error of rounding 1 + x is added
        sum_ = 1.0 + x
        return tl.log(sum_) + (x - (sum_ - 1.0)) / sum_
    z = x / (2.0 + x)
    y = z * z  # at most 1/9
    series = 1.0 / 15.0 + y * (1.0 / 17.0 + y * (1.0 / 19.0))
    series = 1.0 / 9.0 + y * (1.0 / 11.0 + y * (1.0 / 13.0 + y * series))
    series = 1.0 + y * (1.0 / 3.0 + y * (1.0 / 5.0 + y * (1.0 / 7.0 + y * series)))
    return 2.0 * z * series


@triton.jit
def log1p(x):
    """log(1 + x) for any x ≥ 0."""
    return tl.where(x <= 1.0, log1p_unit(tl.minimum(x, 1.0)), tl.log(1.0 + x))


@triton.jit
def log_add(a, b):
    """The log of e^a + e^b; either may be −∞, as the log of nothing."""
    high, low = tl.maximum(a, b), tl.minimum(a, b)
    gap = tl.where(low == float("-inf"), 0.0, low - high)
    return tl.where(low == float("-inf"), high, high + log1p_unit(tl.exp(gap)))
