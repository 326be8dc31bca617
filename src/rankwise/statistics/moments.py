"""Mean and standard error of what is drawn many times."""

import numpy as np

from rankwise.arrays import Array


class Moments:
    """Mean and standard error of numbers that come one draw at a time.

    Sums are of differences from the first draw: what is the same in every draw has an error of exactly 0.
    """

    def __init__(self, size: int) -> None:
        self.count, self.first = 0, np.zeros(size)
        self.sum, self.squares = np.zeros(size), np.zeros(size)

    def add(self, values: Array) -> None:
        """Add the numbers of one more draw."""
        if not self.count:
            self.first = values
        self.count += 1
        difference = values - self.first
        self.sum += difference
        self.squares += difference**2

    def mean(self) -> Array:
        """The mean over draws."""
        return self.first + self.sum / self.count

    def error(self) -> Array:
        """The standard error of the mean."""
        spread = np.maximum(self.squares - self.sum**2 / self.count, 0.0) / (self.count - 1)
        return np.sqrt(spread / self.count)
