"""The command ``recommend``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise import check
from rankwise.cli import inputs, options, outputs, screen
from rankwise.plain import Keywords

if TYPE_CHECKING:
    import polars as pl

    from rankwise.data.interactions.lists import Interactions
    from rankwise.evaluation.comparison import Comparison
    from rankwise.evaluation.tables import Table
    from rankwise.rankers.factorization.ranker import FactorizationRanker
    from rankwise.rankers.recommenders.popularity import Popularity

_SHOWN = 30  # rows on the screen, where no file is asked for
_METRICS = ["ndcg@10", "recall@10", "rr"]
# To find a few items among all, a model must have seen most of the others as what they are.
_FULL_CATALOGUE = {"negatives": 20, "resample": True, "item_bias": True}


def recommend(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RATINGS|MODEL",
            help="A table of ratings (.csv, .tsv, .parquet, also .gz and .zst; columns user, item, rating, or as "
            "MovieLens calls them), a name such as movielens-100k, or a folder that --save wrote.",
        ),
    ],
    users: Annotated[
        str | None, typer.Option(metavar="LIST", help="Ids of users between commas.", show_default="all users")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, metavar="N", help="How many items for each user.")] = 10,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the items: .csv or .parquet.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the model in a folder.")] = None,
    relevant: Annotated[float, typer.Option(metavar="X", help="From which rating on an item is relevant.")] = 4.0,
    least_relevant: Annotated[
        int, typer.Option(min=0, metavar="N", help="Leave out users with fewer relevant items.")
    ] = 5,
    test: Annotated[
        float,
        typer.Option(
            metavar="X", help="The share of each user's relevant items that is held out to be found; 0: none."
        ),
    ] = 0.2,
    objective: Annotated[str, typer.Option(metavar="EXPRESSION", help="What is optimised.")] = "softmax_ce",
    epochs: Annotated[int, typer.Option(min=1, metavar="N", help="How many epochs at most.")] = 100,
    set_: options.Set = None,
    metrics: options.Metrics = _METRICS,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    progress: options.Progress = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Learn from ratings which items users will like, measure how well that works, and recommend items.

    Some of each user's relevant items are held out; the model must find them among all items that the user has not
    rated. The number of epochs is chosen on a part of the training data. What is recommended in the end comes from a
    model of all ratings.

    [cyan]rankwise recommend ratings.csv -o top10.csv[/cyan]
    [cyan]rankwise recommend movielens-latest-small --users 1,6 -k 5 --save model[/cyan]
    [cyan]rankwise recommend model --users 17[/cyan]
    [cyan]rankwise recommend ratings.csv --objective "bounded(approx_ndcg)" --set factors=64 --set negatives=50[/cyan]
    """
    outputs.free(output, outputs.FRAMES, force=force)
    if save is not None:
        outputs.free_model(save, force=force)
    found: Comparison | None = None
    if (Path(source) / "rankwise.json").is_file():
        import rankwise as rw

        if save is not None:
            raise check.error("--save keeps what is learned from ratings", got=f"the model {source}", hint="copy it")

        loaded = rw.load(Path(source))
        if not isinstance(loaded, rw.FactorizationRanker):
            hint = "use 'rankwise predict'"
            raise check.error("only a factorization recommends", got=f"a model of {loaded.name}", hint=hint)
        model = loaded
    else:
        settings: Keywords = {"objective": objective, "epochs": epochs, "seed": seed, "threads": threads}
        settings |= _FULL_CATALOGUE | inputs.settings(set_ or [])
        with screen.progress(4, progress) as bar:
            bar.step(f"Reading {source}")
            ratings = read_ratings(source, relevant, least_relevant)
            model, found = _learn(ratings, settings, test, metrics, bar)
        if save is not None:
            model.save(save, force=force)
    table = model.recommend(None if users is None else _ids(users, model), k=k)
    if output is not None:
        outputs.save_frame(output, table, force=force)
    if json:
        screen.document({"evaluation": found and found.to_dict(), "epochs": model.epochs_, "items": table.to_dicts()})
        return
    if found is not None:
        screen.table(found.table(), title="Held-out items, among all that the user has not rated")
    if output is None:
        screen.table(_shown(table), title="Recommended items")
    outputs.said(output, save)


def read_ratings(source: str, relevant: float, least_relevant: int) -> "Interactions":
    """Read ratings from a file, or a set of the catalog."""
    from dataclasses import replace

    from rankwise.data.interactions.lists import Interactions
    from rankwise.data.sources import is_set

    if is_set(source):
        from rankwise.data.catalog.load import load_dataset

        whole: Any = load_dataset(source)
        if not isinstance(whole, Interactions):
            hint = "name a table of ratings or one of MovieLens"
            raise check.error("recommending needs ratings of users", got=f"the ranking data {source}", hint=hint)
        return replace(whole, relevant=relevant).active(least_relevant)
    return Interactions.read(source, relevant=relevant, least_relevant=least_relevant)


def _learn(
    ratings: "Interactions", settings: Keywords, test: float, metrics: list[str], bar: screen.Steps
) -> "tuple[FactorizationRanker, Comparison | None]":
    """Train and measure on parts, then train on everything for as many epochs as were best."""
    import rankwise as rw

    share = check.number("--test", test, least=0.0, most=0.9)
    seed = settings["seed"]
    train, held_out = ratings, None
    if share:
        train, held_out = ratings.split((1.0 - share, share), seed=seed, spare_held_out=False)
    bar.step("Choosing the number of epochs")
    fit, check_on = train.split((0.9, 0.1), seed=seed)
    ranker = rw.FactorizationRanker(**settings, progress=False).fit(fit, check_on)
    found = None
    ranker.set_params(epochs=ranker.best_round_)
    if held_out is not None:
        bar.step("Looking for held-out items")
        asked = inputs.items(",".join(metrics))
        models: dict[str, Popularity | FactorizationRanker] = {
            "most popular": rw.Popularity().fit(train),
            "factorization": ranker.set_params(unknown="popular").fit(train),
        }
        found = rw.compare(
            {
                name: rw.evaluate_interactions(one, held_out, asked, exclude=train, seed=seed)
                for name, one in models.items()
            }
        )
    bar.step("Learning from all ratings")
    return ranker.set_params(unknown=settings.get("unknown", "error")).fit(ratings), found


def _ids(users: str, model: "FactorizationRanker") -> list[int] | list[str]:
    """Read ids of users as the model has them: numbers or words."""
    words = [word.strip() for word in users.split(",") if word.strip()]
    if model.model_.users.dtype.kind not in "iu":
        return words
    for word in words:
        if not word.lstrip("-").isdigit():
            raise check.error("the ids of users are whole numbers here", got=repr(word))
    return [int(word) for word in words]


def _shown(table: "pl.DataFrame") -> "Table":
    from rankwise.evaluation import tables

    rows = tuple(
        (str(user), str(rank), str(item), tables.number(score)) for user, rank, item, score in table[:_SHOWN].rows()
    )
    notes = (f"… and {len(table) - _SHOWN:,} rows more; -o FILE writes them all.",) if len(table) > _SHOWN else ()
    return tables.Table(header=("user", "rank", "item", "score"), rows=rows, align="lrlr", notes=notes)
