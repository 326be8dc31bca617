"""Which recommender is best on held-out interactions: a few, each with a few settings, tried on a part of training."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rankwise import check
from rankwise.arrays import Json, Keywords
from rankwise.data.interactions.lists import Interactions
from rankwise.evaluation.compare import compare
from rankwise.metrics import MetricLike
from rankwise.metrics import metrics as find_metrics
from rankwise.rankers.table import recommender_class
from rankwise.recommend.base import Recommends
from rankwise.recommend.evaluation import evaluate_interactions
from rankwise.recommend.factorization.presets import FULL_CATALOGUE
from rankwise.statistics import tables
from rankwise.statistics.comparison import Comparison
from rankwise.statistics.evaluation import Evaluation
from rankwise.statistics.tables import Table

AUTO = ("ease", "als", "knn", "popularity")
"""Tried unless others are asked for: they learn in seconds and need nothing installed."""
WITH_VECTORS = ("als", "factorization")
"""Those whose scores are products of the vectors of a user and an item."""
EASY = 6_000
"""Users or items, whichever are fewer, up to which EASE is among those."""
GRIDS: dict[str, tuple[str, tuple[float, ...]]] = {
    "ease": ("regularization", (50.0, 100.0, 200.0, 400.0)),
    "als": ("regularization", (20.0, 50.0, 100.0)),
    "knn": ("shrinkage", (3.0, 20.0)),
    "factorization": ("regularization", (0.3, 0.6, 1.0)),
}
"""The setting of each that is tried, and its values."""
METRICS = ("ndcg@10", "recall@20")


@dataclass(frozen=True)
class Candidate:
    """A recommender with settings, and how well it found what was held out."""

    model: str
    settings: Keywords
    mean: Mapping[str, float]
    """Metric -> its mean."""
    seconds: float
    """Learning took so long."""

    def make(self, **changes: Any) -> Recommends:
        """Make the recommender, not trained yet."""
        return _made(self.model, {**self.settings, **changes})

    def learn(self, train: Interactions) -> Recommends:
        """Make the recommender and train it."""
        ranker: Any = self.make()
        trained: Recommends = ranker.fit(train)
        return trained


@dataclass(frozen=True)
class RecommenderChoice:
    """All that were tried, in the order in which they were; the best is by the first metric."""

    candidates: tuple[Candidate, ...]
    metrics: tuple[str, ...]
    ranked: str = ""
    """Which items held-out ones were looked for among."""

    @property
    def best(self) -> Candidate:
        """The one with the highest mean of the first metric; of equals the first."""
        return max(self.candidates, key=lambda one: one.mean[self.metrics[0]])

    def table(self) -> Table:
        """Say how good each was, and how long it took."""
        rows = tuple(
            (
                candidate.model + (" ←" if candidate is self.best else ""),
                ", ".join(
                    f"{name}={value:g}" for name, value in candidate.settings.items() if _tried(candidate.model, name)
                ),
                *(tables.number(candidate.mean[name]) for name in self.metrics),
                f"{candidate.seconds:.1f}",
            )
            for candidate in self.candidates
        )
        header = ("model", "setting", *self.metrics, "seconds")
        notes = (f"Candidates: {self.ranked}.",) if self.ranked else ()
        return Table(header=header, rows=rows, align="ll" + "r" * (len(self.metrics) + 1), notes=notes)

    def to_dict(self) -> Json:
        """Give everything as plain data."""
        about = [
            {
                "model": candidate.model,
                "settings": candidate.settings,
                "mean": dict(candidate.mean),
                "seconds": candidate.seconds,
            }
            for candidate in self.candidates
        ]
        chosen = {"best": self.best.model, "settings": self.best.settings}
        return chosen | {"ranked": self.ranked, "candidates": about}

    def to_frame(self) -> pl.DataFrame:
        """One row per candidate."""
        rows = [
            {
                "model": candidate.model,
                "settings": str(candidate.settings),
                **candidate.mean,
                "seconds": candidate.seconds,
            }
            for candidate in self.candidates
        ]
        return pl.DataFrame(rows)

    def __repr__(self) -> str:
        return self.table().text()


def choose_recommender(
    train: Interactions,
    models: str | Sequence[str] = "auto",
    *,
    metrics: MetricLike | Sequence[MetricLike] = METRICS,
    settings: Mapping[str, Any] | None = None,
    share: float = 0.1,
    by: str = "random",
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[str], object] | None = None,
) -> RecommenderChoice:
    """Try recommenders on held-out interactions; never on anything but ``train``.

    A ``share`` of every user's relevant items is held out and looked for among all items that the user has not rated.
    Each of ``models`` is tried with the values of one setting (``GRIDS``), unless ``settings``, which go to all of
    them, set it; ``"auto"`` are EASE, ALS, neighbours and popularity, without EASE where both users and items are more
    than ``EASY``. ``progress`` is told what is tried next. ``choice.best.learn(train)`` gives the best, trained on
    everything.

    >>> import rankwise as rw
    >>> choice = choose_recommender(rw.synthetic_ratings(seed=1), ["knn", "popularity"], metrics="recall@20", seed=1)
    >>> choice.best.model, [one.model for one in choice.candidates]
    ('knn', ['knn', 'knn', 'popularity'])
    """
    held_out = check.number("share", share, least=0.0, most=0.9, open_ends=True)
    fit, valid = train.split((1.0 - held_out, held_out), by=by, seed=seed, spare_held_out=False)
    asked = find_metrics(metrics)
    names = _names(models, train)
    tried, ranked = [], ""
    for name, own in _settings(names, dict(settings or {}), seed, threads):
        if progress is not None:
            progress(name)
        start = time.perf_counter()
        ranker: Any = _made(name, {**own, "unknown": "popular"})
        ranker.fit(fit)
        seconds = time.perf_counter() - start
        found = evaluate_interactions(ranker, valid, asked, exclude=fit, seed=seed, resamples=1)
        ranked = found.candidates
        tried.append(Candidate(name, own, found.mean, seconds))
    return RecommenderChoice(tuple(tried), tuple(str(one) for one in asked), ranked)


def hold_out_comparison(
    candidate: Candidate,
    train: Interactions,
    test: Interactions,
    metrics: Sequence[MetricLike] = METRICS,
    *,
    seed: int = 0,
) -> Comparison | Evaluation:
    """Train a candidate, and what is popular, and compare how they find what was held out for the test.

    Where the candidate is what is popular, there is nothing to compare it with.
    """

    def found(model: Any) -> Evaluation:
        return evaluate_interactions(model.fit(train), test, metrics, exclude=train, seed=seed)

    popular = found(_made("popularity", {}))
    if candidate.model == "popularity":
        return popular
    return compare({"most popular": popular, candidate.model: found(candidate.make(unknown="popular"))})


def _names(models: str | Sequence[str], train: Interactions) -> list[str]:
    """Give the recommenders that are tried; EASE takes time in the cube of what it inverts."""
    if models == "auto":
        return [name for name in AUTO if name != "ease" or min(train.n_users, train.n_items) <= EASY]
    return [models] if isinstance(models, str) else list(models)


def _settings(names: Sequence[str], given: Keywords, seed: int, threads: int | None) -> Iterator[tuple[str, Keywords]]:
    """Give every recommender with every setting that is tried."""
    for name in names:
        known = recommender_class(name).own_parameters()
        own = {key: value for key, value in {"seed": seed, "threads": threads}.items() if key in known} | given
        setting, values = GRIDS.get(name, ("", ()))
        if not values or setting in own:
            yield name, own
        for value in values if setting not in own else ():
            yield name, {**own, setting: value}


def _made(name: str, settings: Keywords) -> Recommends:
    made: Any = recommender_class(name)
    if name == "factorization":
        settings = {**FULL_CATALOGUE, "progress": False, **settings}
    recommender: Recommends = made(**settings)
    return recommender


def _tried(model: str, setting: str) -> bool:
    return model in GRIDS and GRIDS[model][0] == setting
