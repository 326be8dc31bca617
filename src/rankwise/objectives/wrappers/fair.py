"""Fair exposure: any objective, with a penalty on the disparity of exposure between groups of documents."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, read_only, reusable, rows_of
from rankwise.kernels import kernel
from rankwise.metrics.base import Gain, checked_gain, longest_of
from rankwise.metrics.exposure import MERITS, group_shares
from rankwise.objectives.adapted import as_objective
from rankwise.objectives.base import Derivatives, Objective, Prepared, add, drawing, handed
from rankwise.objectives.plackett_luce.draws import draw, keys
from rankwise.objectives.plackett_luce.plrank import PLRank
from rankwise.objectives.plackett_luce.table import PLACE, samples_at_once, tabulate, working_memory
from rankwise.objectives.prepared import PreparedKernel, checked_lists
from rankwise.stream import Stream
from rankwise.threads import over_queries


@dataclass(frozen=True, repr=False)
class fair(Objective):  # noqa: N801 (wrappers are adjectives)
    """The inner loss plus ``weight`` times the disparity of exposure between groups (Singh and Joachims 2019).

    Exposure is that of rankings drawn from the scores by Plackett and Luce: the expected 1/log2(1 + rank), 0 beyond the
    ``cutoff``. The disparity of a list is the variance between its groups of exposure over merit, weighted by merit and
    1 on average (``metrics/exposure.py``). With ``merit="equal"`` every document deserves the same: 0 is demographic
    parity. With ``merit="proportional"`` merit is the gain of the label: 0 says that no group is treated differently
    from what it is worth; groups without merit in a list are left out of its disparity. Groups are ``groups``, one
    integer or string for each document: those of the data, for a ranker.

    Value and gradient are unbiased: dD/d exposure is linear in the exposure, so the price of a group's exposure is
    estimated from some rankings, and PL-Rank gives the gradient at these prices from other, independent ones. What
    stands for the Hessian of the disparity is the size of its gradient, which is never negative.

    ``cutoff`` and ``samples`` are those of the ``plrank`` inside unless set, and 10 and 100 where there is none.

    >>> d = fair(PLRank(metric="dcg", cutoff=1), weight=2.0)(
    ...     [0.0, np.log(3)], [0, 1], [0, 2], Stream(seed=0), groups=["a", "b"])
    >>> d.value.round(2), d.gradient.round(4)  # −p + 2 (2p − 1)², and (1 − 8 (2p − 1)) p (p − 1), at p = 3/4
    (array([-0.25]), array([-0.5625,  0.5625]))
    """

    inner: Objective
    weight: float = field(default=1.0, kw_only=True)
    merit: str = field(default="equal", kw_only=True)
    gain: Gain = field(default="exponential", kw_only=True)
    cutoff: int | None = field(default=None, kw_only=True)
    samples: int | None = field(default=None, kw_only=True)
    name: ClassVar[str] = "fair"
    paper: ClassVar[str] = "Singh and Joachims 2019"
    estimator: ClassVar[bool] = True
    exact_hessian: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check.number("weight", self.weight, least=0.0)
        check.choice("merit", self.merit, MERITS)
        object.__setattr__(self, "gain", checked_gain(self.gain))
        for name in ("cutoff", "samples"):
            if getattr(self, name) is not None:
                check.integer(name, getattr(self, name), least=1)
        object.__setattr__(self, "inner", as_objective(self.inner, self.name))

    @property
    def inside(self) -> tuple[Objective, ...]:
        """The inner objective."""
        return (self.inner,)

    @property
    def reads(self) -> tuple[str, ...]:
        """Groups, and what the inner objective looks at."""
        return tuple(dict.fromkeys(("groups", *self.inner.reads)))

    @property
    def exposing(self) -> PLRank:
        """What draws the rankings that expose documents: the first PL-Rank inside with the discounts of DCG."""
        drawn = next((part for part in _parts(self.inner) if isinstance(part, PLRank)), PLRank())
        own = {name: getattr(self, name) for name in ("cutoff", "samples") if getattr(self, name) is not None}
        if "cutoff" in own:
            own["discounts"] = None
        return dataclasses.replace(drawn, metric="dcg", curvature="gradient", baseline=True, **own)

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Prepare the inner objective, and find the groups of every list and what they deserve."""
        lists = checked_lists(labels, offsets)
        if "groups" not in documents:
            raise check.error(
                f"{self.name} needs the group of every document",
                got="data without groups",
                hint="set groups=…, the column that holds them, where the data are read",
            )
        shares = group_shares(documents["groups"], *lists, self.merit, self.gain)
        inner = self.inner.prepare(*lists, **handed(self, self.inner, documents))
        priced = self.exposing.prepare(*lists, document_rewards=np.zeros(lists.labels.size))
        # Numbers of groups from 0 in each list; −1 for those without merit.
        has_merit = shares.merit > 0.0
        before = np.concatenate(([0], np.cumsum(has_merit)))
        first = before[np.searchsorted(shares.queries, np.arange(lists.n_queries))]
        number = np.where(has_merit, before[:-1] - first[shares.queries], -1)
        columns = read_only(number[shares.cells]), read_only(shares.merit[shares.cells])
        return PreparedFair(self, inner, priced, columns)


