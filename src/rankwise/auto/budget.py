"""How long may it take: the minutes of a search, counted over all its runs, and who is told when they are over."""

import math
import time
from collections.abc import Sequence
from statistics import median

from rankwise import check
from rankwise.rankers.training.exhausted import Exhausted, NothingLearnedError
from rankwise.rankers.training.loop import History

OVER = "minutes"
"""Why a training ends that has no time left."""
_UNKNOWN = 0.03
"""Of all seconds, kept for the end until a training has shown how long that takes."""
_MOST = 0.1
"""Of all seconds, kept at most for blends, which may be left out."""


def clock() -> float:
    """Seconds since some moment."""
    return time.monotonic()


def longest(seconds: Sequence[float]) -> float:
    """The longest of what trainings took, but for the first of several: it pays for what is loaded once.

    >>> longest([9.0, 1.0, 2.0]), longest([9.0]), longest([])
    (2.0, 9.0, 0.0)
    """
    return max(seconds[1:] or seconds, default=0.0)


class Budget:
    """So many minutes, of which runs before have spent some; None is no limit."""

    def __init__(self, minutes: float | None, spent: float = 0.0) -> None:
        if minutes is not None:
            check.number("minutes", minutes, least=0.0, open_ends=True)
        self.seconds = math.inf if minutes is None else 60.0 * minutes
        self.began, self.before = clock(), spent
        self.reserved = 0.0 if minutes is None else _UNKNOWN * self.seconds
        """Seconds for what comes after the last round."""
        self.closings: Sequence[float] = ()
        """Seconds that it took until all about a bag was known once it was trained, of each."""
        self.warm = False
        """Whether something was trained already, so that what is loaded once is there."""

    @property
    def spent(self) -> float:
        """Seconds of this run and of those before it."""
        return self.before + clock() - self.began

    @property
    def left(self) -> float:
        """Seconds that are left for trainings; below 0 once they are over."""
        return self.seconds - self.reserved - self.spent

    def reserve(self, blends: float) -> None:
        """Keep seconds for the end of a training and for blends, though not too many for these."""
        if math.isfinite(self.seconds):
            self.reserved = longest(self.closings) + min(blends, _MOST * self.seconds)

    @property
    def closing(self) -> float:
        """Seconds that it takes as a rule until all about a bag is known."""
        return median(self.closings) if self.closings else 0.0

    def release(self) -> None:
        """Keep nothing any more: this is the end."""
        self.reserved = 0.0

    def now(self) -> float:
        """Seconds since some moment, to measure how long something takes."""
        return clock()

    def timer(self) -> "Timer":
        """Give what watches the next training."""
        return Timer(self)


class Timer:
    """Watches a training: ends it where one more round, as long as those so far, would come after the end."""

    def __init__(self, budget: Budget) -> None:
        self.budget, self.began, self.last = budget, clock(), clock()
        self.first: float | None = None
        """Seconds until the first round was done, with all that had to be made ready for it."""

    @property
    def seconds(self) -> float:
        """How long the training took so far."""
        return clock() - self.began

    @property
    def since(self) -> float:
        """Seconds since the last round."""
        return clock() - self.last

    def __call__(self, round: int, history: History) -> None:
        """Look at the clock after a round; what is raised ends the training, and the best round is kept."""
        now = clock()
        if self.first is None:
            self.first = now - self.began
            takes = self.first if self.budget.warm else 0.0  # at most
        else:
            takes, self.budget.warm = now - self.last, True
        self.last = now
        left = self.budget.left
        if left <= 0.0 or takes > left:
            raise Exhausted(OVER, lambda: NothingLearnedError("no time was left for a round"))
