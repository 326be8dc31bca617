"""What a search found, and why one document is above another in plain words."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankwise import RankingDataset, check, explain
from rankwise.base import tables
from rankwise.base.arrays import Array, Floats, Ids, Json
from rankwise.statistics import Result
from rankwise.wings.text import features, passages

if TYPE_CHECKING:
    import polars as pl

    from rankwise.results import Breakdown, Explanation
    from rankwise.wings.text.search import Search

_SMALL = 0.1
"""The share of the largest reason below which another one is not said."""
_SHOWN = 48
"""Letters of a text in a table, and of those that are shown as a reason."""


@dataclass(frozen=True)
class Reason:
    """What the features of a field, a run or a column add to the score of one document more than to that of another."""

    of: str
    adds: float
    feature: str
    """The one that adds most, of those with different values if there are."""
    text: str
    """In what the two differ there."""

    def __str__(self) -> str:
        return f"{tables.number(self.adds, 3, signed=True)}  {self.of}: {self.text}"


@dataclass(frozen=True, repr=False)
class Why:
    """Why one document is above another: what adds most to the difference of the scores, for it and against it."""

    sentence: str
    """How the two are ranked and scored."""
    above: str
    below: str
    reasons: tuple[Reason, ...]
    rest: float
    """What all else adds."""
    breakdown: "Breakdown"
    """The contributions of all features, which add up to the difference of the scores."""

    def __repr__(self) -> str:
        """Return the sentence and the reasons."""
        rest = f"{tables.number(self.rest, 3, signed=True)}  all else"
        return "\n".join([self.sentence.replace(" higher.", " higher, the sum of"), *map(str, self.reasons), rest])

    def to_dict(self) -> Json:
        """Return everything as JSON-serializable data."""
        facts = {"sentence": self.sentence, "above": self.above, "below": self.below, "rest": self.rest}
        return facts | {"reasons": [asdict(one) for one in self.reasons], "notes": self.breakdown.notes}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SearchResult(Result):
    """The documents of a search, the best first: all candidates, of which ``k`` are shown.

    Made by :class:`rankwise.text.Search`.
    """

    search: "Search"
    query: str
    k: int
    places: NDArray[np.int64]
    """(n_candidates,) places of the documents in the index."""
    scores: Array
    """(n_candidates,) of the model."""
    run_ranks: Mapping[str, NDArray[np.int64]]
    """Run -> (n_candidates,) ranks there from 1; 0 where the run lacks the document."""
    matrix: Floats
    """(n_candidates, n_features)."""

    @property
    def documents(self) -> Ids:
        """Ids of all candidates."""
        return self.search.pages.ids[self.places]

    def __len__(self) -> int:
        """Return the number of documents that are shown."""
        return min(self.k, self.places.size)

    def table(self) -> tables.Table:
        """Return a table of the documents with their scores, and their ranks in the runs: ▲ where they rose."""
        ranks = [[_moved(rank, int(before)) for rank, before in enumerate(one, 1)] for one in self.run_ranks.values()]
        scores = map(tables.number, self.scores.tolist())
        texts = (
            tables.shortened("".join(one["passage"] or one["title"]), _SHOWN) for one in self._told(range(len(self)))
        )
        places = map(str, range(1, len(self) + 1))
        rows = tuple(zip(places, self.documents.tolist(), scores, *ranks, texts, strict=False))
        notes = () if rows else ("No document has these words.",)
        header = ("rank", "document", "score", *self.run_ranks, "text")
        return tables.Table(header=header, rows=rows, align="rlr" + "r" * len(ranks) + "l", notes=notes)

    def to_frame(self) -> "pl.DataFrame":
        """One row per document that is shown: rank, document, score, its rank in each run, and its texts."""
        import polars as pl

        n, pages = len(self), self.search.pages
        texts = [pages.text(one) for one in self.documents[:n]]
        columns = {"rank": np.arange(1, n + 1), "document": self.documents[:n], "score": self.scores[:n]}
        ranks = {f"rank({name})": pl.Series(one[:n]).replace(0, None) for name, one in self.run_ranks.items()}
        fields = {f"text({field})": [one.get(field) for one in texts] for field in pages.fields}
        kinds = dict.fromkeys(["document", *fields], pl.String)
        return pl.DataFrame({**columns, **ranks, **fields}, schema_overrides=kinds)

    def to_dict(self) -> Json:
        """Return what a page shows: documents with their ranks and passages, those too that the first run has first.

        Texts are lists of pieces, of which every other one, from the second on, is a word of the query.
        """
        ranks = next(iter(self.run_ranks.values()))
        shown = np.flatnonzero((np.arange(ranks.size) < self.k) | ((ranks > 0) & (ranks <= self.k)))
        facts = {"query": self.query, "k": self.k, "runs": [*self.run_ranks], "candidates": ranks.size}
        return facts | {"documents": self._told(shown.tolist())}

    def _told(self, places: Iterable[int]) -> list[Json]:
        pages, ids, found = self.search.pages, self.documents.tolist(), []
        words = frozenset(pages.analyzer(self.query))
        for place in places:
            title, passage = passages.shown(pages, pages.text(ids[place]), words)
            ranks = {name: int(one[place]) or None for name, one in self.run_ranks.items()}
            about = {"document": ids[place], "rank": place + 1, "score": float(self.scores[place])}
            found.append(about | {"ranks": ranks, "title": title, "passage": passage})
        return found

    @property
    def rivals(self) -> list[str]:
        """The first document, and the one that the first run has first, or else the second."""
        of_run = np.flatnonzero(next(iter(self.run_ranks.values())) == 1)
        return [self.documents[0], self.documents[of_run[0] if of_run.size and of_run[0] else 1]]

    @cached_property
    def explanation(self) -> "Explanation":
        """What each feature adds to the score of each candidate."""
        n = self.places.size
        data = RankingDataset(
            self.matrix, np.zeros(n), np.array([0, n]), feature_names=self.search.features, query_ids=np.array(["0"]),
            document_ids=self.documents.astype(np.str_), judged=np.zeros(n, np.int8),
        )  # fmt: skip
        return explain(self.search.model, data)

    def explain(self, document: str, other: str) -> Why:
        """Return why one candidate is above another, by what features add to their scores."""
        ids, pages = self.documents.astype(np.str_), self.search.pages
        first, second = sorted(check.member("document", one, ids, where="the candidates") for one in (document, other))
        above, below = str(ids[first]), str(ids[second])
        apart = self.explanation.versus(above, below)
        adds, words, groups = apart.contributions, features.in_words(pages, list(self.run_ranks)), defaultdict(list)
        texts = [pages.text(one) for one in (above, below)]
        for j in apart.order:
            groups[words[apart.features[j]][0]].append(j)
        told: list[Reason] = []
        for of, members in groups.items():
            total = float(adds[members].sum())
            for j in sorted(members, key=lambda one: -adds[one] * total):
                name, values = apart.features[j], [column[j] for column in apart.values.values()]
                if values[0] != values[1]:
                    of_fields = [" ".join(pages.analyzer.plain(one.get(of, "")).split()) for one in texts]
                    ranks = self.run_ranks[of][[first, second]].tolist() if of in self.run_ranks else []
                    told.append(Reason(of, total, name, _differ(words[name][1], name, values, of_fields, ranks)))
                    break
            else:
                told.append(Reason(of, total, apart.features[members[0]], "the same, which trees read beside others"))
        least = _SMALL * max((abs(one.adds) for one in told), default=0.0)
        reasons = sorted((one for one in told if abs(one.adds) > least), key=lambda one: -one.adds)
        apart_by = float(self.scores[first] - self.scores[second])
        scored = f"its score is {tables.number(apart_by)} higher" if apart_by else "their scores are equal"
        sentence = f"{above} is at rank {first + 1} and {below} at {second + 1}: {scored}."
        return Why(sentence, above, below, tuple(reasons), float(adds.sum()) - sum(one.adds for one in reasons), apart)


def _differ(words: str, name: str, values: Sequence[str | None], texts: Sequence[str], ranks: Sequence[int]) -> str:
    """Say in what two documents differ: by their ranks in a run, a field's texts if short, or a feature's values."""
    if words == features.RANK:
        one, two = (f"rank {rank}" if rank else "not found" for rank in ranks)
        return f"{one}, not {two}" if all(ranks) else f"{one}, the other {two}"
    if "{}" in words and max(map(len, texts)) <= _SHOWN:
        one, two = (f"“{text}”" if text else "empty" for text in texts)
        return f"{one}, not {two}"
    if None in values and "{}" in words:
        one, two = ("no words of the query" if value is None else "some" for value in values)
        return f"{one}, the other {two}"
    one, two = (features.value(name, value) for value in values)
    return f"{words.format(one) or one}, not {two}"


def _moved(rank: int, before: int) -> str:
    """Write the rank in a run, and whether the document rose or fell."""
    return tables.NOTHING if not before else f"{before} {'▲' if rank < before else '▼' if rank > before else ' '}"
