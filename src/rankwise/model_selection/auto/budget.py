"""How long may it take: the minutes of a search, counted over all its runs, and who is told when they are over."""

import math
import time
from collections.abc import Callable, Sequence
from statistics import median

from rankwise import check
from rankwise.rankers.training.exhausted import Exhausted, NothingLearnedError
from rankwise.rankers.training.loop import History

OVER = "minutes"
"""Why a training ends that has no time left."""
_UNKNOWN = 0.03
"""Of all seconds, kept for the end until a training has shown how long that takes."""
_PER_LEAF = 1e-4
"""Seconds at the end of a training for each leaf of its trees, until one has shown more or less."""
_FIXED = 0.3
"""Of what the end of a training took, at least: not all of it goes by leaves."""
_MOST = 0.1
"""Of all seconds, kept at most for blends, which may be left out."""
_TOLERANCE = 0.05
"""Of all seconds, that may be exceeded without a word."""
_RECENT = 5
"""Rounds that say how long the next may take."""


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
            if minutes == 0:
                raise check.error("minutes must be above 0", got=str(minutes), hint="set minutes=None for no limit")
            check.number("minutes", minutes, least=0.0, open_ends=True)
        self.seconds = math.inf if minutes is None else 60.0 * minutes
        self.began, self.before = clock(), spent
        self.blends = 0.0
        """Seconds that are kept for blends."""
        self.closings: Sequence[tuple[float, float]] = ()
        """Of each training: how many leaves its trees had, and how many seconds it took until all about its bag was
        known once it was trained."""
        self.warm = False
        """Whether something was trained already, so that what is loaded once is there."""
        self.least = 0.0
        """Seconds after which there was a ranker of one round, with all that is known about it."""
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
        """Seconds that are left for the rounds of a training whose trees have so many leaves by now."""
        if math.isinf(self.seconds):
            return math.inf
        kept = 0.0 if self.released else self.blends + self.closing_with(leaves)
        return self.seconds - kept - self.spent

    def closing_with(self, leaves: float) -> float:
        """Seconds that the end of a training takes at most, as those so far say: the more leaves, the longer."""
        known = self.closings[1:] or self.closings  # the first pays for what is loaded once
        if not known:
            return max(_UNKNOWN * self.seconds, _PER_LEAF * leaves)
        return max(seconds * (max(_FIXED, leaves / size) if size else 1.0) for size, seconds in known)

    def reserve(self, blends: float) -> None:
        """Keep seconds for blends, though not too many."""
        self.blends = min(blends, _MOST * self.seconds)

    @property
    def closing(self) -> float:
        """Seconds that it takes as a rule until all about a bag is known."""
        return median(seconds for _, seconds in self.closings) if self.closings else 0.0

    def release(self) -> None:
        """Keep nothing any more: this is the end."""
        self.released = True

    def exceeded(self) -> str:
        """Return why the time was exceeded, and what could have been kept; empty where it was kept."""
        over = self.spent - self.seconds
        if over <= _TOLERANCE * self.seconds:
            return ""
        why = "the last round, or the end, took longer than those before, as on a busy machine"
        if self.least > self.seconds:
            why = f"there is no ranker before {self.least:.3g} s with these data and threads, of one round of a bag"
        return f"The limit of {self.seconds:.3g} s was exceeded by {over:.3g} s: {why}."

    def now(self) -> float:
        """Seconds since some moment, to measure how long something takes."""
        return clock()

    def timer(self, leaves: Callable[[int], float]) -> "Timer":
        """Give what watches the next training, whose trees have so many leaves after a round."""
        return Timer(self, leaves)


class Timer:
    """Watches a training: ends it where one more round, as long as the latest, would come after the end."""

    def __init__(self, budget: Budget, leaves: Callable[[int], float]) -> None:
        self.budget, self.leaves = budget, leaves
        self.began = self.last = clock()
        self.first: float | None = None
        """Seconds until the first round was done, with all that had to be made ready for it."""
        self.rounds: list[float] = []
        """Seconds of the latest rounds after the first."""

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
            self.rounds, self.budget.warm = [*self.rounds[1 - _RECENT :], now - self.last], True
            takes = max(self.rounds)
        self.last = now
        left = self.budget.left_with(self.leaves(round + 1))
        if left <= 0.0 or takes > left:
            raise Exhausted(OVER, lambda: NothingLearnedError("no time was left for a round"))
