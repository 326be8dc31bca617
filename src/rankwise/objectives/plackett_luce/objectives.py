"""Objectives of the Plackett-Luce model: the expected reward of drawn rankings, the likelihood of the ideal order."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.base.arrays import Array
from rankwise.base.threads import over_queries
from rankwise.check.parameters import AtLeast, OneOf, Search, Within
from rankwise.metrics.gains import Gain, checked_gain, discounts
from rankwise.objectives.base import Objective
from rankwise.objectives.cpu import TREATMENTS
from rankwise.objectives.plackett_luce.cpu.draws import DRAWS, SAMPLERS
from rankwise.objectives.plackett_luce.cpu.listmle import fill_groups, listmle_kernel
from rankwise.objectives.plackett_luce.cpu.plrank import fill_ideal, plrank_kernel
from rankwise.objectives.prepared import PerDocument, Prepared, PreparedKernel, checked_lists, reject_columns
from rankwise.objectives.ragged import RaggedLists, Values, draw_streams

_DEVICE = "rankwise.objectives.plackett_luce.triton.listmle"
_TIES = ("apart", "row")
_METRICS = ("ndcg", "dcg", "precision", "rbp")


@dataclass(frozen=True, kw_only=True, repr=False)
class PLRank(Objective):
    """Minus the expected reward of a ranking drawn from the scores (Kang, de Rijke and Oosterhuis 2024).

    >>> from rankwise.base.stream import Stream
    >>> d = PLRank(metric="dcg", cutoff=1, curvature="estimated")([0.0, np.log(3)], [0, 1], [0, 2], Stream(seed=0))
    >>> d.value, d.gradient, d.hessian  # −p, ±p(1 − p) and p(1 − p)(2p − 1) at p = 3/4
    (array([-0.75]), array([ 0.1875, -0.1875]), array([0.09375, 0.09375]))
    """

    metric: Annotated[str, OneOf(_METRICS, "metric to expect")] = "ndcg"
    """The metric: "ndcg" (gains over the ideal DCG), "dcg", "precision", or "rbp" with persistence ``p``."""
    cutoff: Annotated[int, AtLeast(1), Search("whole_log(5, 50)")] = 10
    """The number of ranks that count."""
    samples: Annotated[int, AtLeast(1), Search("choice(25, 50, 100)")] = 100
    """Rankings drawn per query."""
    gain: Gain = "exponential"
    """Reward of a label in ndcg and dcg: 2^y − 1 ("exponential"), y ("linear"), or a table."""
    relevant: Annotated[float, Within()] = 1.0
    """Labels from this on have the reward 1 in precision and rbp."""
    p: Annotated[float, Within(0, 1, open=True)] = 0.9
    """The probability that the user of rbp goes on to the next rank."""
    discounts: tuple[float, ...] | None = None
    """Weights of the ranks, which replace the metric's own and the cutoff."""
    sampler: Annotated[str, OneOf(SAMPLERS)] = "sequence"
    """"sequence" draws from a table, rank by rank; "race" draws an exponential per document."""
    draws: Annotated[str, OneOf(DRAWS, "way to draw")] = "latin"
    """The dependence between samples of a query: "independent", "antithetic" pairs, or "latin" strata."""
    baseline: bool = True
    """Subtract the expected reward, given the ranks before, from the reward that follows: less noise, same mean."""
    curvature: Annotated[str, OneOf(("estimated", *TREATMENTS))] = "gradient"
    """The Hessian: the "estimated" one, which is negative for many documents, or one that tree learners can divide by:
    its absolute value ("absolute"), a floor ("floored"), "ones", or the absolute value of the "gradient"."""
    estimator: ClassVar[bool] = True
    exact_with: ClassVar[str] = "curvature=estimated"
    accepts: ClassVar[tuple[str, ...]] = ("document_rewards",)
    name: ClassVar[str] = "plrank"
    paper: ClassVar[str] = "Kang et al. 2024"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "gain", checked_gain(self.gain))
        if self.discounts is not None:
            object.__setattr__(self, "discounts", _checked_discounts(self.discounts))
        if not isinstance(self.baseline, bool):
            raise check.error("baseline must be True or False", got=repr(self.baseline))

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
        reject_columns(self, columns, self.accepts)
        checked, lists = checked_lists(labels, offsets)
        rewards = columns.get("document_rewards")
        return PreparedKernel(
            lists=lists,
            objective=self,
            kernel=plrank_kernel,
            device_kernel="rankwise.objectives.plackett_luce.triton.plrank:plrank",
            arguments=PLRankArguments(
                rewards=lists.as_argument(
                    self.rewards(checked, lists) if rewards is None else lists.checked("document_rewards", rewards)
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

    def _work(self, lists: RaggedLists) -> Array:
        ranks = lists.longest if self.sampler == "race" else self.rank_weights(lists.longest).size
        return np.asarray(20.0 * (lists.sizes + self.samples * np.minimum(lists.sizes, ranks)))

    def rewards(self, labels: Values, lists: RaggedLists) -> Values:
        """Return the reward of each document at discount 1."""
        if self.metric in ("precision", "rbp"):
            return lists.floats(labels >= self.relevant)
        if self.metric == "dcg":
            return lists.gains_and_ideal(labels, self.gain).gains
        if self.discounts is None:
            return lists.gain_shares(labels, self.gain, self.cutoff)
        # Discounts that do not fall with the rank have another ideal order.
        gains = lists.gains_and_ideal(labels, self.gain).gains
        ideal = lists.empty_queries()
        over_queries(fill_ideal, lists.offsets, gains, self.rank_weights(lists.longest), ideal)
        return gains / lists.to_documents(lists.positive_or_one(ideal))

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


def ranking_model(objective: Objective) -> PLRank:
    """Return the model by which rankings are drawn: the first PL-Rank inside an objective, or a plain one."""
    return next((part for part in objective.parts() if isinstance(part, PLRank)), PLRank())


def _checked_discounts(values: object) -> tuple[float, ...]:
    if not isinstance(values, tuple | list | np.ndarray) or not len(values):
        hint = "write one number per rank, such as (1.0, 0.5, 0.25)"
        raise check.error("discounts must be the weights of the ranks", got=repr(values), hint=hint)
    return tuple(check.number("a rank's weight", value, least=0.0, most=1e300) for value in values)


class PLRankArguments(NamedTuple):
    """Arguments of the kernel of PL-Rank, beside the scores."""

    rewards: PerDocument
    discounts: Array
    samples: int
    race: bool
    draws: int
    baseline: bool


@dataclass(frozen=True, kw_only=True, repr=False)
class ListMLE(Objective):
    """Minus the log-likelihood of the ideal order under Plackett and Luce's model (Xia et al. 2008).

    Documents are picked one after another, best label first, each with probability e^{s_i}/Z_i, and the loss is
    −Σ log(e^{s_i}/Z_i). Z_i is e^{s_i} plus the sum of e^{s_j} over the documents that come after i.

    Labels with ties do not determine the order. With ``ties="apart"``, the default, only smaller labels come after
    i: the loss does not depend on the order of rows, and lists in which all labels are equal contribute nothing.
    ``ties="row"`` orders equal labels by row, as most implementations do: then the loss also learns that order, which
    is noise unless rows are in a meaningful order (lists with all labels equal are still left out). Without ties both
    are the same.

    >>> d = ListMLE()([0.0, 0.0, 0.0], [2, 1, 0], [0, 3])
    >>> d.value.round(4), d.gradient.round(4)  # log 3 + log 2; 1/3 − 1, 1/3 + 1/2 − 1, 1/3 + 1/2
    (array([1.7918]), array([-0.6667, -0.1667,  0.8333]))
    """

    ties: Annotated[str, OneOf(_TIES, "way to treat ties")] = "apart"
    exact_hessian: ClassVar[bool] = True
    prepares_on_device: ClassVar[bool] = True
    name: ClassVar[str] = "listmle"
    paper: ClassVar[str] = "Xia et al. 2008"

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Compute the ideal order, which is all that counts."""
        reject_columns(self, columns)
        checked, lists = checked_lists(labels, offsets)
        order = lists.order(checked)
        starts, stops = lists.empty_documents(integer=True), lists.empty_documents(integer=True)
        arguments = (order, self.ties == "apart")
        lists.run(fill_groups, f"{_DEVICE}:fill_groups", checked, arguments, None, (starts, stops))
        return PreparedKernel(
            lists=lists,
            objective=self,
            kernel=listmle_kernel,
            device_kernel=f"{_DEVICE}:listmle",
            arguments=ListMLEArguments(order, lists.as_argument(starts), lists.as_argument(stops)),
            work=40.0 * lists.sizes if lists.device is None else None,
        )


class ListMLEArguments(NamedTuple):
    """The ideal order of each list, in groups: the documents after a group come after all of it."""

    order: PerDocument
    """The document at each place."""
    starts: PerDocument
    """The first place of the group of each place."""
    stops: PerDocument
    """The first place behind the group of each place."""
