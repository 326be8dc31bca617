"""The commands ``clicks info``, ``propensities``, ``train`` and ``compare``."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

import rankwise as rw
from rankwise import check
from rankwise.arrays import Keywords
from rankwise.check.parameters import Above, Option, Unset, Within
from rankwise.cli import arguments, console, inputs, outputs
from rankwise.cli.command import grouped
from rankwise.cli.data_options import Reading
from rankwise.cli.options import Of, Only
from rankwise.cli.running import Running
from rankwise.data.file_formats import shown

if TYPE_CHECKING:
    from rankwise.clicks.logs.log import Log
    from rankwise.clicks.off_policy.decision import OffPolicyComparison
    from rankwise.data.dataset import RankingDataset

_UBI = (".json", ".ndjson", ".jsonl")
_COLUMN = Option(metavar="COLUMN", group="Columns of the log")

LogFile = Annotated[
    str,
    "The log, a row for each document that was shown: .csv (also .gz and .zst), .parquet, a folder or a pattern such "
    "as 'log-*.parquet'; or OpenSearch's User Behavior Insights, .ndjson, several files between commas.",
    Option(metavar="LOG"),
]
Features = Annotated[str, f"Features by query and document. {arguments.FORMS}", Option(metavar="FEATURES")]
Bias = Annotated[Path, "The position bias that 'rankwise clicks propensities' wrote."]
Holdout = Annotated[
    float,
    Within(0, 1),
    "The share of the queries that 'clicks train' leaves out, and by which 'clicks compare' compares: a ranker is "
    "flattered by clicks of queries that it was trained on. Both must name the same share and seed.",
    Option(metavar="SHARE"),
]


@dataclass(frozen=True)
class LogColumns:
    """Names of the columns of a log."""

    query: Annotated[str, "The query.", _COLUMN] = "query"
    document: Annotated[str, "The document.", _COLUMN] = "document"
    impression: Annotated[str, "The id of one display of a list.", _COLUMN] = "impression"
    position: Annotated[str, "The position.", _COLUMN] = "position"
    clicked: Annotated[
        str | None,
        "1 for a click and 0 for none; of UBI, the actions that count as clicks, between commas.",
        Unset("clicked; click"),
        _COLUMN,
    ] = None
    ranker: Annotated[
        str | None,
        "The system that ordered the list; of UBI, a field.",
        Option("system", metavar="COLUMN", group=_COLUMN.group),
    ] = None
    user: Annotated[str | None, "The user.", _COLUMN] = None
    segment: Annotated[str | None, "The part of the traffic, such as the device.", _COLUMN] = None
    time: Annotated[str | None, "The time: dates, ISO 8601, or seconds since 1970; of UBI, the timestamp.", _COLUMN] = (
        None
    )
    weight: Annotated[str | None, "The number of impressions that a row stands for.", Unset("1"), _COLUMN] = None


def info(
    log: LogFile,
    *,
    columns: LogColumns,
    plot: arguments.Plot = None,
    running: Annotated[Running, Only("force", "json")],
) -> None:
    """Examine a click log before anything is estimated: what it can identify, how surely, and what looks wrong.

    rankwise clicks info log.parquet --document sku --position rank --clicked click --system arm
    rankwise clicks info queries.ndjson,events.ndjson --clicked click,add_to_cart --plot log.png
    """
    running.free(plot, outputs.PICTURES)
    page = _read(log, columns).examine()
    if plot is not None:
        page.plot(plot, force=running.force)
    findings = [{"severity": one.severity, "sentence": one.sentence} for one in page.findings]
    running.say({"findings": findings, "positions": page.to_frame().to_dicts()}, page, wrote=(plot,))


def propensities(
    log: LogFile,
    *,
    output: Annotated[Path, "The file to write: .json.", Option(short="-o", metavar="FILE")],
    columns: LogColumns,
    settings: Annotated[Keywords, Of(lambda: {"": [rw.clicks.propensities]})],
    plot: arguments.Plot = None,
    running: Annotated[Running, Only("force", "json")],
) -> None:
    """Estimate how clicks depend on position, with intervals, and check it on each ranker of the log in turn.

    With --segment there is a curve for each segment. Where the log does not identify the bias, an error names what is
    missing.

    rankwise clicks propensities log.parquet --system arm -o bias.json --plot bias.png
    rankwise clicks propensities log.csv --system arm --method randomized --shuffled random -o bias.json
    """
    running.free(output, (".json",))
    running.free(plot, outputs.PICTURES, beside=output)
    clicks = _read(log, columns)
    bias = rw.clicks.propensities(clicks, segments=columns.segment is not None, **settings)
    bias.save(output, force=running.force)
    if plot is not None:
        bias.plot(plot, force=running.force)
    checked = bias.check(clicks)
    method = settings.get("method", "harvest")
    document = {"method": method, "curves": bias.to_frame().to_dicts(), "check": checked.sentence}
    running.say(document, bias.table().text(), checked, wrote=(output, plot))


def train(
    log: LogFile,
    features: Features,
    *,
    output: arguments.Folder,
    bias: Bias,
    columns: LogColumns,
    settings: Annotated[Keywords, Of(lambda: {"": [rw.clicks.targets]})],
    ranker: Annotated[
        str, "The ranker to train, with an objective that learns from rewards.", Option(metavar="EXPRESSION")
    ] = "bagged(lightgbm(plrank))",
    holdout: Holdout = 0.3,
    minutes: Annotated[
        float | None,
        Above(0),
        "End training after this time, and keep the best round.",
        Unset("no limit"),
        Option(metavar="MINUTES"),
    ] = None,
    reading: Reading,
    running: Running,
) -> None:
    """Train a ranker on clicks: rewards of documents, corrected for their positions, and a ranker that learns them.

    rankwise clicks train log.parquet features.parquet --bias bias.json -o model
    rankwise clicks train log.csv features.csv --bias bias.json --ranker "lightgbm(plrank)" -o model
    """
    running = running.free_model(output)
    untrained = rw.ranker(ranker).set_params(seed=running.seed, threads=running.threads, progress=running.progress)
    limit: Keywords = {} if minutes is None else {"callback": _until(minutes)}
    clicks, data = _read(log, columns), _features(features, reading, columns)
    part = _part(clicks.within(data), holdout, running.seed, held_out=False)
    for note in part.notes[len(clicks.notes) :]:
        console.note(note)
    in_log = np.isin(np.asarray(data.query_ids).astype(str), part.query_ids.astype(str))
    with running.steps(1) as bar:
        bar.step(f"Estimating relevance from clicks on {part.n_pairs:,} documents")
        targets = rw.clicks.targets(part, data.take(in_log), rw.clicks.read_bias(bias), **settings)
    trained = untrained.fit(targets, **limit)
    trained.save(output, force=running.force)
    document = {"model": output, "expression": repr(trained), "queries": targets.n_queries}
    document |= {"method": settings.get("method", "dr"), "stopped": trained.stopped_, "best_round": trained.best_round_}
    ended = f"best {trained.unit[:-1]} {trained.best_round_} (stopped: {trained.stopped_})"
    running.say(document, f"{trained!r}, trained on {targets!r}: {ended}", wrote=(output,))


def compare(
    log: LogFile,
    features: Features,
    systems: Annotated[
        list[str],
        "The candidate, or several, and production, as NAME=FILE: a model, the folder that 'rankwise train' wrote; a "
        "TREC run; or a table with the log's columns of query and document and a column score: .csv, .tsv or .parquet. "
        "The last is production, unless another has that name.",
        Option(metavar="NEW... PRODUCTION"),
    ],
    *,
    bias: Bias,
    columns: LogColumns,
    settings: Annotated[Keywords, Of(lambda: {"": [rw.clicks.compare]})],
    holdout: Holdout = 0.3,
    plot: arguments.Plot = None,
    reading: Reading,
    running: Annotated[Running, Only("seed", "force", "json")],
) -> None:
    """Compare a candidate with production by logged clicks: ship it, do not ship it, or this log cannot tell.

    Blends of both are tested in order, from a quarter of the candidate. Clicks are those of queries that
    'rankwise clicks train' left out; --holdout 1 uses all, for a candidate that never saw this log. Name all candidates
    at once: their levels are corrected for their number (Holm).

    rankwise clicks compare log.parquet features.parquet new=model production=old --bias bias.json
    rankwise clicks compare log.csv features.csv a=first b=second production=old.csv --bias bias.json
    """
    running.free(plot, outputs.PICTURES)
    clicks, data = _read(log, columns), _features(features, reading, columns)
    rankings: dict[str, Any] = {
        name: rw.load(path) if path.is_dir() else path for name, path in inputs.named(systems).items()
    }
    part = _part(clicks, holdout, running.seed, held_out=True)
    with running.steps(1) as bar:
        bar.step(f"Comparing by clicks of {part.n_queries:,} queries")
        result = rw.clicks.compare(rankings, part, rw.clicks.read_bias(bias), data, **settings)
    if plot is not None:
        result.plot(plot, force=running.force)
    if isinstance(result, rw.clicks.OffPolicyComparison):
        document = _decision(result)
    else:
        document = {"candidates": {one.candidate: _decision(one) for one in result.comparisons}}
    running.say(document, result, wrote=(plot,))


def _decision(result: "OffPolicyComparison") -> dict[str, object]:
    return {
        "verdict": result.verdict,
        "reason": result.reason,
        "level": result.level,
        "blends": result.to_frame().to_dicts(),
        "assumptions": [asdict(one) for one in result.assumptions],
        "left_out": result.left_out,
    }


def _read(source: str, columns: LogColumns) -> "Log":
    """Read a log; files of User Behavior Insights are known by their endings."""
    paths = inputs.items(source)
    named: Keywords = {name: value for name, value in asdict(columns).items() if value is not None}
    if all(_is_ubi(path) for path in paths):
        fields: Keywords = {name: named[name] for name in ("ranker", "segment") if name in named}
        log = rw.clicks.read_ubi(*paths, clicked=inputs.items(named.get("clicked", "click")), **fields)
    elif len(paths) > 1:
        raise check.error("several files between commas are of User Behavior Insights", got=source)
    else:
        named.setdefault("clicked", "clicked")
        log = rw.clicks.read(source, **named)
    for note in log.notes:
        console.note(note)
    return log


def _part(log: "Log", holdout: float, seed: int, *, held_out: bool) -> "Log":
    """Return the part of the log to train on, or the part that is held out to compare by."""
    if holdout == float(held_out):
        return log
    part = rw.clicks.split(log, holdout, seed=seed)[held_out]
    console.note(f"{part.n_queries:,} of {log.n_queries:,} queries, see --holdout")
    return part


def _until(minutes: float) -> Callable[..., None]:
    """Return what ends training after so many minutes from now, to be called after every round."""
    end = time.monotonic() + 60.0 * minutes

    def watch(*_: object) -> None:
        if time.monotonic() >= end:
            raise rw.StopTraining("minutes")

    return watch


def _is_ubi(path: str) -> bool:
    return Path(path.removesuffix(".gz").removesuffix(".zst")).suffix.lower() in _UBI


def _features(source: str, reading: Reading, columns: LogColumns) -> "RankingDataset":
    """Read features; columns of ids are called as in the log unless the user names them."""
    with console.progress(1) as bar:
        bar.step(f"Reading {shown(Path(source))}")
        tables = {"query": columns.query, "document": columns.document, "to_score": True}
        return reading.data(source, bar, tables)


_commands = {"info": info, "propensities": propensities, "train": train, "compare": compare}
app = grouped("From a click log to a ranker that may be shipped.", _commands)
