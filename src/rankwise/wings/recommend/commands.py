"""The command ``recommend``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.base.tables import NOTHING, Table, number
from rankwise.check.parameters import AtLeast, OneOf, Option, Unset
from rankwise.cli.wing import DATA, Only, Running, arguments, console, inputs, of, register
from rankwise.statistics import write_frame

if TYPE_CHECKING:
    import polars as pl
    from typer import Typer

_SHOWN = 30  # rows on the screen, where no file is asked for


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
    ratings: Annotated[Keywords, of("rankwise.wings.recommend.data.sources:read_interactions", "Ratings")],
    titles: Annotated[Keywords, of("rankwise.wings.recommend.data.titles:with_titles", "Titles of items")],
    measuring: Annotated[Keywords, of("rankwise.wings.recommend.choice:learn", "Measuring")],
    unknown: Annotated[
        str | None, OneOf(("error", "popular"), "way to treat unknown users"), "Users that the model does not know.",
        Unset("as the model was made")
    ] = None,
    factorization: Annotated[Keywords, of("rankwise.recommend:FactorizationRanker"), Only("epochs")],
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
    running.free(output, (".csv", ".parquet", ".json"))
    if save is not None:
        running.free_model(save)
    from rankwise.wings.recommend import choice
    from rankwise.wings.recommend.data.sources import read_interactions
    from rankwise.wings.recommend.data.titles import with_titles
    from rankwise.wings.recommend.factors import vectors_folder

    if vectors is not None:
        vectors_folder(vectors, "npy", force=running.force)
    settings = factorization | ({} if objective is None else {"objective": objective})
    if (Path(source) / "rankwise.json").is_file():
        # The columns are those of the table of new users, where there is one.
        columns = {} if history is not None else ratings
        for word, value in ({"save": save, "model": model, "set": set_} | settings | columns).items():
            if value:
                hint = "leave it out, or name the table of ratings"
                raise check.error(f"--{word} goes with learning from ratings", got=f"the model {source}", hint=hint)
        learned = choice.opened(source)
    else:
        name, settings = model or ("factorization" if settings else "auto"), settings | set_
        models = choice.models_to_try(name, settings, vectors=vectors is not None)
        with running.steps(None) as bar:
            bar.step(f"Reading {source}")
            learned = choice.learn(
                read_interactions(source, **ratings), models, settings, seed=running.seed, threads=running.threads,
                progress=bar.step, note=console.note, **measuring,
            )  # fmt: skip
        if save is not None:
            learned.model.save(save, force=running.force)
    recommender = learned.model if unknown is None else learned.model.set_params(unknown=unknown)
    new: Any = None
    if history is not None:
        liked = Path(history).exists()
        new = (
            read_interactions(history, **ratings)
            if liked
            else recommender.model_.read_ids(inputs.items(history), "items")
        )
    ids = None if users is None else recommender.model_.read_ids(inputs.items(users), "users")
    table = with_titles(recommender.recommend(ids, cutoff=k, history=new), source, note=console.note, **titles)
    if vectors is not None:
        recommender.save_vectors(vectors, force=running.force)
    shown = learned.tables()
    if output is None:
        shown.append(("Recommended items", _table(table, _SHOWN, "-o FILE writes them all.")))
    else:
        write_frame(table, output, force=running.force)
    running.show(learned.to_dict() | {"items": table.to_dicts()}, *shown, wrote=(output, save, vectors))


def add(app: "Typer") -> None:
    """Add the commands of the wing."""
    register(app, DATA, recommend)


def _table(frame: "pl.DataFrame", most: int, rest: str) -> Table:
    """Return a table of the first rows of a frame; ``rest`` is where the others are."""

    def text(cell: object) -> str:
        return number(cell) if isinstance(cell, float) else NOTHING if cell is None else str(cell)

    rows = tuple(tuple(map(text, row)) for row in frame[:most].rows())
    notes = (f"… and {len(frame) - most:,} rows more; {rest}",) if len(frame) > most else ()
    align = "".join("l" if kind.is_nested() or not kind.is_numeric() else "r" for kind in frame.dtypes)
    return Table(header=tuple(frame.columns), rows=rows, align=align, notes=notes)
