"""Fusion of runs: one ranking of what several retrievers found."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from rankwise import RankingDataset, check
from rankwise.base.arrays import Array, Offsets, offsets_of
from rankwise.base.compiling import kernel
from rankwise.base.threads import over_queries
from rankwise.evaluation import Run, run_frame
from rankwise.wings.text import METHODS, SCALES

if TYPE_CHECKING:
    import polars as pl

Weights = Mapping[str, float] | Sequence[float] | None
Minimum = float | Mapping[str, float]


def fuse(
    runs: Mapping[str, Run],
    method: str = "rrf",
    *,
    weights: Weights = None,
    k: float = 60.0,
    scale: str = "min-max",
    minimum: Minimum = 0.0,
    depth: int | None = None,
) -> "pl.DataFrame":
    """Fuse runs into one: columns query, document and score, the best first.

    ``runs`` are tables, nested dictionaries or TREC files by name. With weights w, all 1 by default:

    - ``"rrf"``: Σ w/(k + rank), reciprocal rank fusion (Cormack et al. 2009);
    - ``"isr"``: n·Σ w/rank², n the number of runs with a weight that have the document (Mourão et al. 2014);
    - ``"convex"``: Σ w·s / Σ w of scaled scores s; with equal weights it ranks as CombSUM;
    - ``"combmnz"``: n·Σ w·s (Fox and Shaw 1994).

    A scaled score s says how far a score is above the lowest that the run has for the query, in units of highest −
    lowest, ``"min-max"``; of their standard deviation, ``"z"``; or of highest − ``minimum``, ``"minimum"``, the least
    score that a retriever can give: 0 of BM25, −1 of a cosine, as in ``minimum={"vectors": -1.0}``. It is 1 where all
    scores are equal. A document that a run lacks has s = 0 and rank ∞ there: it counts as the lowest, never as a score
    of 0, which may be higher than others.

    Documents with equal scores share the mean of their ranks, so that neither ids nor the order of rows matter.
    ``depth`` takes the first documents of each run, and all that tie at the end: scales of runs of unequal depth are
    alike then. Rows are in trec_eval's order: score descending, ties by document id descending.

    >>> import rankwise as rw
    >>> runs = {"bm25": {"q": {"a": 9.0, "b": 5.0, "c": 1.0}}, "vectors": {"q": {"b": -0.1, "d": -0.5}}}
    >>> [(document, round(score, 4)) for _, document, score in rw.fuse(runs).rows()]
    [('b', 0.0325), ('a', 0.0164), ('d', 0.0161), ('c', 0.0159)]
    >>> rw.fuse(runs, "convex", weights={"bm25": 3, "vectors": 1}).rows()
    [('q', 'a', 0.75), ('q', 'b', 0.625), ('q', 'd', 0.0), ('q', 'c', 0.0)]
    """
    check.choice("method", method, METHODS)
    check.choice("scale", scale, SCALES)
    check.number("k", k, least=0.0)
    found = Found.of(runs, depth)
    shares = weights_of(weights, found.names)
    if method == "rrf":
        return found.run(1.0 / (k + found.ranks), shares)
    if method == "convex":
        return found.run(found.scaled(scale, minimum), shares / shares.sum())
    parts = found.ranks**-2.0 if method == "isr" else found.scaled(scale, minimum)
    counts = np.isfinite(found.ranks) & (shares > 0)
    return found.run(parts * counts.sum(axis=1, keepdims=True), shares)


def as_data(run: "pl.DataFrame") -> tuple[Array, RankingDataset]:
    """Return the scores of a run whose queries lie together, and their documents without features."""
    data = RankingDataset.from_sizes(
        np.empty((run.height, 0), np.float32),
        np.zeros(run.height),
        run["query"].rle().struct.field("len").to_numpy(),
        query_ids=run["query"].unique(maintain_order=True).to_numpy().astype(np.str_),
        document_ids=run["document"].to_numpy().astype(np.str_),
    )
    return run["score"].to_numpy(), data


def weights_of(weights: Weights, names: Sequence[str]) -> Array:
    """Return the weight of each run, checked."""
    if isinstance(weights, Mapping):
        for name in weights:
            check.choice("weights", name, names)
        missing = [name for name in names if name not in weights]
        if missing:
            hint = "a run that is not to count gets 0"
            raise check.error("every run needs a weight", got=f"none for {missing[0]!r}", hint=hint)
        weights = [weights[name] for name in names]
    values = np.array([check.number("a weight", one, least=0.0) for one in weights or [1.0] * len(names)])
    if values.size != len(names) or not values.any():
        got = f"{values.size} for {len(names)} runs" if values.size != len(names) else "0 for all"
        raise check.error("each run has a weight, and one of them is above 0", got=got)
    return values


@dataclass(frozen=True, eq=False)
class Found:
    """The documents that runs found for every query, and what each run says about them."""

    names: tuple[str, ...]
    pairs: "pl.DataFrame"
    """Columns query and document, sorted by both."""
    offsets: Offsets
    scores: Array
    """(n_pairs, n_runs) scores, NaN where a run lacks the document."""
    ranks: Array
    """(n_pairs, n_runs) ranks from 1, the mean of those that tie, ∞ where a run lacks the document."""

    @classmethod
    def of(cls, runs: Mapping[str, Run], depth: int | None = None) -> Self:
        """Read, check and join runs."""
        import polars as pl

        if not isinstance(runs, Mapping) or not runs:
            hint = 'pass a dictionary from names to runs, such as {"bm25": …, "vectors": …}'
            raise check.error("fusion takes runs by name", got=type(runs).__name__, hint=hint)
        check.different_as_text("names of runs", list(runs))
        if depth is not None:
            check.integer("depth", depth, least=1)
        parts = []
        for run in runs.values():
            mean, first = (pl.col("score").rank(how, descending=True).over("query") for how in ("average", "min"))
            part = run_frame(run).select("query", "document", "score", rank=mean, first=first)
            parts.append(part if depth is None else part.filter(pl.col("first") <= depth))
        rows = pl.concat(parts)
        if rows.is_empty():
            raise check.error("the runs hold no documents", hint="pass what the retrievers found")
        queries, documents = (rows[name].unique().sort() for name in ("query", "document"))
        query, document = (
            rows[ids.name].cast(pl.Enum(ids)).to_physical().to_numpy().astype(np.int64) for ids in (queries, documents)
        )
        keys, pair = np.unique(query * len(documents) + document, return_inverse=True)
        pairs = pl.DataFrame([queries[keys // len(documents)], documents[keys % len(documents)]])
        run_of = np.repeat(np.arange(len(parts)), [part.height for part in parts])
        scores, ranks = np.full((2, keys.size, len(parts)), [[[np.nan]], [[np.inf]]])
        scores[pair, run_of], ranks[pair, run_of] = rows["score"].to_numpy(), rows["rank"].to_numpy()
        return cls(tuple(map(str, runs)), pairs, offsets_of(np.bincount(keys // len(documents))), scores, ranks)

    def scaled(self, scale: str, minimum: Minimum = 0.0) -> Array:
        """Return (n_pairs, n_runs) scaled scores."""
        least = np.zeros(len(self.names))
        for place, name in enumerate(self.names):
            given = minimum.get(name, 0.0) if isinstance(minimum, Mapping) else minimum
            least[place] = check.number("minimum", given)
        for name in minimum if isinstance(minimum, Mapping) else ():
            check.choice("minimum", name, self.names)
        lowest = np.fmin.reduce(self.scores, axis=0)
        if scale == "minimum" and (below := lowest < least).any():
            name, got = self.names[int(below.argmax())], f"{lowest[below.argmax()]:g}, below {least[below.argmax()]:g}"
            hint = f"`set minimum={{{name!r}: …}}`: −1 for cosines"
            raise check.error("a score is below the least that is possible", got=got, where=f"run {name!r}", hint=hint)
        out = np.zeros_like(self.scores)
        over_queries(_scale, self.offsets, self.scores, SCALES.index(scale), least, out)
        return out

    def run(self, parts: Array, weights: Array) -> "pl.DataFrame":
        """Return the weighted sum of what each run says as a run."""
        import polars as pl

        # Sorted, so that sums of the same numbers are the same, whichever runs they come from.
        total = np.sort(parts * weights, axis=1).sum(axis=1)
        query = np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))
        order = np.lexsort((-np.arange(total.size), -total, query))
        return self.pairs.with_columns(score=pl.Series(total))[order]


@kernel
def _scale(first, last, offsets, scores, scale, least, out):  # type: ignore[no-untyped-def]
    """Fill scaled scores; numbers are halved, for the difference of two finite ones may be infinite."""
    for query in range(first, last):
        start, stop = offsets[query], offsets[query + 1]
        for run in range(scores.shape[1]):
            low, high, count = np.inf, -np.inf, 0
            for row in range(start, stop):
                if not np.isnan(scores[row, run]):
                    low, high = min(low, 0.5 * scores[row, run]), max(high, 0.5 * scores[row, run])
                    count += 1
            total, squares = 0.0, 0.0
            for row in range(start, stop):
                if not np.isnan(scores[row, run]):
                    out[row, run] = (0.5 * scores[row, run] - low) / (high - low) if high > low else 1.0
                    total += out[row, run]
            for row in range(start, stop):
                if not np.isnan(scores[row, run]):
                    squares += (out[row, run] - total / count) ** 2
            if high > low and scale > 0:
                unit = 1.0 / math.sqrt(squares / count) if scale == 1 else (high - low) / (high - 0.5 * least[run])
                for row in range(start, stop):
                    out[row, run] *= unit
