"""Learning from ratings: choose a recommender, measure it on held-out items, and train it on everything."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rankwise import Comparison, Evaluation, check, load
from rankwise.base.arrays import Json, Keywords
from rankwise.base.tables import Table
from rankwise.check.parameters import AtLeast, OneOf, Option, Within
from rankwise.wings.recommend.base import RecommenderMixin
from rankwise.wings.recommend.choice import (
    AUTO,
    WITH_VECTORS,
    RecommenderChoice,
    choose_recommender,
    hold_out_comparison,
)
from rankwise.wings.recommend.data.interactions import Interactions


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
