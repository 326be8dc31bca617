"""Choice of a recommender: a few, each with a few settings, tried on held-out interactions; and training on all."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import polars as pl

from rankwise import Comparison, Evaluation, check, compare, load
from rankwise.base import tables
from rankwise.base.arrays import Json, Keywords
from rankwise.base.tables import Table
from rankwise.check.parameters import AtLeast, OneOf, Option, Within
from rankwise.metrics import MetricLike
from rankwise.metrics import metrics as find_metrics
from rankwise.rankers import recommender_class
from rankwise.statistics import Result
from rankwise.wings.recommend.base import RecommenderMixin
from rankwise.wings.recommend.data.interactions import Interactions
from rankwise.wings.recommend.evaluation import evaluate_interactions
from rankwise.wings.recommend.factorization.ranker import FULL_CATALOGUE

AUTO = ("ease", "als", "knn", "popularity")
"""Tried by default: they learn in seconds and need no extra."""
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
    """The time of learning."""

    def make(self, **changes: Any) -> RecommenderMixin:
        """Return the recommender, not trained yet."""
        return _recommender(self.model, {**self.settings, **changes})

    def learn(self, train: Interactions) -> RecommenderMixin:
        """Return the recommender, trained."""
        ranker: Any = self.make()
        return cast("RecommenderMixin", ranker.fit(train))


@dataclass(frozen=True, repr=False)
class RecommenderChoice(Result):
    """All candidates in the order in which they were tried; the best is by the first metric."""

    candidates: tuple[Candidate, ...]
    metrics: tuple[str, ...]
    ranked: str = ""
    """The items among which the held-out ones were ranked."""

    @property
    def best(self) -> Candidate:
        """The one with the highest mean of the first metric; of equals the first."""
        return max(self.candidates, key=lambda one: one.mean[self.metrics[0]])

    def table(self) -> Table:
        """Return a table of all candidates: means and seconds."""
        rows = tuple(
            (
                candidate.model + (" ←" if candidate is self.best else ""),
                ", ".join(
                    f"{name}={value:g}"
                    for name, value in candidate.settings.items()
                    if candidate.model in GRIDS and name == GRIDS[candidate.model][0]
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
        """Return plain data that JSON can hold."""
        rows = [asdict(candidate) | {"mean": dict(candidate.mean)} for candidate in self.candidates]
        chosen = {"best": self.best.model, "settings": self.best.settings}
        return chosen | {"ranked": self.ranked, "candidates": rows}

    def to_frame(self) -> pl.DataFrame:
        """One row per candidate."""
        return pl.DataFrame(
            [
                {"model": one.model, "settings": str(one.settings), **one.mean, "seconds": one.seconds}
                for one in self.candidates
            ]
        )


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
    >>> ratings = rw.recommend.synthetic_ratings(seed=1)
    >>> choice = choose_recommender(ratings, ["knn", "popularity"], metrics="recall@20", seed=1)
    >>> choice.best.model, [one.model for one in choice.candidates]
    ('knn', ['knn', 'knn', 'popularity'])
    """
    held_out = check.number("share", share, least=0.0, most=0.9, open_ends=True)
    fit, valid = train.split((1.0 - held_out, held_out), by=by, seed=seed, spare_held_out=False)
    measured = find_metrics(metrics)
    names = [models] if isinstance(models, str) else list(models)
    if models == "auto":  # EASE takes time in the cube of what it inverts
        names = [name for name in AUTO if name != "ease" or min(train.n_users, train.n_items) <= EASY]
    tried, ranked = [], ""
    for name, parameters in _settings(names, dict(settings or {}), seed, threads):
        if progress is not None:
            progress(name)
        start = time.perf_counter()
        ranker: Any = _recommender(name, {**parameters, "unknown": "popular"})
        ranker.fit(fit)
        seconds = time.perf_counter() - start
        evaluation = evaluate_interactions(ranker, valid, measured, exclude=fit, seed=seed, resamples=1)
        ranked = evaluation.candidates
        tried.append(Candidate(name, parameters, evaluation.mean, seconds))
    return RecommenderChoice(tuple(tried), tuple(str(one) for one in measured), ranked)


def hold_out_comparison(
    candidate: Candidate,
    train: Interactions,
    test: Interactions,
    metrics: Sequence[MetricLike] = METRICS,
    *,
    seed: int = 0,
) -> Comparison | Evaluation:
    """Train a candidate and a popularity baseline, and compare them on test data.

    For popularity itself, return its evaluation alone.
    """

    def evaluated(model: Any) -> Evaluation:
        return evaluate_interactions(model.fit(train), test, metrics, exclude=train, seed=seed)

    popular = evaluated(_recommender("popularity", {}))
    if candidate.model == "popularity":
        return popular
    return compare({"most popular": popular, candidate.model: evaluated(candidate.make(unknown="popular"))})


