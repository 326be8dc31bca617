"""The command ``recommend``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import rankwise as rw
from rankwise import check
from rankwise.arrays import Keywords
from rankwise.cli import console, inputs, outputs
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
_METRICS = ["ndcg@10", "recall@20", "rr"]


def recommend(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RATINGS|MODEL",
            help="A table of ratings or events (.csv, .tsv, .parquet, also .gz and .zst; columns user, item and "
            "rating, or as MovieLens calls them), a folder as MovieLens comes, a name such as movielens-100k, or a "
            "folder that --save wrote.",
        ),
    ],
    users: str | None = None,
    history: str | None = None,
    k: int = 10,
    output: Path | None = None,
    save: Path | None = None,
    vectors: Path | None = None,
    model: str = "",
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    timestamp: str | None = None,
    implicit: bool = False,
    titles: Path | None = None,
    title: str | None = None,
    relevant: float = 4.0,
    least_relevant: int = 5,
    test: float = 0.2,
    split: str = "random",
    unknown: str | None = None,
    objective: str | None = None,
    epochs: int | None = None,
    set_: list[str] | None = None,
    metrics: list[str] = _METRICS,
    seed: int = 0,
    threads: int | None = None,
    progress: bool | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Learn from ratings or events which items users will like, measure how well that works, and recommend items.

    Some of each user's relevant items are held out; the model must find them among all items that the user has not
    rated. Which model with which setting is chosen on a part of the training data, and compared with what is popular on
    the held-out items. What is recommended in the end comes from a model of all ratings.

    [cyan]rankwise recommend ratings.csv -o top10.csv[/cyan]
    [cyan]rankwise recommend clicks.parquet --user customer --item sku --implicit --model als[/cyan]
    [cyan]rankwise recommend movielens-latest-small --users 1,6 -k 5 --save model[/cyan]
    [cyan]rankwise recommend model --users 17 --titles movies.csv[/cyan]
    [cyan]rankwise recommend model --history 318,858,2571 -k 5[/cyan]
    [cyan]rankwise recommend ratings.csv --model factorization --objective "softmax_ce" --set factors=32[/cyan]

    --users LIST: Ids of users between commas. [default: all users]
    --history LIST|FILE: Recommend to new users, without training again: items between commas that one of them likes, or
        a table of the ratings or events of many.
    -k N>=1: How many items for each user.
    --output -o FILE: Write the items: .csv, .parquet or .json.
    --save DIR: Keep the model in a folder.
    --vectors DIR: Write the vectors of users and items as .npy, for an index of neighbours; auto then tries als alone.
    --model NAME: What learns: ease, als, knn, popularity or factorization; auto tries all but the last on a part of the
        training data and takes the best. [default: auto; factorization with --objective or --epochs]
    --user COLUMN: The column of users.
    --item COLUMN: The column of items.
    --rating COLUMN: The column of ratings. Without one, rows are events, and are counted.
    --timestamp COLUMN: The column of times, for --split: numbers, or dates and times as ISO 8601 has them.
    --implicit: Every row makes an item relevant, whatever its rating.
    --titles FILE: What items are called: a table of items and titles. [default: movies.csv beside]
    --title COLUMN: The column of titles there.
    --relevant X: From which rating on an item is relevant.
    --least-relevant N>=0: Measure on users with so many relevant items at least.
    --test X: The share of each user's relevant items that is held out to be found; 0: none.
    --split random|time|global_time: Which items are held out: any, the latest of each user, or all that were rated
        after one moment.
    --unknown error|popular: Users that the model does not know. [default: as the model was made]
    --objective EXPRESSION: What a factorization optimises.
    --epochs N>=1: Epochs of a factorization.
    """
    outputs.free(output, _ENDINGS, force=force)
    if save is not None:
        outputs.free_model(save, force=force)
    if vectors is not None:
        from rankwise.recommend.factors import vectors_folder

        vectors_folder(vectors, "npy", force=force)
    choice: RecommenderChoice | None = None
    evaluation: Comparison | Evaluation | None = None
    names: Keywords = {"user": user, "item": item, "rating": rating, "time": timestamp}
    columns = {role: column for role, column in names.items() if column is not None}
    if implicit:
        columns["rating"] = None
    if (Path(source) / "rankwise.json").is_file():
        learning = {"--save": save, "--model": model, "--objective": objective, "--epochs": epochs, "--set": set_}
        # The columns are those of the table of new users, where there is one.
        for word, value in (learning | ({} if history is not None else names)).items():
            if value:
                hint = "leave it out, or name the table of ratings"
                raise check.error(f"{word} goes with learning from ratings", got=f"the model {source}", hint=hint)
        learned = _loaded(source)
    else:
        settings: Keywords = {"objective": objective, "epochs": epochs} | inputs.settings(set_ or [])
        settings = {name: value for name, value in settings.items() if value is not None}
        name = model or ("factorization" if objective or epochs else "auto")
        with console.progress(None, progress) as bar:
            bar.step(f"Reading {source}")
            learned, choice, evaluation = _learn(
                source, columns, name, settings,
                relevant=relevant, least_relevant=least_relevant, test=test, split=split, metrics=metrics, seed=seed,
                threads=threads, vectors=vectors is not None, bar=bar,
            )  # fmt: skip
        if save is not None:
            learned.save(save, force=force)
    if unknown is not None:
        learned.set_params(unknown=check.choice("way to treat unknown users", unknown, ("error", "popular")))
    names_of_users = None if users is None else _ids(users, learned)
    new_users = None if history is None else _history(history, learned, relevant=relevant, **columns)
    table = learned.recommend(names_of_users, cutoff=k, history=new_users)
    table = _with_titles(table, source, titles, title)
    if vectors is not None:
        learned.save_vectors(vectors, force=force)
    if output is not None:
        outputs.save_frame(output, table, force=force)
    if json:
        document = {"choice": choice and choice.to_dict(), "evaluation": evaluation and evaluation.to_dict()}
        console.document(document | {"model": learned.name, "items": table.to_dicts()})
        return
    if choice is not None:
        console.table(choice.table(), title="Chosen on a tenth of the training data")
    if evaluation is not None:
        console.table(evaluation.table(), title="Held-out items, among all that the user has not rated")
    if output is None:
        console.table(_shown(table), title="Recommended items")
    outputs.said(output, save, vectors)


