"""The commands ``clicks info``, ``propensities``, ``train`` and ``compare``."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import rankwise as rw
from rankwise import check
from rankwise.arrays import Keywords
from rankwise.cli import console, inputs, options, outputs
from rankwise.cli.command import grouped
from rankwise.cli.data_options import Reading
from rankwise.data.file_formats import shown

if TYPE_CHECKING:
    from rankwise.clicks.logs.log import Log
    from rankwise.clicks.off_policy.decision import OffPolicyComparison
    from rankwise.data.dataset import RankingDataset

_UBI = (".json", ".ndjson", ".jsonl")
_MODEL = "bagged(lightgbm(plrank))"

_OPTIONS = options.SHARED | options.described(f"""
--query COLUMN: The column of the log with the query. [default: query]
--document COLUMN: The column of the log with the document. [default: document]
--impression COLUMN: The column of the log with the id of one display of a list. [default: impression]
--position COLUMN: The column of the log with the position. [default: position]
--clicked COLUMN: The column of the log with 1 for a click and 0 for none; of UBI, the actions that count as clicks,
    between commas. [default: clicked; click]
--ranker COLUMN: The column of the log with the system that ordered the list; of UBI, a field. [default: none]
--user COLUMN: The column of the log with the user. [default: none]
--segment COLUMN: The column of the log with the part of the traffic, such as the device. [default: none]
--time COLUMN: The column of the log with the time: dates, ISO 8601, or seconds since 1970; of UBI, the timestamp.
    [default: none]
--weight COLUMN: The column of the log with the number of impressions that a row stands for. [default: 1]
--bias FILE: The position bias that 'rankwise clicks propensities' wrote.
--holdout SHARE: The share of the queries that 'clicks train' leaves out, and by which 'clicks compare' compares: a
    ranker is flattered by clicks of queries that it was trained on. Both must name the same share and seed.
--plot FILE: Draw a figure: .png, .svg or .pdf.
--model EXPRESSION: The ranker to train, with an objective that learns from rewards. [default: {_MODEL}]
""")
_LOG = (
    "The log, a row for each document that was shown: .csv (also .gz and .zst), .parquet, a folder or a pattern such "
    "as 'log-*.parquet'; or OpenSearch's User Behavior Insights, .ndjson, several files between commas."
)
LogFile = Annotated[str, typer.Argument(metavar="LOG", help=_LOG)]
Features = Annotated[str, typer.Argument(metavar="FEATURES", help=f"Features by query and document. {options.FORMS}")]


@dataclass(frozen=True)
class LogColumns:
    """Names of the columns of a log."""

    query: str = "query"
    document: str = "document"
    impression: str = "impression"
    position: str = "position"
    clicked: str | None = None
    ranker: str | None = None
    user: str | None = None
    segment: str | None = None
    time: str | None = None
    weight: str | None = None


def info(
    log: LogFile,
    columns: LogColumns,
    plot: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Examine a click log before anything is estimated: what it can identify, how surely, and what looks wrong.

    [cyan]rankwise clicks info log.parquet --document sku --position rank --clicked click --ranker arm[/cyan]
    [cyan]rankwise clicks info queries.ndjson,events.ndjson --clicked click,add_to_cart --plot log.png[/cyan]
    """
    outputs.free(plot, outputs.PICTURES, force=force)
    page = _read(log, columns).examine()
    if plot is not None:
        page.plot(plot, force=force)
    findings = [{"severity": one.severity, "sentence": one.sentence} for one in page.findings]
    _show({"findings": findings, "positions": page.to_frame().to_dicts()}, page, json=json, wrote=(plot,))


def propensities(
    log: LogFile,
    output: Path,
    columns: LogColumns,
    method: str = "harvest",
    trust: bool = False,
    shuffled: str | None = None,
    period: int | None = None,
    plot: Path | None = None,
    seed: int = 0,
    force: bool = False,
    json: bool = False,
) -> None:
    """Estimate how clicks depend on position, with intervals, and check it on each ranker of the log in turn.

    With --segment there is a curve for each segment. Where the log does not identify the bias, an error names what is
    missing.

    [cyan]rankwise clicks propensities log.parquet --ranker arm -o bias.json --plot bias.png[/cyan]
    [cyan]rankwise clicks propensities log.csv --ranker arm --method randomized --shuffled random -o bias.json[/cyan]

    --output -o FILE: The file to write: .json.
    --method harvest|randomized|em: harvest: documents that moved between positions. randomized: shuffled lists. em:
        relevance and position together.
    --trust: Estimate clicks by trust, too.
    --shuffled NAME: With --method randomized: the ranker whose lists were shuffled. [default: all]
    --period DAYS>=1: Compare documents only within so many days, where relevance changes and rankers follow it; needs
        --time. [default: over all time]
    """
    outputs.free(output, (".json",), force=force)
    outputs.free(plot, outputs.PICTURES, force=force, beside=output)
    clicks = _read(log, columns)
    by_segment = columns.segment is not None
    settings: Keywords = {"trust": trust, "segments": by_segment, "ranker": shuffled, "period": period, "seed": seed}
    bias = rw.clicks.propensities(clicks, method, **settings)
    bias.save(output, force=force)
    if plot is not None:
        bias.plot(plot, force=force)
    checked = bias.check(clicks)
    document_ = {"method": method, "curves": bias.to_frame().to_dicts(), "check": checked.sentence}
    _show(document_, bias.table().text(), checked, json=json, wrote=(output, plot))


