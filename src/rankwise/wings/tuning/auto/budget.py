"""The time budget of a search, counted over all its runs, and the callback that ends a training in time."""

import math
import time
from collections.abc import Callable, Sequence
from statistics import median

from rankwise import check
from rankwise.rankers.training import History, StopTraining

OVER = "minutes"
"""The reason of a training that ends without time left."""
_UNKNOWN = 0.03
"""The share of all seconds that is reserved for the end until one was measured."""
_PER_LEAF = 1e-4
"""Seconds at the end of a training for each leaf of its trees, until they were measured."""
_FIXED = 0.3
"""The least share of the last end's seconds: not all of it goes by leaves."""
_MOST = 0.1
"""The greatest share of all seconds that is reserved for blends, which may be left out."""
_TOLERANCE = 0.05
"""The share of all seconds that may be exceeded without a note."""
_RECENT = 5
"""The number of rounds from which the time of the next is estimated."""


def clock() -> float:
    """Return seconds since some moment."""
    return time.monotonic()


def longest(seconds: Sequence[float]) -> float:
    """Return the longest time of trainings, but for the first of several: it pays for what is loaded once.

    >>> longest([9.0, 1.0, 2.0]), longest([9.0]), longest([])
    (2.0, 9.0, 0.0)
    """
    return max(seconds[1:] or seconds, default=0.0)


class Budget:
    """So many minutes, of which earlier runs have spent some; None is no limit."""

    def __init__(self, minutes: float | None, spent: float = 0.0) -> None:
        if minutes == 0:
            hint = "`set minutes=None|use --minutes inf` for no limit"
            raise check.error("minutes must be above 0", got=str(minutes), hint=hint)
        self.seconds = (
            math.inf if minutes is None else 60.0 * check.number("minutes", minutes, least=0.0, open_ends=True)
        )
        self.began, self.before = clock(), spent
        self.blends = 0.0
        """Seconds that are reserved for blends."""
        self.closings: Sequence[tuple[float, float]] = ()
        """Of each training: the leaves of its trees, and the seconds after its last round."""
        self.warm = False
        """Whether something was trained already, so that libraries are loaded."""
        self.least = 0.0
        """Seconds until there was a ranker of one round."""
        self.released = False

    @property
    def spent(self) -> float:
        """Seconds of this run and of those before it."""
        return self.before + clock() - self.began

    @property
    def left(self) -> float:
        """Seconds that are left for a training that has just begun; below 0 once they are over."""
        return self.left_with(0.0)

    def left_with(self, leaves: float) -> float:
        """Return the seconds left for the rounds of a training whose trees have so many leaves by now."""
        if math.isinf(self.seconds):
            return math.inf
        reserved = 0.0 if self.released else self.blends + self.closing_with(leaves)
        return self.seconds - reserved - self.spent

    def closing_with(self, leaves: float) -> float:
        """Return the seconds that the end of a training takes at most, by those so far: the more leaves, the longer."""
        closings = self.closings[1:] or self.closings  # the first pays for what is loaded once
        if not closings:
            return max(_UNKNOWN * self.seconds, _PER_LEAF * leaves)
        return max(seconds * (max(_FIXED, leaves / size) if size else 1.0) for size, seconds in closings)

    def reserve(self, blends: float) -> None:
        """Reserve seconds for blends, though not too many."""
        self.blends = min(blends, _MOST * self.seconds)

    @property
    def closing(self) -> float:
        """The median of the seconds after a training's last round."""
        return median(seconds for _, seconds in self.closings) if self.closings else 0.0

    def release(self) -> None:
        """Reserve nothing any more: this is the end."""
        self.released = True

    def exceeded(self) -> str:
        """Return why the time was exceeded; empty where it was not."""
        over = self.spent - self.seconds
        if over <= _TOLERANCE * self.seconds:
            return ""
        why = "the last round, or the end, took longer than those before, as on a busy machine"
        if self.least > self.seconds:
            why = f"there is no ranker before {self.least:.3g} s with these data and threads, of one round of a bag"
        return f"The limit of {self.seconds:.3g} s was exceeded by {over:.3g} s: {why}."


class Timer:
    """The callback of a training: ends it where one more round, as long as the latest, would come too late."""

    def __init__(self, budget: Budget, leaves: Callable[[int], float]) -> None:
        self.budget, self.leaves = budget, leaves
        self.began = self.last = clock()
        self.first: float | None = None
        """Seconds until the first round was done, with its preparation."""
        self.rounds: list[float] = []
        """Seconds of the latest rounds after the first."""

    @property
    def seconds(self) -> float:
        """The seconds of the training so far."""
        return clock() - self.began

    @property
    def since(self) -> float:
        """Seconds since the last round."""
        return clock() - self.last

    def __call__(self, round: int, history: History) -> None:
        """Raise StopTraining after a round where time is up; the best round is kept."""
        now = clock()
        if self.first is None:
            self.first = now - self.began
            takes = self.first if self.budget.warm else 0.0  # at most
        else:
            self.rounds, self.budget.warm = [*self.rounds[1 - _RECENT :], now - self.last], True
            takes = max(self.rounds)
        self.last = now
        left = self.budget.left_with(self.leaves(round + 1))
        if left <= 0.0 or takes > left:
            raise StopTraining(OVER)
