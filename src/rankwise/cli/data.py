"""The commands of ``data``: ``info``, ``check``, ``skew``, ``convert``, ``split``, ``noise`` and others."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import rankwise as rw
from rankwise import check
from rankwise.arrays import Keywords
from rankwise.check.parameters import Option, Unset
from rankwise.cli import arguments, console, inputs, outputs
from rankwise.cli.command import grouped
from rankwise.cli.data_options import Reading
from rankwise.cli.options import But, Of, Only
from rankwise.cli.running import Running
from rankwise.statistics.tables import Table

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset

_FILES = "parquet, or LETOR text as .txt, .svm, .txt.gz, .txt.zst"
Output = Annotated[Path, f"The file to write: .{_FILES}.", Option(short="-o", metavar="FILE")]
Json_ = Annotated[Running, Only("json")]
Test = Annotated[str | None, "Test data; of a set, its own part.", Option(metavar="DATA")]


@dataclass(frozen=True, kw_only=True)
class Writing:
    """How ranking data are written."""

    lossy: Annotated[bool, "Write LETOR text although it cannot hold weights, groups, positions or propensities."] = (
        False
    )


def info(source: arguments.Data, *, reading: Reading, running: Json_) -> None:
    """Describe a data set: how many queries and documents, which features and labels, what is missing.

    rankwise data info train.txt.gz
    rankwise data info mq2008 --part train --fold 3 --json
    """
    data = _read(source, reading)
    from rankwise.data.summary import in_words, summary

    facts = summary(data)
    running.show(facts, ("", Table(header=("fact", "value"), rows=tuple(in_words(facts)), align="ll")))


def check_(
    source: arguments.Data,
    *,
    valid: arguments.Valid = None,
    test: Test = None,
    curve: Annotated[bool, "Also train on parts of the queries, and forecast what twice as many are worth."] = False,
    strict: Annotated[bool, "End with exit code 3 on warnings, too."] = False,
    plot: arguments.Plot = None,
    reading: Annotated[Reading, But("part")],
    running: Annotated[Running, Only("force", "json")],
) -> None:
    """Examine data before anything is trained on them: what is wrong, and what they can show.

    Errors, and with --strict warnings, end with exit code 3. The figure shows NDCG@10 of orders without learning.

    rankwise data check train.txt --valid valid.txt --test test.txt --plot check.png
    rankwise data check mq2008 --fold 3 --strict
    """
    running.free(plot, outputs.PICTURES)
    from rankwise.data.reading import is_set

    train, held_out = reading.parts(source, valid)
    test = source if test is None and is_set(source) else test
    part = {"part": "test"} if test is not None and is_set(test) else {"fold": None}
    page = rw.examine(train, held_out, None if test is None else replace(reading, **part).data(test), curve=curve)
    if plot is not None:
        page.plot(plot, force=running.force)
    failed = page.failed(strict=strict)
    running.say({"failed": failed, "findings": page.to_frame().to_dicts()}, repr(page), wrote=(plot,))
    if failed:
        raise typer.Exit(3)


def skew(
    source: arguments.Train,
    served: Annotated[str, "Served data: the same, or logged features, .jsonl.", Option(metavar="SERVED")],
    *,
    model: Annotated[
        Path | None, "A model: measure what NDCG loses where a feature is replaced by the served one.",
        Option(metavar="MODEL")
    ] = None,
    settings: Annotated[Keywords, Of(lambda: {"": [rw.data.compare_features]})],
    strict: Annotated[
        bool, "End with exit code 3 where a feature differs by a PSI of 0.25 more than chance makes, or NDCG is lost."
    ] = False,
    reading: Reading,
    running: Json_,
) -> None:  # fmt: skip
    """Compare the features of training data with those that were logged in serving: training-serving skew.

    Logged features are those of rankwise serve --log-features, or responses of Elasticsearch, OpenSearch or Vespa, one
    to a line; of a document that a query has several times the last one counts.

    rankwise data skew train.parquet served.jsonl
    rankwise data skew train.parquet served.parquet --model model --strict
    """
    train = _read(source, reading)
    logged = Path(served).suffix in (".jsonl", ".ndjson")
    data = rw.data.read_feature_log(served, repeated="last") if logged else _read(served, reading)
    compared = rw.data.compare_features(train, data, None if model is None else rw.load(model), **settings)
    running.show(compared.to_dict(), ("", compared.table()))
    if strict and compared.alarms:
        for alarm in compared.alarms:
            console.note(f"alarm: {alarm}")
        raise typer.Exit(3)


def convert(
    source: arguments.Data,
    *,
    output: Output,
    writing: Writing,
    reading: Reading,
    running: Annotated[Running, Only("force")],
) -> None:
    """Convert LETOR text, CSV or Parquet to LETOR text or Parquet, compressed or not.

    rankwise data convert train.txt.gz -o train.parquet
    rankwise data convert rows.csv --query session --label clicked -o rows.parquet
    rankwise data convert mq2008 -o test.parquet --part test
    """
    _free(output, running)
    _write(_read(source, reading), output, writing, running)


def split(
    source: arguments.Data,
    *,
    output: Annotated[str, "The files to write, between commas.", Option(short="-o", metavar="FILES")],
    proportions: Annotated[
        str, "The share of the queries that each file gets, between commas.", Option(metavar="NUMBERS")
    ] = "0.6,0.2,0.2",
    writing: Writing,
    reading: Reading,
    running: Annotated[Running, Only("seed", "force")],
) -> None:
    """Split a data set by query: all documents of a query go into the same file.

    Where a query goes depends on its id and the seed, not on the order of the queries.

    rankwise data split all.txt -o train.txt,valid.txt,test.txt --proportions .6,.2,.2 --seed 1
    """
    targets = [Path(name) for name in inputs.items(output)]
    shares = inputs.numbers("proportions", proportions)
    if len(targets) != len(shares) or len(set(targets)) < len(targets):
        got = f"{len(set(targets))} different files for {len(shares)} proportions"
        raise check.error("a split needs one file for each proportion", got=got)
    for target in targets:
        _free(target, running)
    data = _read(source, reading)
    for target, piece in zip(targets, rw.split(data, shares, seed=running.seed), strict=True):
        _write(piece, target, writing, running)


def noise(
    source: arguments.Data,
    *,
    output: Output,
    negatives: Annotated[
        float | None, "Append documents of other queries as non-relevant ones.", Option(metavar="SHARE")
    ] = None,
    flips: Annotated[float | None, "Redraw the labels of this share of each list.", Option(metavar="SHARE")] = None,
    writing: Writing,
    reading: Reading,
    running: Annotated[Running, Only("seed", "force")],
) -> None:
    """Perturb training data, to see how robust a ranker is.

    Shares are of the length of each list: --negatives 0.4 makes lists 40% longer.

    rankwise data noise train.txt -o noisy.txt --negatives 0.4 --seed 1
    rankwise data noise train.txt -o noisy.txt --flips 0.2 --seed 1
    """
    if (negatives is None) == (flips is None):
        got = "neither" if flips is None else "both"
        raise check.error("noise is one of --negatives SHARE and --flips SHARE", got=got)
    _free(output, running)
    data = _read(source, reading)
    if negatives is not None:
        noisy = rw.data.add_negatives(data, negatives, seed=running.seed)
    else:
        noisy = rw.data.flip_labels(data, flips or 0.0, seed=running.seed)
    _write(noisy, output, writing, running)


def thin(
    source: arguments.Data,
    *,
    output: Output,
    queries: Annotated[
        str | float | None, "Sample this share, .1, or number, 1000, of the queries.", Option(metavar="SHARE|N")
    ] = None,
    negatives: Annotated[
        str | float | None, "Sample this share, .2, or number, 20, of the documents with label 0 of each query.",
        Option(metavar="SHARE|N")
    ] = None,
    writing: Writing,
    reading: Reading,
    running: Annotated[Running, Only("seed", "force")],
) -> None:  # fmt: skip
    """Sample queries and negatives, to try a large data set on a small machine; weights make up for the rest.

    Thin test data by --queries alone: a list with fewer negatives has a higher NDCG. Weights need Parquet, or --lossy.

    rankwise data thin train.parquet -o small.parquet --queries .1 --negatives 20 --seed 1
    """
    _free(output, running)
    amounts: Keywords = {"queries": queries, "negatives": negatives}
    _write(rw.data.thin(_read(source, reading), **amounts, seed=running.seed), output, writing, running)


def clicks(
    source: arguments.Data,
    *,
    output: Output,
    settings: Annotated[Keywords, Of(lambda: {"": [rw.clicks.simulate_clicks]})],
    probabilities: Annotated[
        str | None, "Probability of a click on a seen document of grade 0, 1, ….", Unset("0.05,0.3,0.5,0.7,0.95"),
        Option(metavar="NUMBERS")
    ] = None,
    eta: Annotated[float, "How fast attention falls with the rank, for --click-model position."] = 1.0,
    scores: Annotated[
        Path | None, "Show lists in the order of these scores, not at random.", Option(metavar="SCORES")
    ] = None,
    writing: Writing,
    reading: Reading,
    running: Annotated[Running, Only("force")],
) -> None:  # fmt: skip
    """Simulate users who click: each list that a user sees becomes a query, labelled 1 where clicked.

    Displayed positions are kept, for which the output must be Parquet (or --lossy, to leave them out).

    rankwise data clicks train.txt -o clicks.parquet --click-model cascade --impressions 10 --seed 1
    rankwise data clicks train.txt -o clicks.parquet --click-model position --scores scores.txt --cutoff 10
    """
    _free(output, running)
    from rankwise.evaluation.score_files import in_order_of, read_scores

    if probabilities is not None:
        settings["probabilities"] = inputs.numbers("click probabilities", probabilities)
    order = None if scores is None else read_scores(scores)
    data = _read(source, reading)
    shown = None if order is None else in_order_of(data, order)
    _write(rw.clicks.simulate_clicks(data, ranker=shown, eta=eta, **settings), output, writing, running)


def catalog(*, running: Json_) -> None:
    """List the public data sets that are known by name, and where they come from.

    Their files are looked for below the folder that the environment variable RANKWISE_DATA names, or --data-folder of
    other commands; "yes" in the last column means that --download fetches them.

    rankwise data list
    rankwise train mq2008 --data-folder ~/letor -o model
    """
    from rankwise.data.catalog.sets import datasets

    entries = datasets()
    table = Table(header=entries.header, rows=tuple(entries.rows()), align="lrrrlrl")
    running.show([asdict(entry) for entry in entries], ("", table))


def _free(target: Path, running: Running) -> None:
    """Raise at once if a file could not be written at the end, or its name does not say its format."""
    from rankwise.data.reading import format_to_write

    format_to_write(target)
    running.free(target)


def _read(source: str, reading: Reading) -> "RankingDataset":
    """Read data; of a set the training part, which is the one to look at, split and perturb: test data stay unseen."""
    from rankwise.data.reading import is_set

    if reading.part is None and is_set(source):
        reading = replace(reading, part="train")
        console.note(f"reading the training part of {source}; --part names another")
    with console.progress(1) as bar:
        bar.step(f"Reading {source}")
        return reading.data(source, bar)


def _write(data: "RankingDataset", target: Path, writing: Writing, running: Running) -> None:
    from rankwise.data.letor.writer import unsupported
    from rankwise.data.reading import is_parquet, write_data

    if writing.lossy and not is_parquet(target):
        nothing: Keywords = dict.fromkeys(unsupported()) | {"categorical": ()}
        data = data.with_(**nothing)
    with console.progress(1) as bar:
        bar.step(f"Writing {target}")
        write_data(data, target, force=running.force)
    console.note(f"wrote {target}: {data!r}")


_commands = {"info": info, "check": check_, "skew": skew, "convert": convert, "split": split, "noise": noise}
_commands |= {"thin": thin, "clicks": clicks, "list": catalog}
app = grouped("Look at data, convert it, split it, perturb it, simulate clicks on it.", _commands)
