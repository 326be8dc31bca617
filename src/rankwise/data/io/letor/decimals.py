"""Decimal text to the nearest float32, inside kernels.

Up to 18 digits are gathered into an integer and scaled by a power of ten in float64, which is off by a few units in
the last of its 53 places. That settles the 24 places of a float32 unless the value lies within those few units of the
middle between two of them; there :func:`nearest_float32` returns UNSURE, and the caller uses
:func:`exact_float32`, which compares with unlimited precision.
"""

from fractions import Fraction
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

from rankwise.base.compiling import kernel

POWERS = np.array([float(f"1e{power}") for power in range(81)])
"""Powers of ten: exact up to 1e22, correctly rounded beyond."""

# The kind of a number in the text.
WRONG, DECIMAL, NAN, INFINITE = 0, 1, 2, 3
# Whether a decimal was rounded for certain.
SURE, UNSURE = 0, 1

_MOST_DIGITS = 18  # as many as fit into int64 whatever they are
_MOST_EXPONENT = 1_000_000
_EXACT = 2.0**53
_SMALLEST_NORMAL = 2.0**-126
LARGEST = (2.0 - 2.0**-23) * 2.0**127
"""The largest float32. Larger numbers, which some files have for 'missing', become this and not infinite."""


SLACK = 24
"""How many bytes beyond the end of the text must be readable: digits are read eight at a time."""

_TENS = np.array([10**power for power in range(9)])
_ZEROS = np.uint64(0x3030303030303030)
_NINES = np.uint64(0x7676767676767676)
_HIGH = np.uint64(0x8080808080808080)
_EXCLAMATIONS = np.uint64(0x2121212121212121)  # the first byte that is not some kind of space


def _eight_bytes(typing, text, at):  # noqa: ARG001
    """Load text[at : at + 8] as one little-endian word, wherever it lies."""

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return types.uint64(text, types.int64), generate


def _count_zeros(typing, word):  # noqa: ARG001
    """Count the zero bits below the lowest one; 64 for zero."""

    def generate(context, builder, signature, arguments):  # noqa: ARG001
        return builder.cttz(arguments[0], cgutils.false_bit)

    return types.uint64(types.uint64), generate


eight_bytes: Any = intrinsic(_eight_bytes)
_trailing_zeros: Any = intrinsic(_count_zeros)


@kernel(forceinline=True)
def _run(text, at):
    """Read up to eight digits at once: (number, how many). No branch depends on what they are."""
    word = eight_bytes(text, at) ^ _ZEROS
    no_digits = ((word + _NINES) | word) & _HIGH  # the high bit of every byte that is no digit
    count = np.int64(_trailing_zeros(no_digits) >> np.uint64(3))
    unused = np.uint64(56 - 8 * min(count, np.int64(7)))
    word = (word << unused) << np.uint64(8 * (count < 8))
    word = word * np.uint64(10) + (word >> np.uint64(8))
    low, high = word & np.uint64(0x000000FF000000FF), (word >> np.uint64(16)) & np.uint64(0x000000FF000000FF)
    total = low * np.uint64(0x000F424000000064) + high * np.uint64(0x0000271000000001)
    return np.int64(total >> np.uint64(32)), count


@kernel(forceinline=True)
def read_digits(text, at, number):
    """Append a run of digits to ``number``: (number, end)."""
    part, count = _run(text, at)
    number = number * _TENS[count] + part
    at += count
    while count == 8:
        part, count = _run(text, at)
        number = number * _TENS[count] + part
        at += count
    return number, at


@kernel(forceinline=True)
def is_digit(byte):
    """Whether a byte is one of 0 to 9."""
    return np.uint8(byte - np.uint8(48)) <= np.uint8(9)


@kernel
def _many_digits(text, at):
    """Read a number of more digits than fit: the first 18 that count, and the power of ten that the rest stands for."""
    digits, power, used, fraction = np.int64(0), np.int64(0), np.int64(0), False
    while True:
        byte = text[at]
        if byte == 46:
            fraction = True
        elif is_digit(byte):
            if used < _MOST_DIGITS:
                digits = digits * 10 + (np.int64(byte) - 48)
                used += digits > 0
                power -= fraction
            else:
                power += not fraction
        else:
            return digits, power
        at += 1


@kernel
def _word(text, at):
    """Read ``nan``, ``inf`` or ``infinity`` in any case: its kind and where it ends."""
    letters = np.uint64(0)
    count = 0
    while count < 8 and 97 <= (text[at + count] | 32) <= 122:
        letters = (letters << np.uint64(8)) | np.uint64(text[at + count] | 32)
        count += 1
    if letters == np.uint64(0x6E616E):
        return NAN, at + count
    if letters in (np.uint64(0x696E66), np.uint64(0x696E66696E697479)):
        return INFINITE, at + count
    return WRONG, at