def _parts(objective: Objective) -> Iterator[Objective]:
    yield objective
    for part in objective.inside:
        yield from _parts(part)


class PreparedFair(Prepared):
    """An objective and what exposes documents, both prepared, with the groups of documents."""

    def __init__(
        self,
        objective: fair,
        inner: Prepared,
        priced: PreparedKernel,
        columns: tuple[NDArray[np.int64], Array],
    ) -> None:
        self.objective, self.inner, self.priced, self.columns = objective, inner, priced, columns
        self.offsets = inner.offsets

    def differentiate(self, scores: Array, stream: Stream | None, hessian: bool) -> Derivatives:
        """Add the disparity to the inner derivatives, which draw what they would draw alone."""
        part = self.inner.differentiate(scores, stream, hessian)
        weight = float(self.objective.weight)
        if not weight:
            return part
        own = drawing(stream, self.objective).child("fair")
        rewards = self._rewards(scores, own.child("prices"))
        at_prices = dataclasses.replace(self.priced, per_document=(read_only(rewards),))
        found = at_prices.differentiate(scores, own.child("rankings"), hessian)
        # D is quadratic in the exposure and its own prices are dD/d exposure: Σ price · exposure is 2 D.
        found = found._replace(value=0.5 * found.value)
        return add(add(None, 1.0, part), weight, found)

    def take(self, queries: NDArray[np.int64]) -> Prepared:
        """Take the queries of the inner objective, with their groups."""
        rows = rows_of(queries, self.offsets)[0]
        columns = read_only(self.columns[0][rows]), read_only(self.columns[1][rows])
        return PreparedFair(self.objective, self.inner.take(queries), self.priced.take(queries), columns)

    def _rewards(self, scores: Array, stream: Stream) -> Array:
        """Minus the price of each document's exposure: −dD / d exposure, from rankings of its own."""
        rewards = reusable(scores.size)
        words = read_only(stream.queries(self.n_queries))
        thetas, samples, race, draws, _ = self.priced.settings
        columns = (scores, *self.columns, thetas, samples, race, draws, keys(stream), words, rewards)
        over_queries(_price, self.offsets, *columns, work=self.priced.work)
        return rewards


@kernel
def _price(  # type: ignore[no-untyped-def]
    first, last, offsets, scores, numbers, merits, thetas, samples, race, draws, key, queries, rewards
):
    """Fill 2 (ā − a) / (exposure of the list) for every document, with a and ā estimated from rankings."""
    longest = longest_of(first, last, offsets)
    table, whole, batch, at = working_memory(longest)
    seen = np.empty(longest)
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        number, merit, out = numbers[start:end], merits[start:end], rewards[start:end]
        out[:] = 0.0
        n_groups = number.max() + 1
        if n_groups < 2:
            continue
        n = end - start
        head = min(n, thetas.size)
        values = scores[start:end]
        steep = tabulate(values, values, head, table, whole)
        seen[:n_groups] = 0.0
        for i in range(0, samples, samples_at_once(head)):
            count = min(samples_at_once(head), samples - i)
            draw(race or steep, key, queries[q], i, count, samples, draws, n, head, table, whole, batch, at)
            for a in range(count):
                for k in range(head):
                    group = number[whole[PLACE, at[a * head + k]]]
                    if group >= 0:
                        seen[group] += thetas[k]
        total = thetas[:head].sum()
        if total <= 0.0:
            continue
        mean = seen[:n_groups].sum() / (samples * total)
        for i in range(n):
            if number[i] >= 0:
                out[i] = 2.0 * (mean - seen[number[i]] / (samples * total * merit[i])) / total