def _loaded(folder: str) -> "RecommenderMixin":
    from rankwise.recommend.base import RecommenderMixin

    loaded: object = rw.load(Path(folder))
    if not isinstance(loaded, RecommenderMixin):
        got = f"a model of {getattr(loaded, 'name', type(loaded).__name__)}"
        raise check.error("this model recommends nothing", got=got, hint="use 'rankwise predict'")
    return loaded


def _learn(
    source: str,
    columns: Keywords,
    name: str,
    settings: Keywords,
    *,
    relevant: float,
    least_relevant: int,
    test: float,
    split: str,
    metrics: list[str],
    seed: int,
    threads: int | None,
    vectors: bool,
    bar: console.Steps,
) -> "tuple[RecommenderMixin, RecommenderChoice, Comparison | Evaluation | None]":
    """Choose and measure on parts, then learn from everything."""
    from rankwise.data.reading import read_interactions
    from rankwise.recommend.choice import AUTO, WITH_VECTORS, choose_recommender, hold_out_comparison

    share = check.number("--test", test, least=0.0, most=0.9)
    if name == "auto" and settings:
        got = ", ".join(settings)
        raise check.error("settings belong to one model", got=got, hint="name it: --model als --set factors=32")
    if vectors and name in AUTO and name not in WITH_VECTORS:
        hint = f"leave --vectors out, or choose --model {' or '.join(WITH_VECTORS)}"
        raise check.error("this model has no vectors of users and items", got=f"--model {name}", hint=hint)
    tried = [one for one in AUTO if one in WITH_VECTORS] if vectors and name == "auto" else name
    ratings = read_interactions(source, relevant=relevant, **columns)
    if ratings.counted:
        console.note("Every row makes an item relevant: there is no column of ratings.")
    train, held_out = ratings.active(least_relevant), None
    if train.n_users < ratings.n_users:
        console.note(f"Measured without {train.left_out} relevant items, who get recommendations all the same.")
    if share:
        train, held_out = train.split((1.0 - share, share), by=split, seed=seed, spare_held_out=False)
    choice = choose_recommender(
        train, tried, settings=settings, by=split, seed=seed, threads=threads,
        progress=lambda model: bar.step(f"Trying {model}"),
    )  # fmt: skip
    evaluation = None
    if held_out is not None:
        bar.step("Looking for held-out items")
        evaluation = hold_out_comparison(choice.best, train, held_out, inputs.items(",".join(metrics)), seed=seed)
    bar.step("Learning from all ratings")
    return choice.best.learn(ratings), choice, evaluation


def _history(words: str, model: "RecommenderMixin", **columns: Any) -> "Interactions | list[int] | list[str]":
    """Read the history of new users: a table, or the items that one of them likes."""
    from rankwise.data.reading import read_interactions

    return read_interactions(words, **columns) if Path(words).exists() else _ids(words, model, "items")


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
            hint = "name the table of titles: --titles FILE"
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
