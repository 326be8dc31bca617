"""Fair exposure: any objective, with a penalty on the disparity of exposure between groups of documents."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rankwise import Stream
from rankwise.base.arrays import read_only
from rankwise.base.compiling import kernel
from rankwise.check.parameters import AtLeast, OneOf
from rankwise.metrics.gains import Gain, checked_gain
from rankwise.objectives import Derivatives, PLRank, Prepared
from rankwise.objectives.plackett_luce import (
    PLACE,
    ranking_model,
    sample_batch,
    samples_at_once,
    tabulate,
    working_memory,
)
from rankwise.objectives.wrappers import (
    PerDocument,
    PreparedKernel,
    Values,
    Wrapper,
    checked_lists,
    columns_for,
    draw_streams,
    longest_of,
    require_stream,
    required,
)
from rankwise.wings.fairness.exposure import MERITS, group_shares


@dataclass(frozen=True, kw_only=True, repr=False)
class fair(Wrapper):  # noqa: N801 (wrappers are adjectives)
    """The inner loss plus ``weight`` times the disparity of exposure between groups (Singh and Joachims 2019).

    It acts on rankings that are drawn from the scores, as ``sample_rankings`` draws them, and not on the list by score,
    which may be as unfair as before: serve drawn rankings, and measure with ``policy="plackett_luce"``.

    Exposure is that of rankings drawn from the scores by Plackett and Luce: the expected 1/log2(1 + rank), 0 beyond the
    ``cutoff``. The disparity of a list is the variance between its groups of exposure over merit, weighted by merit and
    1 on average (``exposure.py``). With ``merit="equal"`` every document deserves the same: 0 is demographic
    parity. With ``merit="proportional"`` merit is the gain of the label: 0 says that no group is treated differently
    from what it is worth; groups without merit in a list are left out of its disparity. Groups are ``groups``, one
    integer or string for each document: those of the data, for a ranker.

    Value and gradient are unbiased: dD/d exposure is linear in the exposure, so the price of a group's exposure is
    estimated from some rankings, and PL-Rank computes the gradient at these prices from other, independent ones. The
    Hessian of the disparity is replaced by the absolute value of its gradient.

    ``cutoff`` and ``samples`` are those of the ``plrank`` inside unless set, and 10 and 100 where there is none.

    >>> d = fair(PLRank(metric="dcg", cutoff=1), weight=2.0)(
    ...     [0.0, np.log(3)], [0, 1], [0, 2], Stream(seed=0), groups=["a", "b"])
    >>> d.value.round(2), d.gradient.round(4)  # −p + 2 (2p − 1)², and (1 − 8 (2p − 1)) p (p − 1), at p = 3/4
    (array([-0.25]), array([-0.5625,  0.5625]))
    """

    weight: Annotated[float, AtLeast(0)] = 1.0
    merit: Annotated[str, OneOf(MERITS)] = "equal"
    gain: Gain = "exponential"
    cutoff: Annotated[int | None, AtLeast(1)] = None
    samples: Annotated[int | None, AtLeast(1)] = None
    name: ClassVar[str] = "fair"
    paper: ClassVar[str] = "Singh and Joachims 2019"
    needs: ClassVar[tuple[str, ...]] = ("groups",)
    estimator: ClassVar[bool] = True
    exact_hessian: ClassVar[bool] = False
    prepares_on_device: ClassVar[bool] = False  # groups are names, which the host numbers

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "gain", checked_gain(self.gain))

    @property
    def exposing(self) -> PLRank:
        """The model of exposure: the first PL-Rank inside, with the discounts of DCG."""
        settings = {name: getattr(self, name) for name in ("cutoff", "samples") if getattr(self, name) is not None}
        if "cutoff" in settings:
            settings["discounts"] = None
        model = ranking_model(self.inner)
        return dataclasses.replace(model, metric="dcg", curvature="gradient", baseline=True, **settings)

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Prepare the inner objective, and compute the groups of every list and their merit."""
        checked, lists = checked_lists(labels, offsets)
        groups = required(self, columns, "the group of every document", "groups")
        shares = group_shares(groups, checked, lists.offsets, self.merit, self.gain)
        inner = self.inner.prepare(checked, lists.offsets, **columns_for(self.inner, self, columns))
        exposing = self.exposing.prepare(checked, lists.offsets, document_rewards=np.zeros(lists.n_docs))
        # Numbers of groups from 0 in each list; −1 for those without merit.
        has_merit = shares.merit > 0.0
        before = np.concatenate(([0], np.cumsum(has_merit)))
        first = before[np.searchsorted(shares.queries, np.arange(lists.n_queries))]
        number = np.where(has_merit, before[:-1] - first[shares.queries], -1)
        return PreparedFair(
            lists=inner.lists,
            objective=self,
            inner=inner,
            exposing=exposing,
            groups=read_only(number[shares.cells]),
            merits=read_only(shares.merit[shares.cells]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedFair(Prepared):
    """An objective, PL-Rank as the model of exposure, and the groups of documents."""

    objective: fair
    inner: Prepared
    exposing: PreparedKernel
    groups: PerDocument
    """The number of each document's group in its list, −1 for groups without merit."""
    merits: PerDocument
    """The merit of each document's group."""

    def fill(self, scores: Values, stream: Stream | None, out: Derivatives) -> None:
        """Add the disparity to the inner derivatives, whose draws do not depend on it."""
        self.inner.fill(scores, stream, out)
        weight = float(self.objective.weight)
        if not weight:
            return
        child = require_stream(stream, self.objective).child("fair")
        rewards = self._rewards(scores, child.child("prices"))
        disparity = self.lists.outputs_like(out)
        self.exposing.with_arguments(rewards=rewards).fill(scores, child.child("rankings"), disparity)
        # The disparity D is quadratic in the exposure and prices are dD/d exposure: Σ price · exposure is 2 D.
        disparity.scale(0.5, 1.0, 1.0)
        self.lists.add(out, weight, disparity)

    def _rewards(self, scores: Values, stream: Stream) -> Values:
        """Return minus the price of each document's exposure, −dD / d exposure, from independent rankings."""
        model = self.exposing.arguments
        rewards, random = self.lists.empty_documents(), self.lists.random(stream, draw_streams(stream))
        arguments = (self.groups, self.merits, model.discounts, model.samples, model.race, model.draws)
        device_kernel = "rankwise.wings.fairness.triton:price"
        self.lists.run(_price, device_kernel, scores, arguments, random, (rewards,), self.exposing.work)
        return self.lists.as_argument(rewards)


@kernel
def _price(  # type: ignore[no-untyped-def]
    first, last, offsets, scores, groups, merits, discounts, samples, race, draws, keys, queries, rewards
):
    """Fill 2 (ā − a) / (exposure of the list) for every document, with a and ā estimated from rankings."""
    longest = longest_of(first, last, offsets)
    floats, integers, batch, at = working_memory(longest)
    exposures = np.empty(longest)
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        number, merit, out = groups[start:end], merits[start:end], rewards[start:end]
        out[:] = 0.0
        n_groups = number.max() + 1
        if n_groups < 2:
            continue
        n = end - start
        head = min(n, discounts.size)
        values = scores[start:end]
        steep = tabulate(values, values, head, floats, integers)
        exposures[:n_groups] = 0.0
        for i in range(0, samples, samples_at_once(head)):
            count = min(samples_at_once(head), samples - i)
            sample_batch(
                race or steep, keys, queries[q], i, count, samples, draws, n, head, floats, integers, batch, at
            )
            for a in range(count):
                for k in range(head):
                    group = number[integers[PLACE, at[a * head + k]]]
                    if group >= 0:
                        exposures[group] += discounts[k]
        total = discounts[:head].sum()
        if total <= 0.0:
            continue
        mean = exposures[:n_groups].sum() / (samples * total)
        for i in range(n):
            if number[i] >= 0:
                out[i] = 2.0 * (mean - exposures[number[i]] / (samples * total * merit[i])) / total
