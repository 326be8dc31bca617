"""Safe steps away from production: limits on how much exposure every document gains or loses."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, Never

import numpy as np
from numpy.typing import ArrayLike

from rankwise import Stream, check
from rankwise.base.compiling import kernel
from rankwise.check.parameters import AtLeast, Within
from rankwise.objectives import Derivatives, PLRank, Prepared
from rankwise.objectives.plackett_luce import (
    BEFORE,
    CHANCE,
    KEEP,
    PLACE,
    WEIGHT,
    ranking_model,
    sample_batch,
    samples_at_once,
    tabulate,
    working_memory,
)
from rankwise.objectives.wrappers import (
    NoDeviceKernelError,
    PerDocument,
    PerQuery,
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

_NO_CLIP = 1e300  # not infinity, which an exposure of 0 would make NaN
PLACED, APART, TIMES, SUMS = range(4)  # sums over the samples that place a document


@dataclass(frozen=True, kw_only=True, repr=False)
class safe(Wrapper):  # noqa: N801 (wrappers are adjectives)
    """The inner loss with limits on how far the exposure of every document moves from production's.

    Exposure is that of rankings drawn from the scores by Plackett and Luce, with the discounts of the ``plrank``
    inside, or those of DCG@10; ``plrank(discounts=…)`` takes the attention that users pay to positions. Production's is
    that of ``init_scores``: those of the data, or the scores of ``fit(…, init_model=production)``. Training should
    start there, and does so with either.

    - ``clip`` (at least 1; for ``plrank`` alone) is PRPO (Gupta et al. 2024): a document with a reward of 0 or more
      earns nothing beyond ``clip`` times production's exposure, and one with a negative reward nothing below 1/``clip``
      of it.
    - ``floor`` (at most 1) prices every document's exposure below ``floor`` times production's. Below it a document
      earns ``weight`` times the range of its list's rewards more. With a weight above 1 that is more than the place of
      any other document is worth, so that the optimum keeps the floors (an exact penalty). Losses other than ``plrank``
      have no rewards: the price is ``weight`` itself, and a larger one keeps the floors better.

    What is bounded: where every document keeps at least ``floor`` of its exposure, so does any sum of exposure times
    relevance that is not negative: clicks under a position model do not fall below ``floor`` times production's,
    however wrong the rewards are. What is not: ``clip`` alone limits gains, and documents with little exposure may lose
    nearly all of it to the gains of others. Neither limits what training has not seen: other queries, a model that
    cannot tell two documents apart, or rankings sorted by score instead of drawn
    (:func:`rankwise.objectives.sample_rankings`). Limits hold up to the noise of ``samples`` draws, by which exposures
    are estimated, and to the size of steps.

    Exposures of a document and of production are estimated from the same random numbers, apart from those of the
    gradient: at production's scores both are equal to the last bit. The Hessian of the price of exposure is the
    absolute value of its gradient. A call costs three to four times that of ``plrank``. There is no kernel for devices.

    >>> limited = safe(PLRank(metric="dcg", cutoff=1), clip=1.5, floor=None)
    >>> lists = {"labels": [0, 1], "offsets": [0, 2], "stream": Stream(seed=0)}
    >>> for scores in ([0.0, 0.0], [0.0, np.log(2)], [0.0, np.log(4)]):  # the second document has 1/2, 2/3, 4/5
    ...     limited(scores, **lists, init_scores=[0.0, 0.0]).gradient.round(4)
    array([ 0.25, -0.25])
    array([ 0.2222, -0.2222])
    array([0., 0.])
    """

    clip: Annotated[float | None, AtLeast(1)] = None
    floor: Annotated[float | None, Within(0, 1)] = 0.9
    weight: Annotated[float, AtLeast(1)] = 2.0
    name: ClassVar[str] = "safe"
    paper: ClassVar[str] = "Gupta et al. 2024"
    estimator: ClassVar[bool] = True
    exact_hessian: ClassVar[bool] = False
    prepares_on_device: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clip is not None and not isinstance(self.inner, PLRank):
            hint = "set floor alone, or write safe(plrank, clip=…)"
            raise check.error("clip limits the rewards of plrank", got=repr(self.inner), hint=hint)

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Production's scores, where there are limits."""
        return () if self.clip is None and self.floor is None else ("init_scores",)

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Prepare the inner objective, and the price of exposure in each list."""
        checked, lists = checked_lists(labels, offsets)
        inner: Any = self.inner.prepare(checked, lists.offsets, **columns_for(self.inner, self, columns))
        if self.clip is None and self.floor is None:
            return inner  # type: ignore[no-any-return]
        what, otherwise = "production's score of every document", "train with init_model=production"
        production = lists.checked("init_scores", required(self, columns, what, "init_score", otherwise))
        model = dataclasses.replace(ranking_model(self.inner), curvature="gradient", baseline=True)
        largest = check.LARGEST_SCORE  # as of scores
        rewards, prices = np.zeros(lists.n_docs), np.full(lists.n_queries, float(self.weight))
        if isinstance(self.inner, PLRank):
            rewards = inner.arguments.rewards
            spread = -lists.minima(np.minimum(-rewards, 0.0)) - lists.minima(np.minimum(rewards, 0.0))
            prices = self.weight * lists.positive_or_one(spread)  # lists without rewards are moved by other lists
        return PreparedSafe(
            lists=inner.lists,
            objective=self,
            inner=inner,
            exposing=model.prepare(checked, lists.offsets, document_rewards=np.zeros(lists.n_docs)),
            production=lists.as_argument(production.clip(-largest, largest)),
            rewards=lists.as_argument(rewards),
            prices=lists.as_argument(prices),
        )


class Limits(NamedTuple):
    """Rewards within the limits, at some scores."""

    gated: Values
    """(n_docs,) the reward of each document, 0 beyond the clip."""
    below: Values
    """(n_docs,) the price of each document's exposure if it is below the floor, else 0."""
    beyond: Values
    """(n_queries,) minus what documents beyond the clip have earned up to there."""
    owed: Values
    """(n_queries,) the price of the floors of documents below them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedSafe(Prepared):
    """An objective, PL-Rank as the model of exposure, and production's scores."""

    objective: safe
    inner: Prepared
    exposing: PreparedKernel
    production: PerDocument
    rewards: PerDocument
    """Those of the plrank inside, else 0."""
    prices: PerQuery
    """The price of exposure below the floor."""

    def fill(self, scores: Values, stream: Stream | None, out: Derivatives) -> None:
        """Fill the inner derivatives with the rewards within the limits, and add the price of exposure."""
        settings, inner = self.objective, self.inner
        child = require_stream(stream, settings).child("safe")
        limits = self._limits(scores, child.child("exposures"))
        if settings.clip is not None and isinstance(inner, PreparedKernel):
            inner = inner.with_arguments(rewards=limits.gated)
        inner.fill(scores, stream, out)
        out.value[:] = out.value + limits.beyond
        if limits.below.any():
            price = self.lists.outputs_like(out)
            self.exposing.with_arguments(rewards=limits.below).fill(scores, child.child("rankings"), price)
            price.value[:] = price.value + limits.owed
            self.lists.add(out, 1.0, price)

    def _limits(self, scores: Values, stream: Stream) -> Limits:
        lists, model, settings = self.lists, self.exposing.arguments, self.objective
        clip = _NO_CLIP if settings.clip is None else float(settings.clip)
        floor = 0.0 if settings.floor is None else float(settings.floor)
        drawn = model.discounts, model.samples, model.race, model.draws
        arguments = (self.production, self.rewards, self.prices, *drawn, clip, floor)
        limits = Limits(lists.empty_documents(), lists.empty_documents(), lists.empty_queries(), lists.empty_queries())
        random = lists.random(stream, draw_streams(stream))
        lists.run(_limit, "", scores, arguments, random, limits, self.exposing.work)
        return limits._replace(gated=lists.as_argument(limits.gated), below=lists.as_argument(limits.below))

    def move(self, lists: object) -> Never:
        """Raise: only the CPU estimates exposures."""
        raise NoDeviceKernelError(self.objective)


