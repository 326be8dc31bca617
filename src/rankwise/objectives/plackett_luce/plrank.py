"""PL-Rank: the expected reward of rankings drawn by score, with gradient and diagonal Hessian from the same draws.

A ranking places documents one by one; the chance of d at rank k is p_k(d) = exp(s_d) / Z_k, where Z_k sums over what is
left. Let F_k be the reward that follows rank k and G_k that from rank k on (PR_{k+1} and PR_k in the paper). For a
document placed at rank r (or never: then r is the last rank and F_r counts as 0), with e = exp(s_d) and DN_r = Σ 1/Z_k,

    gradient  F_r + e Σ_{k≤r} (θ_k ρ_d − G_k) / Z_k
    Hessian   F_r (1 − 2 e DN_r) + e Σ_{k≤r} (θ_k ρ_d − G_k) / Z_k + 2 e² Σ_{k≤r} (G_k − θ_k ρ_d) DN_k / Z_k

of the expected reward, each in expectation over rankings. The Hessian is that of the paper in fewer terms. Seen as
sums over ranks, both weigh F_k with a factor whose mean, given the documents placed before k, is zero. So anything
that is known before rank k may be taken from F_k: the baseline takes the mean reward of the documents left, times the
rank weights to come, and puts the expectation of θ_k ρ in the place of what rank k happened to get.

All sums are kept relative to the mass that is left, e / Z_k = p_k ≤ 1, and documents that a ranking does not place
share their sums, so that a ranking costs as much as it has ranks and the list is gone through once.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.arrays import Array, Offsets, read_only
from rankwise.compiling import kernel
from rankwise.metrics.base import Gain, checked_gain, discounts, longest_of
from rankwise.metrics.ideal import gains_and_ideal
from rankwise.metrics.permutations import LINEAR, Orderings
from rankwise.objectives import curvature
from rankwise.objectives.base import Objective
from rankwise.objectives.plackett_luce.draws import DRAWS, SAMPLERS, draw, draw_streams
from rankwise.objectives.plackett_luce.table import (
    AFTER,
    BEFORE,
    CHANCE,
    KEEP,
    PLACE,
    WEIGHT,
    WORTH,
    samples_at_once,
    tabulate,
    working_memory,
)
from rankwise.objectives.lists import Lists, Values
from rankwise.objectives.prepared import PerDocument, PreparedKernel, checked_lists, reject_columns

_METRICS = ("ndcg", "dcg", "precision", "rbp")


@dataclass(frozen=True, kw_only=True, repr=False)
class PLRank(Objective):
    """Minus the expected reward of a ranking drawn from the scores (Kang, de Rijke and Oosterhuis 2024).

    >>> from rankwise.stream import Stream
    >>> d = PLRank(metric="dcg", cutoff=1, curvature="estimated")([0.0, np.log(3)], [0, 1], [0, 2], Stream(seed=0))
    >>> d.value, d.gradient, d.hessian  # −p, ±p(1 − p) and p(1 − p)(2p − 1) at p = 3/4
    (array([-0.75]), array([ 0.1875, -0.1875]), array([0.09375, 0.09375]))
    """

    metric: str = "ndcg"
    """What is expected: "ndcg" (gains over the ideal DCG), "dcg", "precision", or "rbp" with persistence ``p``."""
    cutoff: int = 10
    """Only the first so many ranks count."""
    samples: int = 100
    """Rankings drawn per query."""
    gain: Gain = "exponential"
    """Reward of a label in ndcg and dcg: 2^y − 1 ("exponential"), y ("linear"), or a table."""
    relevant: float = 1.0
    """Labels from this on have the reward 1 in precision and rbp."""
    p: float = 0.9
    """How likely the user of rbp goes on to the next rank."""
    discounts: tuple[float, ...] | None = None
    """Weights of the ranks, in the place of the metric's own and of the cutoff."""
    sampler: str = "sequence"
    """"sequence" draws from a table, rank by rank; "race" draws an exponential per document."""
    draws: str = "latin"
    """How the samples of a query hang together: "independent", "antithetic" pairs, or "latin" strata."""
    baseline: bool = True
    """Take the expected reward, given what was placed before, from that which followed: less noise, same mean."""
    curvature: str = "gradient"
    """What stands for the Hessian: the "estimated" one, which is negative for many documents, or what tree learners
    can divide by: its size ("absolute"), a floor ("floored"), "ones", or the size of the "gradient"."""
    estimator: ClassVar[bool] = True
    name: ClassVar[str] = "plrank"
    paper: ClassVar[str] = "Kang et al. 2024"

    def __post_init__(self) -> None:
        check.choice("metric to expect", self.metric, _METRICS)
        check.integer("cutoff", self.cutoff, least=1)
        check.integer("samples", self.samples, least=1)
        object.__setattr__(self, "gain", checked_gain(self.gain))
        check.number("relevant", self.relevant)
        check.number("p", self.p, least=0.0, most=1.0, open_ends=True)
        if self.discounts is not None:
            object.__setattr__(self, "discounts", _checked_discounts(self.discounts))
        check.choice("sampler", self.sampler, SAMPLERS)
        check.choice("way to draw", self.draws, DRAWS)
        if not isinstance(self.baseline, bool):
            raise check.error("baseline must be True or False", got=repr(self.baseline))
        curvature.choose(self.curvature, "estimated")

    @property
    def prepares_on_device(self) -> bool:
        """Whether labels that are on a device are prepared there."""
        return self.discounts is None

    @property
    def exact_hessian(self) -> bool:
        """The estimated Hessian is unbiased; what replaces it is described in ``curvature``."""
        return self.curvature == "estimated"

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> PreparedKernel:
        """Compute the reward of every document.

        ``document_rewards``, one number per document, negative ones included, replace the gains of the labels and are
        used as they are: exposure fairness, for instance, gives each group's documents the price of its exposure.
        Discounts stay those of the metric.
        """
        reject_columns(self, columns, ("document_rewards",))
        checked, lists = checked_lists(labels, offsets)
        rewards = columns.get("document_rewards")
        return PreparedKernel(
            lists=lists,
            objective=self,
            kernel=plrank_kernel,
            device_kernel="rankwise.objectives.plackett_luce.plrank_triton:plrank",
            arguments=PLRankArguments(
                rewards=lists.as_argument(
                    self._gains(checked, lists) if rewards is None else lists.checked("document rewards", rewards)
                ),
                discounts=lists.table(PLRank.rank_weights, self),
                samples=self.samples,
                race=self.sampler == "race",
                draws=DRAWS.index(self.draws),
                baseline=self.baseline,
            ),
            streams=draw_streams,
            curvature=self.curvature,
            work=self._work(lists) if lists.device is None else None,
        )

    def _work(self, lists: Lists) -> Array:
        ranks = lists.longest if self.sampler == "race" else self.rank_weights(lists.longest).size
        per_ranking = np.minimum(lists.sizes, ranks)
        return 20.0 * (lists.sizes + self.samples * per_ranking)

    def _gains(self, labels: Values, lists: Lists) -> Values:
        """Return the reward of each document at discount 1."""
        if self.metric in ("precision", "rbp"):
            return lists.floats(labels >= self.relevant)
        if self.metric == "dcg":
            return lists.gains_and_ideal(labels, self.gain).gains
        if self.discounts is None:
            return lists.gain_shares(labels, self.gain, self.cutoff)
        # Discounts that do not fall with the rank have another ideal order.
        gains = lists.gains_and_ideal(labels, self.gain).gains
        ideal = Orderings(LINEAR, lists.offsets, gains, self.rank_weights(lists.longest)).extremes().most
        return gains / lists.spread(lists.positive_or_one(ideal))

    def orderings(self, labels: Array, offsets: Offsets) -> Orderings:
        """Return the lists as the metric sees them, for bounding."""
        lists = Lists(offsets)
        return Orderings(LINEAR, offsets, self._gains(labels, lists), self.rank_weights(lists.longest))

    def rank_weights(self, longest: int) -> Array:
        """Return the discounts of the ranks that count in lists of up to ``longest`` documents."""
        if self.discounts is not None:
            return np.array(self.discounts[:longest])
        ranks = min(self.cutoff, longest)
        if self.metric == "precision":
            return np.full(ranks, 1.0 / self.cutoff)
        if self.metric == "rbp":
            return np.array((1.0 - self.p) * self.p ** np.arange(ranks))
        return discounts(ranks)


