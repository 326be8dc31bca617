"""exp, log, log1p_unit and sigmoid that compilers can vectorise.

The C library's functions are calls, and a loop with a call in it runs one element at a time. These are straight lines
of arithmetic, accurate to about 1e-15 (relative), so that a loop around them runs several elements at once. They are
for calls from other kernels; for a single number the library's functions are as good.

They are compiled with "contract" alone (a multiplication and an addition may fuse), whatever their caller allows: the
reductions of the argument below would not survive reordering.
"""

import numpy as np

from rankwise.base.compiling import FUSED, kernel

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # ends in zeros: its product with an exponent is exact
_LN2_LOW = 1.90821492927058770002e-10
ROUNDER = 6755399441055744.0  # 1.5 · 2^52: adding it rounds to a whole number, held in the lowest bits
BIAS = 1023
MANTISSA = 52
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_MANTISSA_MASK = 0xFFFFFFFFFFFFF
_LARGEST = 709.782712893384
_SMALLEST = -708.3964185322641


@kernel(fastmath=FUSED)
def exp(x):
    """e^x; below the smallest normal number, about 2e-308, it is 0."""
    inside = min(max(x, _SMALLEST), _LARGEST)
    rounded = inside * _LOG2_E + ROUNDER
    exponent = rounded - ROUNDER
    r = (inside - exponent * _LN2_HIGH) - exponent * _LN2_LOW
    # Taylor's series on |r| ≤ log(2)/2; the next term is below 2e-17.
    high = 1.0 / 40320 + r * (
        1.0 / 362880 + r * (1.0 / 3628800 + r * (1.0 / 39916800 + r * (1.0 / 479001600 + r / 6227020800)))
    )
    series = 1.0 + r * (
        1.0
        + r * (0.5 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120 + r * (1.0 / 720 + r * (1.0 / 5040 + r * high))))))
    )
    # Multiply by 2^exponent in two steps, as 2^1024 is not a float.
    bits = np.float64(rounded).view(np.int64) - np.float64(ROUNDER).view(np.int64)
    half = bits >> 1
    first = np.int64((half + BIAS) << MANTISSA).view(np.float64)
    second = np.int64((bits - half + BIAS) << MANTISSA).view(np.float64)
    result = series * first * second
    result = 0.0 if x < _SMALLEST else result
    return np.inf if x > _LARGEST else result


@kernel(fastmath=FUSED)
def atanh_ratio(square):
    """atanh(z)/z for z² = ``square`` in [0, 1/9]: the heart of a logarithm, as log((1 + z)/(1 − z)) = 2·atanh(z).

    The series 1 + z²/3 + z⁴/5 + …, its tail fitted at Chebyshev's points.
    """
    tail = 0.06750700579955604 + square * (0.0516376987905256 + square * 0.08430168459851539)
    tail = 0.111111063709099 + square * (0.09091127753300765 + square * (0.07686685616463983 + square * tail))
    tail = 0.3333333333333346 + square * (0.19999999999792134 + square * (0.14285714336743527 + square * tail))
    return 1.0 + square * tail


@kernel(fastmath=FUSED)
def log(x):
    """Log x of a positive normal number: its exponent, and a mantissa around 1."""
    bits = np.float64(x).view(np.int64) - _SQRT_HALF_BITS
    exponent = np.float64(bits >> MANTISSA)
    mantissa = np.int64((bits & _MANTISSA_MASK) + _SQRT_HALF_BITS).view(np.float64)
    z = (mantissa - 1.0) / (mantissa + 1.0)
    return exponent * _LN2_HIGH + (2.0 * z * atanh_ratio(z * z) + exponent * _LN2_LOW)


@kernel(fastmath=FUSED)
def log1p_unit(x):
    """log(1 + x) for x in [0, 1], where it is cheapest: one division, no table, no exponent."""
    z = x / (2.0 + x)
    return 2.0 * z * atanh_ratio(z * z)


@kernel(fastmath=FUSED)
def sigmoid(x):
    """1/(1 + e^−x), with full relative accuracy on both sides."""
    small = exp(-abs(x))
    return (1.0 if x >= 0.0 else small) / (1.0 + small)
