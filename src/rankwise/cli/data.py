"""The commands of ``data``: ``info``, ``check``, ``skew``, ``convert``, ``split``, ``noise`` and others."""

import itertools
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import rankwise as rw
from rankwise import check
from rankwise.arrays import Json, Keywords
from rankwise.cli import console, inputs, options, outputs
from rankwise.cli.command import grouped
from rankwise.cli.data_options import Reading
from rankwise.statistics.tables import Table

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset

_SHOWN = 40  # features that data info names

_OPTIONS = options.SHARED | options.described("""
--output -o FILE: The file to write: .parquet, or LETOR text as .txt, .svm, .txt.gz, .txt.zst.
--lossy: Write LETOR text although it cannot hold weights, groups, positions or propensities.

Reading data:
--part train|valid|test: Which part of a catalog set or a .toml file. [default: train]
""")


def info(
    *,
    source: options.Data,
    reading: Reading,
    json: bool = False,
) -> None:
    """Describe a data set: how many queries and documents, which features and labels, what is missing.

    [cyan]rankwise data info train.txt.gz[/cyan]
    [cyan]rankwise data info mq2008 --part train --fold 3 --json[/cyan]
    """
    data = _read(source, reading)
    from rankwise.data.summary import summary

    facts = summary(data)
    outputs.show(facts, ("", _facts(facts)), json=json)


def check_(
    *,
    source: options.Data,
    valid: str | None = None,
    test: str | None = None,
    curve: bool = False,
    strict: bool = False,
    plot: Path | None = None,
    reading: Reading,
    force: bool = False,
    json: bool = False,
) -> None:
    """Examine data before anything is trained on them: what is wrong, and what they can show.

    Errors, and with --strict warnings, end with exit code 1.

    [cyan]rankwise data check train.txt --valid valid.txt --test test.txt --plot check.png[/cyan]
    [cyan]rankwise data check mq2008 --fold 3 --strict[/cyan]

    --valid DATA: Validation data; of a set, its own part.
    --test DATA: Test data; of a set, its own part.
    --curve: Also train on parts of the queries, and forecast what twice as many are worth.
    --strict: End with exit code 1 on warnings, too.
    --plot FILE: Draw NDCG@10 of orders without learning: .png, .svg or .pdf.
    """
    outputs.free(plot, outputs.PICTURES, force=force)
    from rankwise.data.reading import is_set

    train, held_out = reading.parts(source, valid)
    test = source if test is None and is_set(source) else test
    part = {"part": "test"} if test is not None and is_set(test) else {"fold": None}
    page = rw.examine(train, held_out, None if test is None else replace(reading, **part).data(test), curve=curve)
    if plot is not None:
        page.plot(plot, force=force)
    if json:
        console.document({"failed": page.failed(strict=strict), "findings": page.to_frame().to_dicts()})
    else:
        console.say(repr(page), wrap=False)
        outputs.said(plot)
    if page.failed(strict=strict):
        raise typer.Exit(1)


def skew(
    *,
    source: options.Train,
    served: Annotated[str, typer.Argument(metavar="SERVED", help="Served data: the same, or logged features, .jsonl.")],
    model: Path | None = None,
    metric: str = "ndcg@10",
    confidence: float = 0.95,
    strict: bool = False,
    reading: Reading,
    json: bool = False,
) -> None:
    """Compare the features of training data with those that were logged in serving: training-serving skew.

    Logged features are those of rankwise serve --log-features, or responses of Elasticsearch, OpenSearch or Vespa, one
    to a line; of a document that a query has several times the last one counts.

    [cyan]rankwise data skew train.parquet served.jsonl[/cyan]
    [cyan]rankwise data skew train.parquet served.parquet --model model --strict[/cyan]

    --model MODEL: A model: measure what NDCG loses where a feature is replaced by the served one.
    --metric METRIC: What is measured with --model.
    --strict: End with exit code 3 where a feature differs by a PSI of 0.25 more than chance makes, or NDCG is lost.
    """
    train = _read(source, reading)
    logged = Path(served).suffix in (".jsonl", ".ndjson")
    data = rw.data.read_feature_log(served, repeated="last") if logged else _read(served, reading)
    compared = rw.data.compare_features(
        train, data, None if model is None else rw.load(model), metric=metric, level=confidence
    )
    outputs.show(compared.to_dict(), ("", compared.table()), json=json)
    if strict and compared.alarms:
        for alarm in compared.alarms:
            console.note(f"alarm: {alarm}")
        raise typer.Exit(3)


