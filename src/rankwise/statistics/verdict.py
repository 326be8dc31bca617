"""What a comparison says, in words: which system is best, by how much, and how sure that is."""

from typing import TYPE_CHECKING, NamedTuple

from rankwise.base import tables
from rankwise.statistics.significance import alpha, holm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankwise.statistics.comparison import Comparison


class Gain(NamedTuple):
    """What one system gains over another by one metric, over queries or trials.

    >>> print(Gain(0.002, -0.003, 0.007, 0.41, wins=26, ties=48, losses=26))
    +0.002 [−0.003, +0.007], p = 0.410, better on 26, equal on 48 and worse on 26 of 100 queries
    """

    difference: float
    low: float
    high: float
    p: float
    wins: int
    ties: int
    losses: int
    unit: str = "query"
    unsettled: bool = False
    """Whether it depends on documents that were never judged."""

    @property
    def units(self) -> int:
        """How many queries or trials there are."""
        return self.wins + self.ties + self.losses

    def __str__(self) -> str:
        units = tables.count(self.units, self.unit, {"query": "queries"}.get(self.unit))
        interval = tables.interval(self.low, self.high, 3, signed=True)
        counts = f"better on {self.wins:,}, equal on {self.ties:,} and worse on {self.losses:,} of {units}"
        return f"{tables.number(self.difference, 3, signed=True)} {interval}, {p_value(self.p)}, {counts}"


class Finding(NamedTuple):
    """The order of the systems by one metric, and which of them the best one beats by more than chance.

    >>> import rankwise as rw
    >>> good = rw.Evaluation({"ap": [0.5, 0.6, 0.7, 0.8, 0.9, 0.7]}, range(6))
    >>> poor = rw.Evaluation({"ap": [0.4, 0.4, 0.5, 0.7, 0.6, 0.3]}, range(6))
    >>> Finding.of(rw.compare({"poor": poor, "good": good}), "ap")
    Finding(metric='ap', ranked=['good', 'poor'], close=[], beaten=['poor'], unsettled=())
    """

    metric: str
    ranked: list[str]
    close: list[str]
    """Those that the best one does not beat by more than chance, the better first."""
    beaten: list[str]
    unsettled: tuple[str, ...] = ()
    """Those of ``close`` that it would beat if documents that were never judged were not relevant."""

    @classmethod
    def of(cls, comparison: "Comparison", metric: str) -> "Finding":
        """Read the verdict from a comparison in which every pair was tested."""
        means = comparison.mean[metric]
        ranked = sorted(means, key=lambda name: -means[name])
        best, *rest = ranked
        gains = {name: gain(comparison, metric, best, name) for name in rest}
        ahead = [name for name, one in gains.items() if one.p < alpha(comparison.level) and one.low > 0.0]
        unsettled = tuple(name for name in ahead if gains[name].unsettled)
        beaten = [name for name in ahead if name not in unsettled]
        return cls(metric, ranked, [name for name in rest if name not in beaten], beaten, unsettled)

    def headline(self) -> str:
        """Return in one line what the tests support, and no more.

        >>> Finding("ap", ["a", "b"], close=[], beaten=["b"]).headline()
        'a ranks best'
        >>> Finding("ap", ["a", "b", "c"], close=["b"], beaten=["c"]).headline()
        'a and b lead, and the tests do not tell them apart'
        >>> Finding("ap", ["a", "b"], close=["b"], beaten=[]).headline()
        'no method is ahead by more than chance'
        >>> Finding("ap", ["a", "b"], close=["b"], beaten=[], unsettled=("b",)).headline()
        'who is ahead depends on documents that were never judged'
        """
        if not self.close:
            return f"{self.ranked[0]} ranks best"
        if not self.beaten and self.unsettled:
            return "who is ahead depends on documents that were never judged"
        if not self.beaten:
            return "no method is ahead by more than chance"
        few = len(self.close) < 3
        leading = [self.ranked[0], *(self.close if few else [f"{len(self.close)} others"])]
        return f"{listed(leading)} lead, and the tests do not tell them apart"


def gain(comparison: "Comparison", metric: str, better: str, worse: str) -> Gain:
    """Return the difference between two systems, whichever way round it was tested.

    The p-value is that of the test that decides, or of the one that allows for trials that share data, if that is less
    sure: a comparison may follow a paper whose test does not.
    """
    tested = [pair for pair in comparison.pairs if pair.metric == metric]
    careful = [pair.p_adjusted if pair.p_corrected_t is None else pair.p_corrected_t for pair in tested]
    if comparison.overlap is not None and comparison.correction == "holm":
        careful = holm(careful).tolist()
    for pair, p in zip(tested, careful, strict=True):
        if {pair.system, pair.against} == {better, worse}:
            p, about = max(p, pair.p_adjusted), (comparison.paired.unit, pair.unsettled)
            if pair.system == better:
                return Gain(pair.difference, pair.low, pair.high, p, pair.wins, pair.ties, pair.losses, *about)
            return Gain(-pair.difference, -pair.high, -pair.low, p, pair.losses, pair.ties, pair.wins, *about)
    raise KeyError(f"{better} and {worse} were not compared")


def verdict(difference: float, p: float, alpha: float) -> str:
    """Return what a test says of a system: "better" or "worse" than the other, or "unclear".

    >>> verdict(0.1, 0.01, 0.05), verdict(-0.1, 0.01, 0.05), verdict(0.1, 0.2, 0.05)
    ('better', 'worse', 'unclear')
    """
    return "unclear" if not p < alpha else "better" if difference > 0.0 else "worse"


def p_value(p: float) -> str:
    """Write a p-value as one says it.

    >>> p_value(0.0312), p_value(0.0001)
    ('p = 0.031', 'p < 0.001')
    """
    text = tables.probability(p)
    return f"p < {text[1:]}" if text.startswith("<") else f"p = {text}"


def listed(names: "Sequence[str]") -> str:
    """Join names as one says them.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    >>> listed(["a, tuned", "b", "c"])
    'a, tuned; b; and c'
    """
    if len(names) > 2 and any(", " in name for name in names):
        return "; ".join([*names[:-1], f"and {names[-1]}"])
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