@kernel(forceinline=True)
def read_number(text, at):
    """Read a number at ``at``: (kind, negative, digits, power of ten, end). Anything that is no digit ends the text."""
    byte = text[at]
    negative = byte == 45
    if negative or byte == 43:
        at += 1
    first = at
    digits = np.int64(0)
    power = np.int64(0)
    digits, at = read_digits(text, at, digits)
    count = at - first
    if text[at] == 46:
        at += 1
        point = at
        digits, at = read_digits(text, at, digits)
        power = point - at
        count -= power
    if count == 0:
        if at != first:  # a lone point
            return WRONG, negative, digits, power, first
        kind, at = _word(text, at)
        return kind, negative, digits, power, at
    if count > _MOST_DIGITS:
        digits, power = _many_digits(text, first)
    if (text[at] | 32) == 101:
        at += 1
        down = text[at] == 45
        if down or text[at] == 43:
            at += 1
        if not is_digit(text[at]):
            return WRONG, negative, digits, power, at
        exponent = np.int64(0)
        while is_digit(text[at]):
            exponent = min(exponent * 10 + (np.int64(text[at]) - 48), np.int64(_MOST_EXPONENT))
            at += 1
        power += -exponent if down else exponent
    return DECIMAL, negative, digits, power, at


@kernel(forceinline=True)
def nearest_float32(digits, power):
    """Find the float32 nearest to digits · 10^power, as a float64 that rounds to it, and whether that is SURE."""
    value = np.float64(digits)
    if power < 0:
        if power < -80:  # less than 1e-62
            return 0.0, SURE
        value /= POWERS[-power]
    elif power > 0 and digits > 0:
        if power > 80:
            return LARGEST, SURE
        value *= POWERS[power]
    if value < _SMALLEST_NORMAL:
        steps = value * 2.0**149
        if abs(steps - np.floor(steps) - 0.5) < 1e-6:
            return value, UNSURE
        return value, SURE
    if value >= LARGEST:
        return LARGEST, SURE
    # A float64 has 29 places more than a float32: is it nearly half a step of float32?
    below = np.float64(value).view(np.int64) & np.int64(0x1FFFFFFF)
    if abs(below - np.int64(0x10000000)) <= 16 and not _is_exact(digits, power, value):
        return value, UNSURE
    return value, SURE


@kernel(forceinline=True)
def _word_end(text, at):
    """Find the first byte that is a space, a line end or the like, at most 16 bytes ahead."""
    first, second = eight_bytes(text, at), eight_bytes(text, at + 8)
    first = (first - _EXCLAMATIONS) & ~first & _HIGH
    second = (second - _EXCLAMATIONS) & ~second & _HIGH
    return at + np.int64((_trailing_zeros(first) if first else _trailing_zeros(second) + np.uint64(64)) >> np.uint64(3))


@kernel(forceinline=True)
def read_plain(text, at):
    """Read the usual case without a branch: (float32 as float64, end, whether that worked).

    At most seven digits on each side of the point, no exponent, nothing but a space or line end after it. The end is
    searched for by itself, so that the CPU can begin with the next word while this one is still being computed.
    """
    end = _word_end(text, at)
    negative = text[at] == 45
    at += negative
    integer, before = _run(text, at)
    at += before
    point = np.int64(text[at] == 46)
    part, after = _run(text, at + 1)
    after *= point
    digits = integer * _TENS[after] + part * point
    value = np.float64(digits) / POWERS[after]  # exact numbers below 2^53: one rounding
    below = np.float64(value).view(np.int64) & np.int64(0x1FFFFFFF)
    fits = (before < 8) & (after < 8) & (before + after > 0) & (at + after + point == end) & (below != 0x10000000)
    return (-value if negative else value), end, fits


@kernel
def _is_exact(digits, power, value):
    """Whether ``value``, which may be the middle between two float32, equals digits · 10^power without rounding.

    A middle has 25 binary places and 5^12 has 28, so that the product below is exact if ``value`` is a middle.
    """
    if power < 0:
        middle = (np.float64(value).view(np.int64) & np.int64(0x1FFFFFFF)) == np.int64(0x10000000)
        return middle and power >= -12 and digits < _EXACT and value * POWERS[-power] == digits
    return digits < (_EXACT if power == 0 else 2.0**25) and power <= 12


@kernel(forceinline=True)
def nearest_float64(digits, power):
    """Find the float64 nearest to digits · 10^power, and whether that is SURE: one rounding of two exact numbers."""
    value = np.float64(digits)
    if digits == 0 or (power == 0 and digits < _EXACT):
        return value, SURE
    if digits >= _EXACT or power < -22 or power > 22:
        return value, UNSURE
    return (value / POWERS[-power] if power < 0 else value * POWERS[power]), SURE


@kernel
def beyond_float64(digits, power):
    """Whether digits · 10^power is too large for a float64: 1.7976931348623158e308 or more."""
    if digits == 0 or power < 290:
        return False
    while digits < 10**17:
        digits *= 10
        power -= 1
    return power > 291 or (power == 291 and digits >= 179769313486231580)


def exact_float32(text: str) -> np.float32:
    """Round decimal text to the nearest float32, ties to even, whatever its length.

    Rounding to float64 first can land on the middle between two float32 and lose on which side of it the text was.

    >>> float(exact_float32("16777217.00000000000000001")), float(np.float32("16777217.00000000000000001"))
    (16777218.0, 16777216.0)
    """
    exact, nearest = Fraction(text), np.float32(float(text))
    neighbours = (nearest, *(np.nextafter(nearest, np.float32(end)) for end in (-np.inf, np.inf)))
    return min(neighbours, key=lambda one: (abs(Fraction(float(one)) - exact), int(one.view(np.uint32)) & 1))