def convert(
    *,
    source: options.Data,
    output: Path,
    reading: Reading,
    lossy: bool = False,
    force: bool = False,
) -> None:
    """Convert LETOR text, CSV or Parquet to LETOR text or Parquet, compressed or not.

    [cyan]rankwise data convert train.txt.gz -o train.parquet[/cyan]
    [cyan]rankwise data convert rows.csv --query session --label clicked -o rows.parquet[/cyan]
    [cyan]rankwise data convert mq2008 -o test.parquet --part test[/cyan]
    """
    _free(output, force=force)
    _write(_read(source, reading), output, force=force, lossy=lossy)


def split(
    *,
    source: options.Data,
    output: str,
    proportions: str = "0.6,0.2,0.2",
    seed: int = 0,
    reading: Reading,
    lossy: bool = False,
    force: bool = False,
) -> None:
    """Split a data set by query: all documents of a query go into the same file.

    Where a query goes depends on its id and the seed, not on the order of the queries.

    [cyan]rankwise data split all.txt -o train.txt,valid.txt,test.txt --proportions .6,.2,.2 --seed 1[/cyan]

    --output -o FILES: The files to write, between commas.
    --proportions NUMBERS: The share of the queries that each file gets, between commas.
    """
    targets = [Path(name) for name in inputs.items(output)]
    shares = inputs.numbers("proportions", proportions)
    if len(targets) != len(shares) or len(set(targets)) < len(targets):
        got = f"{len(set(targets))} different files for {len(shares)} proportions"
        raise check.error("a split needs one file for each proportion", got=got)
    for target in targets:
        _free(target, force=force)
    data = _read(source, reading)
    for target, piece in zip(targets, rw.split(data, shares, seed=seed), strict=True):
        _write(piece, target, force=force, lossy=lossy)


def noise(
    *,
    source: options.Data,
    output: Path,
    negatives: float | None = None,
    flips: float | None = None,
    seed: int = 0,
    reading: Reading,
    lossy: bool = False,
    force: bool = False,
) -> None:
    """Perturb training data, to see how robust a ranker is.

    Fractions are relative to the length of each list: --negatives 0.4 makes lists 40% longer.

    [cyan]rankwise data noise train.txt -o noisy.txt --negatives 0.4 --seed 1[/cyan]
    [cyan]rankwise data noise train.txt -o noisy.txt --flips 0.2 --seed 1[/cyan]

    --negatives FRACTION: Append documents of other queries as non-relevant ones.
    --flips FRACTION: Redraw the labels of this share of each list.
    """
    if (negatives is None) == (flips is None):
        raise check.error(
            "noise is one of --negatives FRACTION and --flips FRACTION", got="neither" if flips is None else "both"
        )
    _free(output, force=force)
    data = _read(source, reading)
    if negatives is not None:
        noisy = rw.data.add_negatives(data, negatives, seed=seed)
    else:
        noisy = rw.data.flip_labels(data, flips or 0.0, seed=seed)
    _write(noisy, output, force=force, lossy=lossy)


def thin(
    *,
    source: options.Data,
    output: Path,
    queries: str | None = None,
    negatives: str | None = None,
    seed: int = 0,
    reading: Reading,
    lossy: bool = False,
    force: bool = False,
) -> None:
    """Sample queries and negatives, to try a large data set on a small machine; weights make up for the rest.

    Thin test data by --queries alone: a list with fewer negatives has a higher NDCG. Weights need Parquet, or --lossy.

    [cyan]rankwise data thin train.parquet -o small.parquet --queries .1 --negatives 20 --seed 1[/cyan]

    --queries SHARE|N: Sample this share, .1, or number, 1000, of the queries.
    --negatives SHARE|N: Sample this share, .2, or number, 20, of the documents with label 0 of each query.
    """
    _free(output, force=force)
    words = (("queries", queries), ("negatives", negatives))
    amounts: Keywords = inputs.settings([f"{name}={text}" for name, text in words if text is not None])
    _write(rw.data.thin(_read(source, reading), **amounts, seed=seed), output, force=force, lossy=lossy)