@kernel
def _limit(  # type: ignore[no-untyped-def]
    first, last, offsets, scores, production, rewards, prices, discounts, samples, race, draws, clip, floor,
    keys, queries, gated, below, beyond, owed,
):  # fmt: skip
    """Fill the rewards within the limits, with exposures estimated from rankings."""
    longest = longest_of(first, last, offsets)
    floats, integers, batch, at = working_memory(longest)
    now, before, sums = np.empty(longest), np.empty(longest), np.empty((longest, SUMS))
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        for values, out in ((scores[start:end], now), (production[start:end], before)):
            _expose(values, discounts, samples, race, draws, keys, queries[q], floats, integers, batch, at, sums, out)
        beyond[q] = owed[q] = 0.0
        for i in range(end - start):
            reward, most, least = rewards[start + i], clip * before[i], before[i] / clip
            gated[start + i] = reward
            if reward >= 0.0 and now[i] >= most:
                gated[start + i] = 0.0
                beyond[q] -= most * reward
            elif reward < 0.0 and now[i] <= least:
                gated[start + i] = 0.0
                beyond[q] -= least * reward
            below[start + i] = 0.0
            if now[i] < floor * before[i]:
                below[start + i] = prices[q]
                owed[q] += prices[q] * floor * before[i]


@kernel
def _expose(scores, discounts, samples, race, draws, keys, query, floats, integers, batch, at, sums, out):  # type: ignore[no-untyped-def]
    """Fill the exposure of each document: the mean, over drawn rankings, of its chance at each rank given those before.

    As PL-Rank's kernel does, sums are relative to the mass left, and documents that a ranking does not place share one.
    """
    n = scores.size
    head = min(n, discounts.size)
    if n == 1:
        out[0] = discounts[0]
        return
    steep = tabulate(scores, scores, head, floats, integers)
    chance, keep, total, most = batch[CHANCE], batch[KEEP], 0.0, discounts[:head].sum()
    sums[:n] = 0.0
    for i in range(0, samples, samples_at_once(head)):
        count = min(samples_at_once(head), samples - i)
        sample_batch(race or steep, keys, query, i, count, samples, draws, n, head, floats, integers, batch, at)
        for a in range(count):
            row, discount, keep_before = a * head, 0.0, 0.0
            for k in range(row, row + head):
                discount = discounts[k - row] + keep_before * discount
                keep_before = keep[k]
                sums[at[k], PLACED] += chance[k] * discount
                sums[at[k], TIMES] += 1.0
            discount /= batch[BEFORE, a]
            total += discount
            for k in range(row, row + head):
                sums[at[k], APART] += discount
    for j in range(n):
        times, apart = sums[j, TIMES], floats[WEIGHT, j] * (total - sums[j, APART])
        apart = min(max(apart, 0.0), (samples - times) * most)  # which a difference of large sums may miss
        out[integers[PLACE, j]] = (sums[j, PLACED] + apart) / samples
