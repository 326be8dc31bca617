"""Stochastic scores: the noisy scores that the wrapper ``stochastic`` trains on, and rankings by them.

Algorithm 1 of Bruch et al. (2020) adds noise to scores s and normalises them: ŷ = softmax((s + β·G) / τ), where G is
Gumbel noise. Sorted, s + β·G is a ranking of the Plackett-Luce distribution of s / β (eq. 3, which calls β a
temperature); ŷ is a sample of the Concrete distribution (eq. 4), the sharper the smaller τ, which changes no ranking.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Array, offsets_of, read_only
from rankwise.base.compiling import kernel
from rankwise.base.stream import Stream
from rankwise.base.threads import over_queries
from rankwise.metrics.sorting import longest_of
from rankwise.objectives.cpu import NOISES
from rankwise.objectives.plackett_luce.cpu.draws import PLACE, sample_batch, samples_at_once, tabulate, working_memory
from rankwise.objectives.ragged import RaggedLists, draw_streams


def sample_scores(
    scores: ArrayLike,
    offsets: ArrayLike,
    stream: Stream,
    samples: int = 8,
    *,
    scale: float = 1.0,
    temperature: float = 1.0,
    noise: str = "gumbel",
) -> Array:
    """Draw stochastic scores as Algorithm 1 of Bruch et al. (2020) does, (samples, n_docs).

    They are logarithms: with Gumbel noise, exp of a query's scores is a sample of the Concrete distribution of
    eq. 4, and adds up to 1. ``stochastic`` evaluates its inner loss on the same samples, drawn from the same stream.

    Args:
        scores: The scores of a model.
        offsets: Where the documents of each query begin, and where the last end.
        stream: The random numbers: ``data.stream(seed)``, or ``rw.Stream(seed)``, keyed by query id.
        samples: Number of samples.
        scale: Scale of the noise, in units of the scores: β. 0 adds none.
        temperature: Divisor of scores and noise: τ. It changes no order.
        noise: ``"gumbel"``, ``"logistic"`` or ``"gaussian"``.

    >>> sample_scores([2.0, 1.0, 0.0], [0, 3], Stream(seed=1), samples=2).round(2)
    array([[-5.29, -0.01, -5.79],
           [-1.63, -0.32, -2.53]])
    >>> np.exp(sample_scores([2.0, 1.0, 0.0], [0, 3], Stream(seed=1), samples=2, temperature=4.0)).round(2)
    array([[0.18, 0.67, 0.16],
           [0.31, 0.44, 0.25]])
    """
    checked, values = _checked(scores, offsets, stream, samples, scale, noise)
    check.number("temperature", temperature, least=0.0, open_ends=True)
    lists, drawn = RaggedLists(read_only(checked)), np.empty((samples, values.size))
    noisy_scores = lists.noisy(values, stream, samples, scale=scale, temperature=temperature, noise=noise)
    for row, noisy in zip(drawn, noisy_scores, strict=True):
        row[:] = noisy
        over_queries(_normalise, lists.offsets, row)
    return drawn


def sample_rankings(
    scores: ArrayLike,
    offsets: ArrayLike,
    stream: Stream,
    samples: int = 8,
    cutoff: int | None = None,
    *,
    scale: float = 1.0,
    noise: str = "gumbel",
) -> NDArray[np.int64]:
    """Draw rankings of every query by sorting stochastic scores: rows of documents' numbers within their query.

    With Gumbel noise these are Plackett-Luce rankings, each next document by the softmax of ``scores / scale`` of
    those left, and are drawn as such, without a random number for every document. The result has the shape (samples,
    ranks): a query has as many ranks as documents, or ``cutoff`` if that is fewer, and its columns follow those of the
    query before it.

    >>> sample_rankings([2.0, 1.0, 0.0, 5.0, 0.0], [0, 3, 5], Stream(seed=1), samples=4)
    array([[0, 2, 1, 0, 1],
           [0, 2, 1, 0, 1],
           [0, 1, 2, 0, 1],
           [1, 0, 2, 0, 1]])
    >>> sample_rankings([2.0, 1.0, 0.0, 5.0, 0.0], [0, 3, 5], Stream(seed=1), samples=2, cutoff=1, scale=0.01)
    array([[0, 0],
           [0, 0]])
    """
    checked, values = _checked(scores, offsets, stream, samples, scale, noise)
    sizes = np.diff(checked)
    ranks = sizes if cutoff is None else np.minimum(sizes, check.integer("cutoff", cutoff, least=1))
    rank_offsets = offsets_of(ranks)
    drawn = np.empty((samples, int(rank_offsets[-1])), np.int64)
    if noise == "gumbel" and scale > 0.0:
        with np.errstate(over="ignore"):
            shares = values / scale
        if np.isfinite(shares).all():
            keys = read_only(np.array([child.key for child in draw_streams(stream)], np.uint64))
            settings = (keys, read_only(stream.queries(sizes.size)), read_only(shares), rank_offsets, drawn)
            over_queries(_draw_rankings, read_only(checked), *settings, work=20.0 * (sizes + samples * ranks))
            return drawn
    queries, starts = np.repeat(np.arange(sizes.size), sizes), np.repeat(checked[:-1], sizes)
    shown = np.arange(values.size) - starts < np.repeat(ranks, sizes)
    noisy_scores = RaggedLists(read_only(checked)).noisy(
        values, stream, samples, scale=scale, temperature=1.0, noise=noise
    )
    for row, noisy in zip(drawn, noisy_scores, strict=True):
        row[:] = (np.lexsort((-noisy, queries)) - starts)[shown]
    return drawn


@kernel
def _draw_rankings(first, last, offsets, key, queries, scores, rank_offsets, drawn):  # type: ignore[no-untyped-def]
    n = drawn.shape[0]
    floats, integers, batch, at = working_memory(longest_of(first, last, offsets))
    for q in range(first, last):
        values = scores[offsets[q] : offsets[q + 1]]
        head = rank_offsets[q + 1] - rank_offsets[q]
        steep = tabulate(values, values, head, floats, integers)
        for i in range(0, n, samples_at_once(head)):
            count = min(samples_at_once(head), n - i)
            sample_batch(steep, key, queries[q], i, count, n, 0, values.size, head, floats, integers, batch, at)
            for a in range(count):
                for k in range(head):
                    drawn[i + a, rank_offsets[q] + k] = integers[PLACE, at[a * head + k]]


@kernel
def _normalise(first, last, offsets, row):  # type: ignore[no-untyped-def]
    """Subtract the log of the sum of exponentials from the scores of every list."""
    for q in range(first, last):
        mine = row[offsets[q] : offsets[q + 1]]
        top = mine.max()
        mine -= top + np.log(np.exp(mine - top).sum())


def _checked(
    scores: ArrayLike, offsets: ArrayLike, stream: object, samples: int, scale: float, noise: str
) -> tuple[NDArray[np.int64], Array]:
    """Return offsets and scores, after checking all arguments."""
    checked = check.offsets(offsets, int(np.size(scores)))
    values = check.document_values("scores", scores, checked)
    check.integer("samples", samples, least=1)
    check.number("scale", scale, least=0.0)
    check.choice("noise", noise, NOISES)
    if not isinstance(stream, Stream):
        hint = "pass rw.Stream(seed=0), or data.stream(0), which has the ids of the queries"
        raise check.error("random numbers come from a stream", got=repr(stream), hint=hint)
    return checked, values