def clicks(
    *,
    source: options.Data,
    output: Path,
    model: str = "cascade",
    impressions: int = 10,
    probabilities: str | None = None,
    ranker: Path | None = None,
    cutoff: int | None = None,
    eta: float = 1.0,
    keep_empty: bool = False,
    seed: int = 0,
    reading: Reading,
    lossy: bool = False,
    force: bool = False,
) -> None:
    """Simulate users who click: each list that a user sees becomes a query, labelled 1 where clicked.

    Displayed positions are kept, for which the output must be Parquet (or --lossy, to leave them out).

    [cyan]rankwise data clicks train.txt -o clicks.parquet --model cascade --impressions 10 --seed 1[/cyan]
    [cyan]rankwise data clicks train.txt -o clicks.parquet --model position --ranker scores.txt --cutoff 10[/cyan]

    --model cascade|position: cascade: reads down to the first click. position: sees rank r with probability 1/r^eta.
    --impressions N: How often each list is shown.
    --probabilities NUMBERS: Probability of a click on a seen document of grade 0, 1, …. [default:
        0.05,0.3,0.5,0.7,0.95]
    --ranker SCORES: Show lists in the order of these scores, not at random.
    --cutoff N: How many documents of a list are shown. [default: all]
    --eta X: How fast attention falls with the rank, for --model position.
    --keep-empty: Keep impressions without a click.
    """
    _free(output, force=force)
    from rankwise.clicks.models.users import CLICK_PROBABILITIES
    from rankwise.evaluation.score_files import in_order_of, read_scores

    chances = inputs.numbers("click probabilities", probabilities) if probabilities else CLICK_PROBABILITIES
    scores = None if ranker is None else read_scores(ranker)
    data = _read(source, reading)
    log = rw.clicks.simulate_clicks(
        data,
        model=model,
        probabilities=chances,
        impressions=impressions,
        ranker=None if scores is None else in_order_of(data, scores),
        cutoff=cutoff,
        eta=eta,
        keep_empty=keep_empty,
        seed=seed,
    )
    _write(log, output, force=force, lossy=lossy)


def catalog(json: bool = False) -> None:
    """List the public data sets that are known by name, and where they come from.

    Their files are looked for below the folder that the environment variable RANKWISE_DATA names, or --data-folder of
    other commands; "yes" in the last column means that --download fetches them.

    [cyan]rankwise data list[/cyan]
    [cyan]rankwise train mq2008 --data-folder ~/letor -o model[/cyan]
    """
    from rankwise.data.catalog.sets import datasets

    entries = datasets()
    table = Table(header=entries.header, rows=tuple(entries.rows()), align="lrrrlrl")
    outputs.show([asdict(entry) for entry in entries], ("", table), json=json)


def _free(target: Path, *, force: bool) -> None:
    """Raise at once if a file could not be written at the end, or its name does not say its format."""
    from rankwise.data.reading import format_to_write

    format_to_write(target)
    outputs.free(target, force=force)


def _read(source: str, reading: Reading) -> "RankingDataset":
    """Read data; of a set the training part, which is the one to look at, split and perturb: test data stay unseen."""
    from rankwise.data.reading import is_set

    if reading.part is None and is_set(source):
        reading = replace(reading, part="train")
        console.note(f"reading the training part of {source}; --part names another")
    with console.progress(1) as bar:
        bar.step(f"Reading {source}")
        return reading.data(source, bar=bar)


def _write(data: "RankingDataset", target: Path, *, force: bool, lossy: bool) -> None:
    from rankwise.data.letor.writer import unsupported
    from rankwise.data.reading import is_parquet, write_data

    if lossy and not is_parquet(target):
        nothing: Keywords = dict.fromkeys(unsupported()) | {"categorical": ()}
        data = data.with_(**nothing)
    with console.progress(1) as bar:
        bar.step(f"Writing {target}")
        write_data(data, target, force=force)
    console.note(f"wrote {target}: {data!r}")


def _facts(facts: Json) -> Table:
    """Lay the summary out in two columns: what, how much."""

    def words(value: object) -> str:
        match value:
            case dict():
                rest = len(value) - _SHOWN
                shown = ", ".join(
                    f"{name}: {words(number)}" for name, number in itertools.islice(value.items(), _SHOWN)
                )
                return shown + (f", … and {rest:,} more, which --json lists" if rest > 0 else "")
            case str():
                return value
            case list():
                return (
                    f"{len(value)}: {', '.join(map(str, value[:10]))}{', …' if len(value) > 10 else ''}"
                    if value
                    else "0"
                )
            case float():
                return f"{value:.4g}"
            case _:
                return f"{value:,}"

    rows = [(name.replace("_", " "), words(value)) for name, value in facts.items() if name != "missing"]
    rows.append(("missing values", f"{facts['missing']:.2%}"))
    return Table(header=("fact", "value"), rows=tuple(rows), align="ll")


_commands = {"info": info, "check": check_, "skew": skew, "convert": convert, "split": split, "noise": noise}
_commands |= {"thin": thin, "clicks": clicks, "list": catalog}
_TITLE = "Look at data, convert it, split it, perturb it, simulate clicks on it."
app = grouped(_TITLE, _commands, _OPTIONS, leave_out={"check": ("part",)})
