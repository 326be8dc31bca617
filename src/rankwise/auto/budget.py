"""How long may it take: the minutes of a search, counted over all its runs, and who is told when they are over."""

import math
import time
from typing import Never

from rankwise import check
from rankwise.rankers.training.exhausted import Exhausted, NothingLearnedError
from rankwise.rankers.training.loop import History

OVER = "minutes"
"""Why a training ends that has no time left."""


def clock() -> float:
    """Seconds since some moment."""
    return time.monotonic()


class Budget:
    """So many minutes, of which runs before have spent some; None is no limit."""

    def __init__(self, minutes: float | None, spent: float = 0.0) -> None:
        if minutes is not None:
            check.number("minutes", minutes, least=0.0, open_ends=True)
        self.seconds = math.inf if minutes is None else 60.0 * minutes
        self.began, self.before = clock(), spent

    @property
    def spent(self) -> float:
        """Seconds of this run and of those before it."""
        return self.before + clock() - self.began

    @property
    def left(self) -> float:
        """Seconds that are left; below 0 once they are over."""
        return self.seconds - self.spent

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

    def __call__(self, round: int, history: History) -> None:
        """Look at the clock after a round; what is raised ends the training, and the best round is kept."""
        now = clock()
        if self.first is None:
            self.first = now - self.began
        elif now + (now - self.last) > self.budget.began + self.budget.seconds - self.budget.before:
            self._end()
        if self.budget.left <= 0.0:
            self._end()
        self.last = now

    def _end(self) -> Never:
        raise Exhausted(OVER, lambda: NothingLearnedError("no time was left for a round"))
