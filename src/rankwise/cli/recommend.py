"""The command ``recommend``."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import rankwise as rw
from rankwise import check
from rankwise.arrays import Keywords
from rankwise.check.parameters import AtLeast, OneOf, Option, Unset, Within
from rankwise.cli import arguments, console, inputs, outputs
from rankwise.cli.options import Of, Only
from rankwise.cli.running import Running
from rankwise.statistics import tables
from rankwise.statistics.tables import Table

if TYPE_CHECKING:
    import polars as pl

    from rankwise.data.interactions.interactions import Interactions
    from rankwise.recommend.base import RecommenderMixin
    from rankwise.recommend.choice import RecommenderChoice
    from rankwise.statistics.comparison import Comparison
    from rankwise.statistics.evaluation import Evaluation

_SHOWN = 30  # rows on the screen, where no file is asked for
_ENDINGS = (".csv", ".parquet", ".json")
_COLUMN = Option(metavar="COLUMN")


@dataclass(frozen=True, kw_only=True)
class Ratings:
    """The columns of a table of ratings, and what makes an item relevant."""

    user: Annotated[str | None, "The column of users.", _COLUMN] = None
    item: Annotated[str | None, "The column of items.", _COLUMN] = None
    rating: Annotated[str | None, "The column of ratings. Without one, rows are events, and are counted.", _COLUMN] = (
        None
    )
    time: Annotated[
        str | None,
        "The column of times, for --split: numbers, or dates and times as ISO 8601 has them.",
        Option("timestamp", metavar="COLUMN"),
    ] = None
    implicit: Annotated[bool, "Every row makes an item relevant, whatever its rating."] = False
    relevant: Annotated[float, "From which rating on an item is relevant."] = 4.0

    def arguments(self) -> Keywords:
        """Return the arguments of reading."""
        names = {name: value for name, value in self.columns().items() if value is not None}
        return names | {"relevant": self.relevant} | ({"rating": None} if self.implicit else {})

    def columns(self) -> Keywords:
        """Return the names of the columns."""
        return {"user": self.user, "item": self.item, "rating": self.rating, "time": self.time}


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """How it is found out how well recommendations work."""

    least_relevant: Annotated[int, AtLeast(0), "Measure on users with at least this many relevant items."] = 5
    holdout: Annotated[
        float,
        Within(0, 0.9),
        "The share of each user's relevant items that is held out to be found; 0: none.",
        Option(metavar="SHARE"),
    ] = 0.2
    split: Annotated[
        str,
        OneOf(("random", "time", "global_time")),
        "Which items are held out: any, the latest of each user, or all that were rated after one moment.",
    ] = "random"
    metrics: arguments.Metrics = ("ndcg@10", "recall@20", "rr")


def recommend(
    source: Annotated[
        str,
        "A table of ratings or events (.csv, .tsv, .parquet, also .gz and .zst; columns user, item and rating, or as "
        "MovieLens calls them), a folder as MovieLens comes, a name such as movielens-100k, or a folder that --save "
        "wrote.",
        Option(metavar="RATINGS|MODEL")
    ],
    *,
    users: Annotated[str | None, "Ids of users between commas.", Unset("all users"), Option(metavar="LIST")] = None,
    history: Annotated[
        str | None,
        "Recommend to new users, without training again: items between commas that one of them likes, or a table of "
        "the ratings or events of many.",
        Option(metavar="LIST|FILE")
    ] = None,
    k: Annotated[int, AtLeast(1), "Number of items for each user.", Option(metavar="N")] = 10,
    output: Annotated[
        Path | None, "Write the items: .csv, .parquet or .json.", Option(short="-o", metavar="FILE")
    ] = None,
    save: Annotated[Path | None, "Keep the model in a folder.", Option(metavar="DIR")] = None,
    vectors: Annotated[
        Path | None, "Write the vectors of users and items as .npy, for an index of neighbours; auto then tries als.",
        Option(metavar="DIR")
    ] = None,
    model: Annotated[
        str, "What learns: ease, als, knn, popularity or factorization; auto tries all but the last on a part of the "
        "training data and takes the best.",
        Unset("auto; factorization with --objective or --epochs"), Option(metavar="MODEL")
    ] = "",
    ratings: Ratings,
    title_file: Annotated[
        Path | None, "What items are called: a table of items and titles.", Unset("movies.csv beside")
    ] = None,
    title: Annotated[str | None, "The column of titles there.", _COLUMN] = None,
    measuring: Measuring,
    unknown: Annotated[
        str | None, OneOf(("error", "popular"), "way to treat unknown users"), "Users that the model does not know.",
        Unset("as the model was made")
    ] = None,
    factorization: Annotated[Keywords, Of(lambda: {"": [rw.recommend.FactorizationRanker]}), Only("epochs")],
    objective: Annotated[str | None, "What a factorization optimises.", Option(metavar="EXPRESSION")] = None,
    set_: arguments.Set = inputs.NONE,
    running: Running,
) -> None:  # fmt: skip
    """Learn from ratings or events which items users will like, measure how well that works, and recommend items.

    Some of each user's relevant items are held out; the model must find them among all items that the user has not
    rated. Which model with which setting is chosen on a part of the training data, and compared with what is popular on
    the held-out items. What is recommended in the end comes from a model of all ratings.

    rankwise recommend ratings.csv -o top10.csv
    rankwise recommend clicks.parquet --user customer --item sku --implicit --model als
    rankwise recommend movielens-latest-small --users 1,6 -k 5 --save model
    rankwise recommend model --users 17 --title-file movies.csv
    rankwise recommend model --history 318,858,2571 -k 5
    rankwise recommend ratings.csv --model factorization --objective softmax_ce --set factors=32
    """
    running.free(output, _ENDINGS)
    if save is not None:
        running.free_model(save)
    if vectors is not None:
        from rankwise.recommend.factors import vectors_folder

        vectors_folder(vectors, "npy", force=running.force)
    choice: RecommenderChoice | None = None
    evaluation: Comparison | Evaluation | None = None
    settings = factorization | ({} if objective is None else {"objective": objective})
    if (Path(source) / "rankwise.json").is_file():
        learning = {"--save": save, "--model": model, "--set": set_}
        learning |= {f"--{name}": value for name, value in settings.items()}
        # The columns are those of the table of new users, where there is one.
        columns = {} if history is not None else {f"--{name}": one for name, one in ratings.columns().items()}
        for word, value in (learning | columns).items():
            if value:
                hint = "leave it out, or name the table of ratings"
                raise check.error(f"{word} goes with learning from ratings", got=f"the model {source}", hint=hint)
        learned = _loaded(source)
    else:
        name = model or ("factorization" if settings else "auto")
        with running.steps(None) as bar:
            bar.step(f"Reading {source}")
            learned, choice, evaluation = _learn(
                source, ratings, name, settings | set_, measuring, running, vectors=vectors is not None, bar=bar
            )
        if save is not None:
            learned.save(save, force=running.force)
    if unknown is not None:
        learned.set_params(unknown=unknown)
    names_of_users = None if users is None else _ids(users, learned)
    new_users = None if history is None else _history(history, learned, ratings)
    table = learned.recommend(names_of_users, cutoff=k, history=new_users)
    table = _with_titles(table, source, title_file, title)
    if vectors is not None:
        learned.save_vectors(vectors, force=running.force)
    if output is not None:
        outputs.save_frame(output, table, force=running.force)
    document = {"choice": choice and choice.to_dict(), "evaluation": evaluation and evaluation.to_dict()}
    shown = []
    if choice is not None:
        shown.append(("Chosen on a tenth of the training data", choice.table()))
    if evaluation is not None:
        shown.append(("Held-out items, among all that the user has not rated", evaluation.table()))
    if output is None:
        shown.append(("Recommended items", _shown(table)))
    running.show(document | {"model": learned.name, "items": table.to_dicts()}, *shown, wrote=(output, save, vectors))


def _loaded(folder: str) -> "RecommenderMixin":
    from rankwise.recommend.base import RecommenderMixin

    loaded: object = rw.load(Path(folder))
    if not isinstance(loaded, RecommenderMixin):
        got = f"a model of {getattr(loaded, 'name', type(loaded).__name__)}"
        raise check.error("this model recommends nothing", got=got, hint="use 'rankwise predict'")
    return loaded


def _learn(
    source: str, columns: Ratings, name: str, settings: Keywords, measuring: Measuring, running: Running, *,
    vectors: bool, bar: console.Steps,
) -> "tuple[RecommenderMixin, RecommenderChoice, Comparison | Evaluation | None]":  # fmt: skip
    """Choose and measure on parts, then learn from everything."""
    from rankwise.data.reading import read_interactions
    from rankwise.recommend.choice import AUTO, WITH_VECTORS, choose_recommender, hold_out_comparison

    share, split, seed = measuring.holdout, measuring.split, running.seed
    if name == "auto" and settings:
        got = ", ".join(settings)
        raise check.error("settings belong to one model", got=got, hint="name it: --model als --set factors=32")
    if vectors and name in AUTO and name not in WITH_VECTORS:
        hint = f"leave --vectors out, or choose --model {' or '.join(WITH_VECTORS)}"
        raise check.error("this model has no vectors of users and items", got=f"--model {name}", hint=hint)
    tried = [one for one in AUTO if one in WITH_VECTORS] if vectors and name == "auto" else name
    ratings = read_interactions(source, **columns.arguments())
    if ratings.counted:
        console.note("Every row makes an item relevant: there is no column of ratings.")
    train, held_out = ratings.active(measuring.least_relevant), None
    if train.n_users < ratings.n_users:
        console.note(f"Measured without {train.left_out} relevant items, who get recommendations all the same.")
    if share:
        train, held_out = train.split((1.0 - share, share), by=split, seed=seed, spare_held_out=False)
    choice = choose_recommender(
        train, tried, settings=settings, by=split, seed=seed, threads=running.threads,
        progress=lambda model: bar.step(f"Trying {model}"),
    )  # fmt: skip
    evaluation = None
    if held_out is not None:
        bar.step("Looking for held-out items")
        evaluation = hold_out_comparison(choice.best, train, held_out, list(measuring.metrics), seed=seed)
    bar.step("Learning from all ratings")
    return choice.best.learn(ratings), choice, evaluation


def _history(words: str, model: "RecommenderMixin", ratings: Ratings) -> "Interactions | list[int] | list[str]":
    """Read the history of new users: a table, or the items that one of them likes."""
    from rankwise.data.reading import read_interactions

    return read_interactions(words, **ratings.arguments()) if Path(words).exists() else _ids(words, model, "items")


def _ids(listed: str, model: "RecommenderMixin", what: str = "users") -> list[int] | list[str]:
    """Read ids as the model has them: numbers or words."""
    words = [word.strip() for word in listed.split(",") if word.strip()]
    if getattr(model.model_, what).dtype.kind not in "iu":
        return words
    for word in words:
        if not word.lstrip("-").isdigit() or str(int(word)) != word:
            raise check.error(f"the ids of {what} are whole numbers here", got=repr(word))
    return [int(word) for word in words]


def _with_titles(table: "pl.DataFrame", source: str, titles: Path | None, title: str | None) -> "pl.DataFrame":
    """Add titles behind the items, where there are any."""
    from rankwise.data.interactions.titles import beside, read_titles, titles_of

    path = titles or beside(source)
    if path is None:
        if title is not None:
            hint = "name the table of titles: --title-file FILE"
            raise check.error("--title names a column of a table that is not there", got=repr(title), hint=hint)
        return table
    called = titles_of(table["item"].to_numpy(), read_titles(path, title=title))
    if called.null_count() == len(called):
        console.note(f"no item has a title in {path}, which knows items by other ids")
    return table.insert_column(table.columns.index("item") + 1, called.alias("title"))


def _shown(table: "pl.DataFrame") -> Table:

    def text(cell: object) -> str:
        if isinstance(cell, float):
            return tables.number(cell)
        return tables.NOTHING if cell is None else str(cell)

    rows = tuple(tuple(map(text, row)) for row in table[:_SHOWN].rows())
    notes = (f"… and {len(table) - _SHOWN:,} rows more; -o FILE writes them all.",) if len(table) > _SHOWN else ()
    align = "".join("r" if name in ("rank", "score") else "l" for name in table.columns)
    return tables.Table(header=tuple(table.columns), rows=rows, align=align, notes=notes)