def _settings(names: Sequence[str], fixed: Keywords, seed: int, threads: int | None) -> Iterator[tuple[str, Keywords]]:
    """Yield every recommender with every setting to try."""
    for name in names:
        possible = recommender_class(name).own_parameters()
        shared: Keywords = {"seed": seed, "threads": threads}
        parameters = {key: value for key, value in shared.items() if key in possible} | fixed
        setting, values = GRIDS.get(name, ("", ()))
        if not values or setting in parameters:
            yield name, parameters
        else:
            yield from ((name, {**parameters, setting: value}) for value in values)


def _recommender(name: str, settings: Keywords) -> RecommenderMixin:
    if name == "factorization":
        settings = {**FULL_CATALOGUE, "progress": False, **settings}
    return cast("RecommenderMixin", recommender_class(name)(**settings))


@dataclass(frozen=True)
class Learned:
    """A recommender that was trained on all ratings, and how it was chosen and measured; neither of a saved one."""

    model: RecommenderMixin
    choice: RecommenderChoice | None = None
    evaluation: Comparison | Evaluation | None = None

    def tables(self) -> list[tuple[str, Table]]:
        """Return titles and tables of the choice and the evaluation."""
        titled = {
            "Chosen on a tenth of the training data": self.choice,
            "Held-out items, among all that the user has not rated": self.evaluation,
        }
        return [(title, one.table()) for title, one in titled.items() if one is not None]

    def to_dict(self) -> Json:
        """Return plain data that JSON can hold."""
        parts = {"choice": self.choice, "evaluation": self.evaluation}
        return {name: one and one.to_dict() for name, one in parts.items()} | {"model": self.model.name}


def models_to_try(model: str, settings: Keywords, *, vectors: bool) -> str | list[str]:
    """Return the names of recommenders to try for one name or "auto"; ``vectors``: only those that have vectors."""
    if model == "auto" and settings:
        hint = "name it: `set model='als'`"
        raise check.error("settings belong to one model", got=", ".join(settings), hint=hint)
    if vectors and model in AUTO and model not in WITH_VECTORS:
        hint = f"leave `vectors` out, or `set model={WITH_VECTORS[0]!r}`"
        raise check.error("this model has no vectors of users and items", got=model, hint=hint)
    return [one for one in AUTO if one in WITH_VECTORS] if vectors and model == "auto" else model


def learn(
    ratings: Interactions,
    models: str | Sequence[str] = "auto",
    settings: Keywords | None = None,
    *,
    least_relevant: Annotated[int, AtLeast(0), "Measure on users with at least this many relevant items."] = 5,
    holdout: Annotated[
        float, Within(0, 0.9), "The share of each user's relevant items that is held out to be found; 0: none.",
        Option(metavar="SHARE"),
    ] = 0.2,
    split: Annotated[
        str, OneOf(("random", "time", "global_time")),
        "Which items are held out: any, the latest of each user, or all that were rated after one moment.",
    ] = "random",
    metrics: Annotated[Sequence[str], "Metrics between commas.", Option(short="-m", metavar="LIST")] = (
        "ndcg@10", "recall@20", "rr",
    ),
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[str], object] = lambda _: None,
    note: Callable[[str], object] = lambda _: None,
) -> Learned:  # fmt: skip
    """Choose a recommender on a part of the training data, measure it on held-out items, then train it on all ratings.

    ``progress`` is called with each step, and ``note`` with sentences about the data.
    """
    if ratings.counted:
        note("Every row makes an item relevant: there is no column of ratings.")
    train, held_out = ratings.active(least_relevant), None
    if train.n_users < ratings.n_users:
        note(f"Measured without {train.left_out} relevant items, who get recommendations all the same.")
    if holdout:
        train, held_out = train.split((1.0 - holdout, holdout), by=split, seed=seed, spare_held_out=False)
    choice = choose_recommender(
        train, models, settings=settings, by=split, seed=seed, threads=threads,
        progress=lambda name: progress(f"Trying {name}"),
    )  # fmt: skip
    evaluation = None
    if held_out is not None:
        progress("Looking for held-out items")
        evaluation = hold_out_comparison(choice.best, train, held_out, list(metrics), seed=seed)
    progress("Learning from all ratings")
    return Learned(choice.best.learn(ratings), choice, evaluation)


def opened(folder: str | Path) -> Learned:
    """Open a recommender that was saved."""
    loaded: object = load(folder)
    if not isinstance(loaded, RecommenderMixin):
        got = f"a model of {getattr(loaded, 'name', type(loaded).__name__)}"
        raise check.error("this model recommends nothing", got=got, hint="use 'rankwise predict'")
    return Learned(loaded)
