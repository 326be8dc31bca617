"""The commands ``serve`` and ``data skew``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import rankwise as rw
from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import Option, Unset, Within
from rankwise.cli.wing import TRAIN, Only, Reading, Running, arguments, console, data, of, register, register_in
from rankwise.evaluation import ranking_names

if TYPE_CHECKING:
    from typer import Typer

_LOGGING = "Logging"


def _installed() -> None:
    """Raise if an extra is missing."""
    for module in ("orjson", "prometheus_client", "starlette", "uvicorn"):
        check.installed(module, "serve")


def serve(
    models: Annotated[list[str], "Folders of models or searches, or NAME=FOLDER.", Option(metavar="MODEL")],
    *,
    production: Annotated[str, "The model that answers requests that name none.", Unset("the first")] = "",
    host: Annotated[
        str, "The address to listen on; 0.0.0.0 is all networks, and there is no authentication.",
        Option(metavar="ADDRESS")
    ] = "127.0.0.1",
    port: Annotated[int, Within(0, 65535), "The port to listen on; 0 is a free one."] = 8000,
    host_name: Annotated[
        list[str] | None,
        "A name by which requests may call the service, beside those of this machine; may be repeated.",
        Unset("any, unless --host is this machine alone"), Option(metavar="NAME")
    ] = None,
    examples: Annotated[
        str | None, "Data whose first 50 queries the page offers.", Option(metavar="DATA")
    ] = None,
    log_features: Annotated[
        Path | None, "Append the features of a sample of requests, .jsonl, which data skew reads.",
        Option(metavar="FILE", group=_LOGGING)
    ] = None,
    sample: Annotated[
        float, Within(0, 1), "The share of requests whose features are logged.", Option(metavar="SHARE", group=_LOGGING)
    ] = 0.01,
    serving: Annotated[
        Keywords, of("rankwise.wings.serve.server:ServerSettings", "", _installed), Only("log_level", "workers")
    ],
    limits: Annotated[Keywords, of("rankwise.wings.serve.request_parsing:RequestLimits", "Limits", _installed)],
    reading: Reading,
) -> None:  # fmt: skip
    """Serve models or searches over HTTP: scores of documents by their features, and a page that explains rankings.

    POST /score scores the documents of a query, or of several; /openapi.json, /models, /health, /ready and /metrics
    describe the service. The page at / shows a query's ranking by two models side by side. A search, which text save
    writes, answers words: POST /search, POST /why, and a page with a search box. SIGTERM and Ctrl-C finish requests in
    flight, SIGHUP loads the models anew.

    rankwise serve model
    rankwise serve old=models/1 new=models/2 --production old --examples test.txt
    rankwise serve model --host 0.0.0.0 --port 80 --workers 4
    """
    from rankwise.evaluation import columns_to_rank
    from rankwise.wings.serve import request_parsing, server
    from rankwise.wings.serve.feature_log_writer import FeatureLog

    folders = ranking_names.named(models)
    production = check.choice("production", production or next(iter(folders)), folders)
    logged = None if log_features is None else FeatureLog(log_features, sample).check_target()
    queries = []
    if examples is not None:
        columns = columns_to_rank(rw.load(folder) for folder in folders.values())
        queries = request_parsing.examples(reading.data(examples, tables=columns | {"to_score": True}))
    names = server.hosts(host, host_name or [])
    accepted = request_parsing.RequestLimits(**limits)
    settings = server.ServerSettings(folders, production, accepted, queries, names, logged, **serving)
    with server.listen(host, port) as listening:

        def started() -> None:
            models = ", ".join(name + " (production)" * (name == production) for name in folders)
            console.say(f"serving {models} at http://{host}:{listening.getsockname()[1]}", wrap=False)
            sys.stdout.flush()

        server.run(settings, listening, started)


def skew(
    source: arguments.Train,
    served: Annotated[str, "Served data: the same, or logged features, .jsonl.", Option(metavar="SERVED")],
    *,
    model: Annotated[
        Path | None, "A model: measure what NDCG loses where a feature is replaced by the served one.",
        Option(metavar="MODEL")
    ] = None,
    settings: Annotated[Keywords, of("rankwise.wings.serve.skew:compare_features")],
    strict: Annotated[
        bool, "End with exit code 3 where a feature differs by a PSI of 0.25 more than chance makes, or NDCG is lost."
    ] = False,
    reading: Reading,
    running: Annotated[Running, Only("json")],
) -> None:  # fmt: skip
    """Compare the features of training data with those that were logged in serving: training-serving skew.

    Logged features are those of rankwise serve --log-features, or responses of Elasticsearch, OpenSearch or Vespa, one
    to a line; of a document that a query has several times the last one counts.

    rankwise data skew train.parquet served.jsonl
    rankwise data skew train.parquet served.parquet --model model --strict
    """
    train = data.read(source, reading)
    logged = Path(served).suffix in (".jsonl", ".ndjson")
    logs = rw.data.read_feature_log(served, repeated="last") if logged else data.read(served, reading)
    compared = rw.data.compare_features(train, logs, None if model is None else rw.load(model), **settings)
    running.deliver(compared)
    if strict and compared.alarms:
        for alarm in compared.alarms:
            console.note(f"alarm: {alarm}")
        raise typer.Exit(3)


def add(app: "Typer") -> None:
    """Add the commands of the wing."""
    register(app, TRAIN, serve)
    register_in(app, "data", skew)