def _checked_discounts(values: object) -> tuple[float, ...]:
    if not isinstance(values, tuple | list | np.ndarray) or not len(values):
        hint = "write one number per rank, such as (1.0, 0.5, 0.25)"
        raise check.error("discounts must be the weights of the ranks", got=repr(values), hint=hint)
    return tuple(check.number("a rank's weight", value, least=0.0, most=1e300) for value in values)


class PLRankArguments(NamedTuple):
    """What rankings are drawn and rewarded by, beside the scores."""

    rewards: PerDocument
    discounts: Array
    samples: int
    race: bool
    draws: int
    baseline: bool


# Columns that are summed for each document.
PLACED_G, PLACED_H, APART_G, APART_H, TIMES, SUMS = range(6)


@kernel
def plrank_kernel(  # type: ignore[no-untyped-def]
    first, last, offsets, scores, rewards, discounts, samples, race, draws, baseline, keys, queries, value, gradient, hessian,
):  # fmt: skip
    """Fill value, gradient and Hessian of these queries, from rankings that the keys draw."""
    longest = longest_of(first, last, offsets)
    numbers, whole, batch, at = working_memory(longest)
    sums, ranks, shared = np.empty((longest, SUMS)), np.empty((3, longest)), np.empty(4)
    bends = hessian.size > 0
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        n, reward = end - start, rewards[start:end]
        value[q] = 0.0
        gradient[start:end] = 0.0
        if bends:
            hessian[start:end] = 0.0
        head = min(n, discounts.size)
        if n == 1:
            value[q] = -discounts[0] * reward[0]
        elif _any(reward):
            steep = tabulate(scores[start:end], reward, head, numbers, whole)
            sums[:n] = 0.0
            shared[:] = 0.0
            total = 0.0
            for i in range(0, samples, samples_at_once(head)):
                count = min(samples_at_once(head), samples - i)
                draw(race or steep, keys, queries[q], i, count, samples, draws, n, head, numbers, whole, batch, at)
                total += _add(count, baseline, bends, head, discounts, numbers[WORTH], batch, at, sums, ranks, shared)
            _finish(samples, n, numbers[WEIGHT], numbers[WORTH], sums, shared)
            value[q] = -total / samples
            for j in range(n):
                i = start + whole[PLACE, j]
                gradient[i] = -sums[j, PLACED_G]
                if bends:
                    hessian[i] = -sums[j, PLACED_H]


