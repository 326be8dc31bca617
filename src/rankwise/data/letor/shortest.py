"""A float32 as the shortest decimal text that reads back to the same bits, inside kernels.

Nine digits always tell a float32. Digits are dropped from the end as long as what remains is still nearer to this
float32 than to its neighbours.
"""

import numpy as np

from rankwise.compiling import kernel
from rankwise.data.letor.decimals import POWERS

MOST_BYTES = 16


@kernel(forceinline=True)
def write_whole(out, at, number):  # type: ignore[no-untyped-def]
    """Write a whole number of 0 or more; gives where it ends."""
    count = 1
    rest = number // 10
    while rest > 0:
        count += 1
        rest //= 10
    for place in range(at + count - 1, at - 1, -1):
        out[place] = 48 + number % 10
        number //= 10
    return at + count


@kernel
def _shortest(value, bits):  # type: ignore[no-untyped-def]
    """Find the fewest digits, as (integer, power of ten), that are nearer to ``value`` than to any other float32."""
    exponent = max(bits >> 23, 1) - 150
    up = np.ldexp(0.5, exponent)  # half the way to the next float32 above, and below
    down = up * 0.5 if (bits & 0x7FFFFF) == 0 and exponent > -149 else up
    power = np.int64(np.floor(np.log10(value))) - 8
    scale = POWERS[-power] if power < 0 else POWERS[power]
    scaled = value * scale if power < 0 else value / scale
    up = (up * scale if power < 0 else up / scale) * (1 - 1e-7)
    down = (down * scale if power < 0 else down / scale) * (1 - 1e-7)
    digits = np.int64(np.floor(scaled + 0.5))
    unit = np.int64(10)
    found = np.int64(1)
    while unit <= 100_000_000:
        low = np.int64(np.floor(scaled / unit)) * unit
        high = low + unit
        fits_low, fits_high = scaled - low < down, high - scaled < up
        if fits_low and (scaled - low <= high - scaled or not fits_high):
            digits = low
        elif fits_high:
            digits = high
        else:
            break
        found = unit
        unit *= 10
    while found > 1:
        digits //= 10
        power += 1
        found //= 10
    while digits % 10 == 0:
        digits //= 10
        power += 1
    return digits, power


@kernel(forceinline=True)
def write_float32(out, at, value):  # type: ignore[no-untyped-def]
    """Write a float32 with the fewest digits that read back to the same bits; gives where it ends.

    That takes at most :data:`MOST_BYTES`.
    """
    bits = np.int64(np.float32(value).view(np.uint32))
    if bits >> 31:
        out[at] = 45
        at += 1
        bits &= 0x7FFFFFFF
    if bits >= 0x7F800000:
        word = (105, 110, 102) if bits == 0x7F800000 else (110, 97, 110)
        if bits > 0x7F800000 and out[at - 1] == 45:
            at -= 1
        for letter in word:
            out[at] = letter
            at += 1
        return at
    size = abs(np.float64(value))
    if size < 16777216.0 and size == np.floor(size):
        return write_whole(out, at, np.int64(size))
    return _write_digits(out, at, size, bits)


@kernel
def _write_digits(out, at, size, bits):  # type: ignore[no-untyped-def]
    digits, power = _shortest(size, bits)
    count = np.int64(1)
    top = np.int64(10)
    while top <= digits:
        top *= 10
        count += 1
    point = count + power  # digits before the decimal point
    if power >= 0 and point <= 10:
        return write_whole(out, at, digits * np.int64(POWERS[power]))
    if -4 < point <= 0:
        out[at], out[at + 1] = 48, 46
        at += 2
        for _ in range(-point):
            out[at] = 48
            at += 1
        return write_whole(out, at, digits)
    if power < 0 < point:
        end = at + count + 1
        for place in range(end - 1, at - 1, -1):
            if place == at + point:
                out[place] = 46
            else:
                out[place] = 48 + digits % 10
                digits //= 10
        return end
    at = write_whole(out, at, digits)  # 125e-7
    out[at] = 101
    at += 1
    if power < 0:
        out[at] = 45
        at += 1
    return write_whole(out, at, abs(power))
