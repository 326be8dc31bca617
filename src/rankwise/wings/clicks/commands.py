"""The commands ``clicks info``, ``propensities``, ``train``, ``compare``, ``interleave``, and ``data clicks``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import rankwise as rw
from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import Above, Option, Unset, Within
from rankwise.cli.wing import (
    EVALUATE,
    But,
    Of,
    Only,
    Reading,
    Running,
    arguments,
    console,
    data,
    of,
    outputs,
    register,
    register_group,
    register_in,
)
from rankwise.data.io import shown
from rankwise.evaluation import ranking_names

if TYPE_CHECKING:
    from typer import Typer

    from rankwise import RankingDataset
    from rankwise.wings.clicks.logs.log import Log

_CODES = {"ship": 0, "do not ship": 3, "cannot tell": 4}
LogFile = Annotated[
    str,
    "The log, a row for each document that was shown: .csv (also .gz and .zst), .parquet, a folder or a pattern such "
    "as 'log-*.parquet'; or OpenSearch's User Behavior Insights, .ndjson, several files between commas.",
    Option(metavar="LOG"),
]
Features = Annotated[str, f"Features by query and document. {arguments.FORMS}", Option(metavar="FEATURES")]
Bias = Annotated[Path, "The position bias that 'rankwise clicks propensities' wrote."]
LogColumns = Annotated[Keywords, of("rankwise.wings.clicks.logs.reading:read_log", "Columns of the log")]
FeatureReading = Annotated[Reading, But("query", "document", "weight")]
Holdout = Annotated[
    float,
    Within(0, 1),
    "The share of the queries that 'clicks train' leaves out, and by which 'clicks compare' compares: a ranker is "
    "flattered by clicks of queries that it was trained on. Both must name the same share and seed.",
    Option(metavar="SHARE"),
]


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
    running.check_target(plot, outputs.PICTURES)
    page = _log(log, columns).examine()
    running.say(page.to_dict(), page, plot=plot)


def propensities(
    log: LogFile,
    *,
    output: Annotated[Path, "The file to write: .json.", Option(short="-o", metavar="FILE")],
    columns: LogColumns,
    settings: Annotated[Keywords, of("rankwise.clicks:propensities")],
    plot: arguments.Plot = None,
    running: Annotated[Running, Only("force", "json")],
) -> None:
    """Estimate how clicks depend on position, with intervals, and check it on each ranker of the log in turn.

    With --segment there is a curve for each segment. Where the log does not identify the bias, an error names what is
    missing.

    rankwise clicks propensities log.parquet --system arm -o bias.json --plot bias.png
    rankwise clicks propensities log.csv --system arm --method randomized --shuffled random -o bias.json
    """
    running.check_target(output, (".json",))
    running.check_target(plot, outputs.PICTURES, beside=output)
    clicks = _log(log, columns)
    bias = rw.clicks.propensities(clicks, segments="segment" in columns, **settings)
    bias.save(output, force=running.force)
    checked = bias.check(clicks)
    document = {"method": bias.method, "curves": bias.to_frame().to_dicts(), "check": checked.sentence}
    running.say(document, bias, checked, plot=plot, wrote=(output,))


def train(
    log: LogFile,
    features: Features,
    *,
    output: arguments.Folder,
    bias: Bias,
    columns: LogColumns,
    settings: Annotated[Keywords, of("rankwise.clicks:targets")],
    ranker: Annotated[
        str, "The ranker to train, with an objective that learns from rewards.", Option(metavar="EXPRESSION")
    ] = "bagged(lightgbm(plrank))",
    holdout: Holdout = 0.3,
    minutes: Annotated[
        float | None, Above(0), "Minutes of training at most.", Unset("no limit"), Option(metavar="MINUTES")
    ] = None,
    reading: FeatureReading,
    running: Running,
) -> None:
    """Train a ranker on clicks: rewards of documents, corrected for their positions, and a ranker that learns them.

    rankwise clicks train log.parquet features.parquet --bias bias.json -o model
    rankwise clicks train log.csv features.csv --bias bias.json --ranker "lightgbm(plrank)" -o model
    """
    running = running.check_model_target(output)
    untrained = rw.ranker(ranker).set_params(seed=running.seed, threads=running.threads, progress=running.progress)
    from rankwise.rankers.training import after

    limit = None if minutes is None else after(minutes)
    clicks, data = _log(log, columns), _features(features, reading, columns)
    part = _part(clicks.within(data), holdout, running.seed, held_out=False)
    for note in part.notes[len(clicks.notes) :]:
        console.note(note)
    with running.steps(1) as bar:
        bar.step(f"Estimating relevance from clicks on {part.n_pairs:,} documents")
        targets = rw.clicks.targets(part, part.lists_in(data), rw.clicks.read_bias(bias), **settings)
    trained = untrained.fit(targets, callback=limit)
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
    settings: Annotated[Keywords, of("rankwise.clicks:compare")],
    holdout: Holdout = 0.3,
    strict: Annotated[bool, "End with exit code 3 on 'do not ship', and with 4 on 'cannot tell'."] = False,
    plot: arguments.Plot = None,
    reading: FeatureReading,
    running: Annotated[Running, Only("seed", "force", "json")],
) -> None:
    """Compare a candidate with production by logged clicks: ship it, do not ship it, or this log cannot tell.

    Blends of both are tested in order, from a quarter of the candidate. Clicks are those of queries that
    'rankwise clicks train' left out; --holdout 1 uses all, for a candidate that never saw this log. Name all candidates
    at once: their levels are corrected for their number (Holm). With --segment it also says which segments gain and
    which lose.

    rankwise clicks compare log.parquet features.parquet new=model production=old --bias bias.json
    rankwise clicks compare log.csv features.csv a=first b=second production=old.csv --bias bias.json
    """
    running.check_target(plot, outputs.PICTURES)
    clicks, data = _log(log, columns), _features(features, reading, columns)
    rankings: dict[str, Any] = {
        name: rw.load(path) if path.is_dir() else path for name, path in ranking_names.named(systems).items()
    }
    part = _part(clicks, holdout, running.seed, held_out=True)
    with running.steps(1) as bar:
        bar.step(f"Comparing by clicks of {part.n_queries:,} queries")
        settings |= {"segment": "segment"} if len(part.segment_names) > 1 else {}
        result = rw.clicks.compare(rankings, part, rw.clicks.read_bias(bias), data, **settings)
    running.say(result.to_dict(), result, plot=plot)
    if strict:
        raise typer.Exit(max(map(_CODES.__getitem__, result.verdicts.values())))


def _log(source: str, columns: Keywords) -> "Log":
    from rankwise.wings.clicks.logs.reading import read_log

    log = read_log(source, **columns)
    for note in log.notes:
        console.note(note)
    return log


def _features(source: str, reading: Reading, columns: Keywords) -> "RankingDataset":
    """Read features; columns of ids are called as in the log."""
    ids = {name: columns.get(name, name) for name in ("query", "document")}
    with console.progress(1) as bar:
        bar.step(f"Reading {shown(Path(source))}")
        return reading.data(source, bar, ids | {"to_score": True})


def _part(log: "Log", holdout: float, seed: int, *, held_out: bool) -> "Log":
    """Return the part of the log to train on, or the part that is held out to compare by."""
    if holdout == float(held_out):
        return log
    part = rw.clicks.split(log, holdout, seed=seed)[held_out]
    console.note(f"{part.n_queries:,} of {log.n_queries:,} queries, see --holdout")
    return part


_INTERLEAVED = "A row for each document that was shown, in the order of time: .csv (also .gz and .zst) or .parquet."


def interleave(
    log: Annotated[str, _INTERLEAVED, Option(metavar="LOG")],
    rankings: Annotated[list[str] | None, "Two TREC runs.", Option(metavar="a=RUN b=RUN")] = None,
    *,
    bias: Annotated[
        Path | None, "With --credit debiased: the position bias that 'rankwise clicks propensities' wrote."
    ] = None,
    settings: Annotated[Keywords, Of(lambda: {"": [rw.judging.interleaving]})],
    plot: arguments.Plot = None,
    running: Annotated[Running, But("threads", "progress")],
) -> None:
    """Find out which of two rankings users prefer, by clicks on interleaved lists, as often as you like to look.

    LOG has columns key, query, document and clicked, and user where users come again. Lists are rebuilt from the key;
    without runs a column team has a, b or nothing. The 5% of wrong decisions are against no preference at any time,
    given the past: a drift decides, too, and without the column user so does one visitor of many impressions.

    rankwise interleave log.parquet a=new.run b=old.run --seed 7 --plot preference.png
    rankwise interleave log.csv a=new.run b=old.run --credit debiased --bias bias.json
    """
    running.check_target(plot, outputs.PICTURES)
    runs = ranking_names.named(rankings or ())
    if set(runs) not in (set(), {"a", "b"}):
        raise check.error("rankings to compare are a=RUN and b=RUN", got=", ".join(runs))
    curve = None if bias is None else rw.clicks.read_bias(bias)
    result = rw.judging.interleaving(log, runs.get("a"), runs.get("b"), bias=curve, **settings)
    if plot is not None:
        result.plot(plot, force=running.force)
    names = ("preference", "interval", "e_value", "decided", "dependent", "sentence", "notes")
    running.show({name: getattr(result, name) for name in names}, ("", result.table()), wrote=(plot,))


def clicks(
    source: arguments.Data,
    *,
    target: data.Target,
    settings: Annotated[Keywords, Of(lambda: {"": [rw.clicks.simulate_clicks, rw.clicks.Users]})],
    scores: Annotated[Path | None, "Show lists in the order of these scores, not at random."] = None,
    reading: Reading,
) -> None:
    """Simulate users who click: each list that a user sees becomes a query, labelled 1 where clicked.

    Displayed positions are kept, for which the output must be Parquet (or --lossy, to leave them out).

    rankwise data clicks train.txt -o clicks.parquet --click-model cascade --impressions 10 --seed 1
    rankwise data clicks train.txt -o clicks.parquet --click-model position --scores scores.txt --cutoff 10
    """
    from rankwise.evaluation import in_order_of, read_scores

    def clicked(judged: "RankingDataset") -> "RankingDataset":
        shown = None if scores is None else in_order_of(judged, read_scores(scores))
        return rw.clicks.simulate_clicks(judged, ranker=shown, **settings)

    target.changed(source, reading, clicked)


def add(app: "Typer") -> None:
    """Add the commands of the wing."""
    register(app, EVALUATE, interleave)
    register_group(
        app, EVALUATE, "clicks", "From a click log to a ranker that may be shipped.", info, propensities, train, compare
    )
    register_in(app, "data", clicks)