@kernel
def _any(rewards):  # type: ignore[no-untyped-def]
    found = False
    for reward in rewards:
        found |= reward != 0.0
    return found


@kernel
def _add(count, baseline, bends, head, discounts, worth, batch, at, sums, ranks, shared):  # type: ignore[no-untyped-def]
    """Add a batch of samples to the sums of the documents they place, and to those shared by all that they do not."""
    chance, keep = batch[CHANCE], batch[KEEP]
    rewards, following, onward = ranks
    total = 0.0
    for sample in range(count):
        row, mean, share = sample * head, batch[AFTER, sample], 1.0 / batch[BEFORE, sample]
        to_come, to_weigh = 0.0, 0.0
        for k in range(head - 1, -1, -1):
            theta, reward = discounts[k], worth[np.uint64(at[row + k])]
            mean = chance[row + k] * reward + keep[row + k] * mean
            earned, expected = theta * reward, theta * mean if baseline else theta * reward
            rewards[k] = reward
            following[k] = to_come - to_weigh * mean if baseline else to_come
            onward[k] = following[k] + expected
            total += expected
            to_come += earned
            to_weigh += theta
        # The paper's DN, DR, RI and the two sums of the Hessian, times Z_k (the Hessian's times Z_k²).
        dn, dr, ri, a, b, kept = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(head):
            theta, reward, after, from_here, p = discounts[k], rewards[k], following[k], onward[k], chance[row + k]
            dn = 1.0 + kept * dn
            dr = theta + kept * dr
            ri = from_here + kept * ri
            if bends:
                a = theta * dn + kept * kept * a
                b = from_here * dn + kept * kept * b
            kept = keep[row + k]
            step = p * (reward * dr - ri)
            mine = sums[np.uint64(at[row + k])]
            mine[PLACED_G] += after + step
            if bends:
                mine[PLACED_H] += after * (1.0 - 2.0 * p * dn) + step + 2.0 * p * p * (b - reward * a)
            mine[TIMES] += 1.0
        dr, ri, a, b = dr * share, ri * share, a * share * share, b * share * share
        shared[0] += dr
        shared[1] += ri
        shared[2] += a
        shared[3] += b
        for k in range(head):
            mine = sums[np.uint64(at[row + k])]
            mine[APART_G] += rewards[k] * dr - ri
            mine[APART_H] += b - rewards[k] * a
    return total


@kernel
def _finish(samples, n, weight, worth, sums, shared):  # type: ignore[no-untyped-def]
    """Add what documents get from samples that do not place them: all samples, apart from those that do."""
    dr, ri, a, b = shared
    for j in range(n):
        mine, e = sums[j], weight[j]
        # A document that is always placed has no such samples, and its sums may lie far above its share of them.
        if mine[TIMES] < samples:
            step = e * (worth[j] * dr - ri - mine[APART_G])
            mine[PLACED_G] += step
            mine[PLACED_H] += step + 2.0 * e * e * (b - worth[j] * a - mine[APART_H])
        mine[PLACED_G] /= samples
        mine[PLACED_H] /= samples