def train(
    *,
    log: LogFile,
    features: Features,
    output: Path,
    bias: Path,
    columns: LogColumns,
    method: str = "dr",
    model: str = _MODEL,
    holdout: float = 0.3,
    minutes: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    reading: Reading,
    progress: bool | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Train a ranker on clicks: rewards of documents, corrected for their positions, and a ranker that learns them.

    [cyan]rankwise clicks train log.parquet features.parquet --bias bias.json -o model[/cyan]
    [cyan]rankwise clicks train log.csv features.csv --bias bias.json --model "lightgbm(plrank)" -o model[/cyan]

    --output -o DIR: The folder to write.
    --method dr|regression|ips: How rewards are estimated: dr, both of the others together; regression on features;
        ips, clicks over propensities.
    --minutes X: End training X minutes after the start, and keep the best round. [default: no limit]
    """
    force = outputs.free_model(output, force=force)
    untrained = rw.ranker(model).set_params(seed=seed, threads=threads, progress=progress)
    limit: Keywords = {} if minutes is None else {"callback": _until(minutes)}
    clicks, data = _read(log, columns), _features(features, reading, columns)
    part = _part(clicks.within(data), holdout, seed, held_out=False)
    for note in part.notes[len(clicks.notes) :]:
        console.note(note)
    settings: Keywords = {"method": method, "seed": seed}
    in_log = np.isin(np.asarray(data.query_ids).astype(str), part.query_ids.astype(str))
    with console.progress(1, progress) as bar:
        bar.step(f"Estimating relevance from clicks on {part.n_pairs:,} documents")
        targets = rw.clicks.targets(part, data.take(in_log), rw.clicks.read_bias(bias), **settings)
    trained = untrained.fit(targets, **limit)
    trained.save(output, force=force)
    document_ = {"model": output, "expression": repr(trained), "queries": targets.n_queries, "method": method}
    document_ |= {"stopped": trained.stopped_, "best_round": trained.best_round_}
    ended = f"best {trained.unit[:-1]} {trained.best_round_} (stopped: {trained.stopped_})"
    _show(document_, f"{trained!r}, trained on {targets!r}: {ended}", json=json, wrote=(output,))


def compare(
    *,
    log: LogFile,
    features: Features,
    systems: Annotated[
        list[str],
        typer.Argument(
            metavar="NEW... PRODUCTION",
            help="The candidate, or several, and production, as NAME=FILE: a model, the folder that 'rankwise train' "
            "wrote; a TREC run; or a table with the log's columns of query and document and a column score: .csv, .tsv "
            "or .parquet. The last is production, unless another has that name.",
        ),
    ],
    bias: Path,
    columns: LogColumns,
    by: str = "query",
    cutoff: int | None = None,
    holdout: float = 0.3,
    confidence: float = 0.95,
    unchecked: bool = False,
    plot: Path | None = None,
    seed: int = 0,
    reading: Reading,
    force: bool = False,
    json: bool = False,
) -> None:
    """Compare a candidate with production by logged clicks: ship it, do not ship it, or this log cannot tell.

    Blends of both are tested in order, from a quarter of the candidate. Clicks are those of queries that
    'rankwise clicks train' left out; --holdout 1 uses all, for a candidate that never saw this log. Name all candidates
    at once: their levels are corrected for their number (Holm).

    [cyan]rankwise clicks compare log.parquet features.parquet new=model production=old --bias bias.json[/cyan]
    [cyan]rankwise clicks compare log.csv features.csv a=first b=second production=old.csv --bias bias.json[/cyan]

    --by query|user: What intervals go by.
    --cutoff K>=1: How many positions count. [default: all]
    --unchecked: Decide although a check fails, or that of the bias cannot run.
    """
    outputs.free(plot, outputs.PICTURES, force=force)
    clicks, data = _read(log, columns), _features(features, reading, columns)
    rankings: dict[str, Any] = {
        name: rw.load(path) if path.is_dir() else path for name, path in inputs.named(systems).items()
    }
    part = _part(clicks, holdout, seed, held_out=True)
    settings: Keywords = {"by": by, "cutoff": cutoff, "level": confidence, "unchecked": unchecked, "seed": seed}
    with console.progress(1) as bar:
        bar.step(f"Comparing by clicks of {part.n_queries:,} queries")
        result = rw.clicks.compare(rankings, part, rw.clicks.read_bias(bias), data, **settings)
    if plot is not None:
        result.plot(plot, force=force)
    if isinstance(result, rw.clicks.OffPolicyComparison):
        document_ = _decision(result)
    else:
        document_ = {"candidates": {one.candidate: _decision(one) for one in result.comparisons}}
    _show(document_, result, json=json, wrote=(plot,))


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
    end = time.monotonic() + 60.0 * check.number("minutes", minutes, least=0.0, open_ends=True)

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
        return reading.data(source, bar=bar, tables=tables)


def _show(document: object, *pages: object, json: bool, wrote: tuple[Path | None, ...]) -> None:
    if json:
        console.document(document)
        return
    for page in pages:
        console.say(str(page), wrap=False)
    outputs.said(*wrote)


_commands = {"info": info, "propensities": propensities, "train": train, "compare": compare}
app = grouped("From a click log to a ranker that may be shipped.", _commands, _OPTIONS)
