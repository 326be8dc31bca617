"""The commands ``export``, ``serve`` and ``objectives``."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import rankwise as rw
from rankwise import check
from rankwise.arrays import Keywords
from rankwise.check.parameters import Option, Unset, Within
from rankwise.cli import arguments, console
from rankwise.cli.data_options import Reading
from rankwise.cli.options import Only, of
from rankwise.cli.running import Running
from rankwise.evaluation import ranking_names

_LOGGING = "Logging"


def _installed() -> None:
    """Raise if an extra is missing."""
    for module in ("orjson", "prometheus_client", "starlette", "uvicorn"):
        check.installed(module, "serve")


def serve(
    models: Annotated[list[str], "Folders of models, or NAME=FOLDER.", Option(metavar="MODEL")],
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
    serving: Annotated[Keywords, of("rankwise.serving.server:Settings", "", _installed), Only("log_level", "workers")],
    limits: Annotated[Keywords, of("rankwise.serving.request_parsing:RequestLimits", "Limits", _installed)],
    reading: Reading,
) -> None:  # fmt: skip
    """Serve models over HTTP: scores of documents by their features, and a page that explains rankings.

    POST /score scores the documents of a query, or of several; /openapi.json, /models, /health, /ready and /metrics
    describe the service. The page at / shows a query's ranking by two models side by side. SIGTERM and Ctrl-C finish
    requests in flight, SIGHUP loads the models anew.

    rankwise serve model
    rankwise serve old=models/1 new=models/2 --production old --examples test.txt
    rankwise serve model --host 0.0.0.0 --port 80 --workers 4
    """
    from rankwise.evaluation.score_files import columns_to_rank
    from rankwise.serving import feature_log, request_parsing, server

    folders = ranking_names.named(models)
    production = check.choice("production", production or next(iter(folders)), folders)
    logged = None if log_features is None else feature_log.FeatureLog(log_features, sample).check_target()
    queries = []
    if examples is not None:
        columns = columns_to_rank(rw.load(folder) for folder in folders.values())
        queries = request_parsing.examples(reading.data(examples, tables=columns | {"to_score": True}))
    names = server.hosts(host, host_name or [])
    accepted = request_parsing.RequestLimits(**limits)
    settings = server.Settings(folders, production, accepted, queries, names, logged, **serving)
    with server.listen(host, port) as listening:

        def started() -> None:
            models = ", ".join(name + " (production)" * (name == production) for name in folders)
            console.say(f"serving {models} at http://{host}:{listening.getsockname()[1]}", wrap=False)
            sys.stdout.flush()

        server.run(settings, listening, started)


def export(
    model: arguments.Model,
    *,
    output: Annotated[Path, "The file to write.", Option(short="-o", metavar="FILE")],
    format_: Annotated[
        str, "The format: onnx, treelite, elasticsearch, ranklib, vespa or solr.", Option(short="-f", metavar="NAME")
    ],
    names: Annotated[
        Path | None, "The names of the features there, one per line in the order of training.",
        Unset("those of the training data")
    ] = None,
    running: Annotated[Running, Only("force", "json")],
) -> None:  # fmt: skip
    """Write a model for the system that serves it, where documents get the scores that they get here.

    Elasticsearch, Solr and Vespa find features by their names: those of a feature set or store, or rank features.

    rankwise export model -o model.onnx --format onnx
    rankwise export model -o model.json --format elasticsearch --names features.txt
    rankwise export model -o model.json --format vespa
    """
    running.free(output)
    from rankwise.serving.export import FORMATS, write

    check.choice("format", format_, FORMATS)
    words = None
    if names is not None:
        with check.naming(names):
            words = check.readable(names, pipe=True).read_text(encoding="utf-8").splitlines()
    with console.notes_after() as notes:
        path, load = write(model, output, format_, names=words, force=running.force)
    document = {"model": model, "output": path, "format": format_, "bytes": path.stat().st_size, "load": load}
    running.say(document, load, wrote=(path,))
    for note in notes:
        console.note(note)


def objectives(*, running: Annotated[Running, Only("json")]) -> None:
    """List every objective and wrapper: its paper, its arguments with their defaults, whether its Hessian is exact.

    An objective is written as in Python: a name, with arguments where they differ from their defaults. A wrapper goes
    around one, and objectives can be added up.

    rankwise objectives
    rankwise objectives --json
    """
    from rankwise.objectives.catalogue import every, table

    running.show([asdict(entry) for entry in every()], ("", table()))
