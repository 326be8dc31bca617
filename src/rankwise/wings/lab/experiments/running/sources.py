"""Where an experiment's data come from: a set of the catalog, files of the user, or synthetic data."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from rankwise import RankingDataset, Stream, check, concatenate, load_dataset, read_data, split, synthetic
from rankwise import folds as made_folds
from rankwise.data.io import Parts, entry_of
from rankwise.language import grammar
from rankwise.rankers.training import fingerprint
from rankwise.recommend import Interactions, synthetic_ratings

_SYNTHETIC: dict[str, Callable[..., Any]] = {"synthetic": synthetic, "synthetic_ratings": synthetic_ratings}


@dataclass(frozen=True)
class Source:
    """One data set of an experiment.

    ``text`` names it: ``mq2008`` (the catalog), ``mine.toml`` (a description of yours), ``rows.parquet`` (any file of
    ranking data), ``synthetic`` or ``synthetic(n_queries=500)``; ``web=path/to/rows.txt`` also says what it is called.
    Ratings are ``movielens-latest-small``, a file of them, or ``synthetic_ratings(n_users=100)``.
    """

    text: str
    folder: str | None = None
    """Where sets of the catalog are looked for; see :func:`rankwise.load_dataset`."""
    queries: int | None = None
    """At most so many queries, or users, are used, drawn by their ids."""
    ratings: bool = False
    """Whether a plain file holds ratings of items by users."""
    columns: tuple[tuple[str, Any], ...] = ()
    """How a plain file of ranking data is read: arguments of :func:`rankwise.read_data`."""

    @property
    def name(self) -> str:
        """What the data are called in tables and files.

        >>> [Source(text).name for text in ("MQ2008", "synthetic(n_queries=9)", "a/rows.txt.gz", "web=a/rows.txt")]
        ['mq2008', 'synthetic', 'rows', 'web']
        """
        name, text = self.named_text
        entry = None if name else self.entry()
        return name or (entry.name if entry else Path(check.address(text)).name.partition("(")[0].partition(".")[0])

    @property
    def n_folds(self) -> int:
        """How many official folds there are; 0 where there are none."""
        entry = self.entry()
        return entry.folds if entry else 0

    def fingerprint(self) -> str:
        """A digest of the data: results of other data are never taken for those of these."""
        if not self.holds_ratings():
            return fingerprint(self.whole())
        every, digest = self.interactions(), blake2b(digest_size=16)
        for part in (every.users, every.items, every.ratings, every.offsets, every.catalogue):
            digest.update(f"{part.dtype}{part.shape}".encode() + part.tobytes())
        return digest.hexdigest()

    def holds_ratings(self) -> bool:
        """Whether these are ratings of items by users, instead of documents with features."""
        if self.generator() == "synthetic_ratings":
            return True
        entry = self.entry()
        return entry.format == "ratings" if entry else self.ratings and not self.generator()

    def whole(self) -> RankingDataset:
        """All queries, whatever part they are in."""
        return _whole(self)

    def interactions(self, relevant: float = 4.0) -> Interactions:
        """All ratings; those of ``relevant`` or more make an item relevant."""
        if not self.holds_ratings():
            hint = "name one of the MovieLens sets, a file of ratings, or synthetic_ratings"
            raise check.error("this protocol is made for ratings of items by users", got=self.text, hint=hint)
        every = _ratings(self)
        if self.queries is not None and self.queries < every.n_users:
            draws = Stream(0, query_ids=every.users).child("some").per_query(every.n_users)[:, 0]
            every = every.take(np.sort(np.argsort(draws)[: self.queries]))
        return replace(every, relevant=float(relevant))

    def read(self) -> RankingDataset:
        """Read or make the data."""
        self._only_documents()
        _, text = self.named_text
        with check.naming(text):
            if self.entry() is not None:
                data = concatenate([part for part in self._load(1) if part is not None])
            elif self.generator():
                data = grammar.parse(text, _SYNTHETIC, "data set")
            else:
                data = read_data(text, **dict(self.columns))
            return self._some(data)

    def parts(self, fold: int, *, seed: int = 0) -> tuple[RankingDataset, RankingDataset, RankingDataset]:
        """The official parts, of one fold where there are folds; made ones, by the seed, where there are none."""
        self._only_documents()
        if self.entry() is None:
            data = self.whole()
            train, valid, test = list(made_folds(data, seed=seed))[fold - 1] if fold else split(data, seed=seed)
            return train, valid, test
        train, held_out, test = self._load(max(fold, 1))
        if held_out is None:
            train, held_out = split(train, (0.8, 0.2), seed=seed)
        share = 1.0 if self.queries is None else self.queries / sum(p.n_queries for p in (train, held_out, test))
        return self._some(train, share), self._some(held_out, share), self._some(test, share)

    def _only_documents(self) -> None:
        if self.holds_ratings():
            hint = "choose the protocol that is made for ratings: protocol = 'ratings'"
            raise check.error("ratings of items are no documents with features", got=self.text, hint=hint)

    @property
    def named_text(self) -> tuple[str, str]:
        """The name that stands before the text, empty without one, and the text."""
        name, equals, rest = self.text.partition("=")
        named = equals and "(" not in name and "://" not in name
        return (name.strip(), rest.strip()) if named else ("", self.text)

    def generator(self) -> str:
        """The generator of synthetic data; empty for data that are read."""
        word = self.named_text[1].partition("(")[0].strip()
        return word if word in _SYNTHETIC else ""

    def entry(self) -> Any:
        """What is known of a set of the catalog, or of the user's own; None for a plain file and synthetic data."""
        return None if self.generator() else entry_of(self.named_text[1])

    def _load(self, fold: int) -> Parts:
        loaded: Parts = load_dataset(self.named_text[1], fold if self.n_folds else None, self.folder)
        return loaded

    def _some(self, data: RankingDataset, share: float | None = None) -> RankingDataset:
        """At most so many queries, the same ones whatever their order."""
        if self.queries is None:
            return data
        count = self.queries if share is None else max(round(share * data.n_queries), 1)
        if count >= data.n_queries:
            return data
        draws = data.stream(0).child("some").per_query(data.n_queries)[:, 0]
        return data.take(np.sort(np.argsort(draws)[:count]))


@lru_cache(maxsize=1)
def _whole(source: Source) -> RankingDataset:
    """The data that were read last: trials come one after another from the same set."""
    return source.read()


@lru_cache(maxsize=1)
def _ratings(source: Source) -> Interactions:
    _, text = source.named_text
    every: Interactions
    with check.naming(text):
        if source.generator():
            every = grammar.parse(text, _SYNTHETIC, "data set")
        elif source.entry() is not None:
            every = load_dataset(text, folder=source.folder)  # type: ignore[assignment]  # of these names it gives ratings
        else:
            every = Interactions.read(text)
    return every
