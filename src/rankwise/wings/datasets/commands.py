"""The commands ``data noise``, ``thin`` and ``list``."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import rankwise as rw
from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import Option
from rankwise.cli.wing import Only, Reading, Running, Seed, arguments, data, of, register_in

if TYPE_CHECKING:
    from typer import Typer


def noise(
    source: arguments.Data,
    *,
    target: data.Target,
    negatives: Annotated[
        float | None, "Append documents of other queries as non-relevant ones.", Option(metavar="SHARE")
    ] = None,
    flips: Annotated[float | None, "Redraw the labels of this share of each list.", Option(metavar="SHARE")] = None,
    seed: Seed = 0,
    reading: Reading,
) -> None:
    """Perturb training data, to see how robust a ranker is.

    Shares are of the length of each list: --negatives 0.4 makes lists 40% longer.

    rankwise data noise train.txt -o noisy.txt --negatives 0.4 --seed 1
    rankwise data noise train.txt -o noisy.txt --flips 0.2 --seed 1
    """
    shares = [(rw.data.add_negatives, negatives), (rw.data.flip_labels, flips)]
    chosen: list[tuple[Any, float]] = [(perturb, share) for perturb, share in shares if share is not None]
    if len(chosen) != 1:
        got = "both" if chosen else "neither"
        raise check.error("noise is one of --negatives SHARE and --flips SHARE", got=got)
    [(perturb, share)] = chosen
    target.changed(source, reading, lambda whole: perturb(whole, share, seed=seed))


def thin(
    source: arguments.Data,
    *,
    target: data.Target,
    settings: Annotated[Keywords, of("rankwise.wings.datasets.subsample:thin")],
    reading: Reading,
) -> None:
    """Sample queries and negatives, to try a large data set on a small machine; weights make up for the rest.

    Thin test data by --queries alone: a list with fewer negatives has a higher NDCG. Weights need Parquet, or --lossy.

    rankwise data thin train.parquet -o small.parquet --queries .1 --negatives 20 --seed 1
    """
    target.changed(source, reading, lambda whole: rw.data.thin(whole, **settings))


def list_(*, running: Annotated[Running, Only("json")]) -> None:
    """List the public data sets that are known by name, and where they come from.

    Their files are looked for below the folder that the environment variable RANKWISE_DATA names, or --data-folder of
    other commands; "yes" in the last column means that --download fetches them.

    rankwise data list
    rankwise train mq2008 --data-folder ~/letor -o model
    """
    sets = rw.data.datasets()
    running.show([asdict(entry) for entry in sets], ("", sets.table()))


def add(app: "Typer") -> None:
    """Add the commands of the wing."""
    register_in(app, "data", noise, thin, list_)
