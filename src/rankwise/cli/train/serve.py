"""The command ``serve``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

import rankwise as rw
from rankwise import check
from rankwise.cli import console, inputs
from rankwise.cli.data_options import Reading


def serve(
    *,
    models: Annotated[list[str], typer.Argument(metavar="MODEL", help="Folders of models, or NAME=FOLDER.")],
    production: str = "",
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    max_documents: int = 10_000,
    max_megabytes: float = 16.0,
    timeout: float = 10.0,
    host_name: list[str] | None = None,
    log_level: str = "warning",
    log_features: Path | None = None,
    sample: float = 0.01,
    examples: str | None = None,
    reading: Reading,
) -> None:
    """Serve models over HTTP: scores of documents by their features, and a page that explains rankings.

    POST /score scores the documents of a query, or of several; /openapi.json, /models, /health, /ready and /metrics
    describe the service. The page at / shows a query's ranking by two models side by side. SIGTERM and Ctrl-C finish
    requests in flight, SIGHUP loads the models anew.

    [cyan]rankwise serve model[/cyan]
    [cyan]rankwise serve old=models/1 new=models/2 --production old --examples test.txt[/cyan]
    [cyan]rankwise serve model --host 0.0.0.0 --port 80 --workers 4[/cyan]

    --production NAME: The model that answers requests that name none. [default: the first]
    --host ADDRESS: The address to listen on; 0.0.0.0 is all networks, and there is no authentication.
    --port N>=0<=65535: The port to listen on; 0 is a free one.
    --workers N>=1: Processes that answer requests, each with all models.
    --host-name NAME: A name by which requests may call the service, beside those of this machine; may be repeated.
        [default: any, unless --host is this machine alone]
    --log-level debug|info|warning|error: What is logged, as lines of JSON; info has one for each request.
    --log-features FILE: Append the features of a sample of requests, .jsonl, which data skew reads.
    --sample SHARE>=0.0<=1.0: The share of requests whose features are logged.
    --max-documents N>=1: Documents of a request at most; more are rejected with status 422.
    --max-megabytes X>=0.0: Size of a request at most; larger ones are rejected with status 413.
    --timeout X>=0.001: Seconds for a request, which then ends with status 504, and for a graceful stop.
    --examples DATA: Data whose first 50 queries the page offers.
    """
    for module in ("orjson", "prometheus_client", "starlette", "uvicorn"):
        check.installed(module, "serve")
    from rankwise.evaluation.score_files import columns_to_rank
    from rankwise.serving import feature_log, request_parsing, server

    folders = inputs.named(models)
    production = check.choice("production", production or next(iter(folders)), folders)
    check.choice("log_level", log_level, server.LEVELS)
    logged = None if log_features is None else feature_log.FeatureLog(log_features, sample).check_target()
    queries = []
    if examples is not None:
        columns = columns_to_rank(rw.load(folder) for folder in folders.values())
        queries = request_parsing.examples(reading.data(examples, tables=columns | {"to_score": True}))
    settings = server.Settings(
        folders,
        production,
        request_parsing.RequestLimits(documents=max_documents, megabytes=max_megabytes, seconds=timeout),
        queries,
        server.hosts(host, host_name or []),
        logged,
        log_level,
        workers,
    )
    with server.listen(host, port) as listening:

        def started() -> None:
            names = ", ".join(name + " (production)" * (name == production) for name in folders)
            console.say(f"serving {names} at http://{host}:{listening.getsockname()[1]}", wrap=False)
            sys.stdout.flush()

        server.run(settings, listening, started)
