"""Taking a model to where it serves: ONNX, treelite, Elasticsearch, OpenSearch, Vespa, Solr and SQL."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rankwise import check
from rankwise.base.arrays import Json
from rankwise.base.files import check_writable, replacing
from rankwise.wings.exports import targets
from rankwise.wings.exports.export_source import ExportedFile, ExportSource

FORMATS = ("onnx", "treelite", "elasticsearch", "elastic-ltr", "vespa", "solr", "sql")
"""Formats, each written by the module of its name."""


def export(
    model: object,
    path: str | Path,
    format: str,  # noqa: A002 (what everyone calls it)
    *,
    names: Sequence[str] | None = None,
    target: str | None = None,
    queries: Mapping[str, Json] | None = None,
    force: bool = False,
) -> Path:
    """Write a model for another system, which gives documents the scores that ``model.predict`` gives them.

    Args:
        model: A trained ranker, the folder that it was saved to, or a model that LightGBM, XGBoost or CatBoost trained
            (see :func:`wrap`).
        path: The file to write; one that exists is replaced only with ``force``.
        format: ``"onnx"``, ``"treelite"``, ``"elasticsearch"`` (the plug-in, OpenSearch's too), ``"elastic-ltr"``,
            ``"vespa"``, ``"solr"`` or ``"sql"``.
        names: What features are called there, in the order of training; by default as in the training data. The feature
            set of Elasticsearch, the feature store of Solr and Vespa's rank features are found by these names.
        target: The engine and its version, such as ``"opensearch-2.19"``, ``"elasticsearch-8.10"`` or ``"solr-9.1"``: a
            model that it scores otherwise is an error.
        queries: For ``"elastic-ltr"``, the query whose score a feature is, by name; else it is a field of documents.
        force: Whether to replace a file.

    Missing values, categories and thresholds mean there what they mean here. What a system cannot express is an error
    that says so, before anything is written.

    >>> import rankwise as rw, json, tempfile
    >>> data = rw.synthetic(n_queries=30, n_features=3, n_docs=20, seed=1)
    >>> model = rw.LightGBMRanker("xendcg", rounds=2, leaves=3, threads=1).fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = rw.export(model, f"{folder}/mine.json", "elasticsearch", names=["title", "body", "clicks"])
    ...     body = json.loads(path.read_text())
    >>> body["model"]["name"], body["model"]["model"]["type"], len(json.loads(body["model"]["model"]["definition"]))
    ('mine', 'model/xgboost+json', 2)
    """
    return write(model, path, format, names=names, target=target, queries=queries, force=force)[0]


def write(
    model: object, path: str | Path, name: str, *, names: Sequence[str] | None = None, target: str | None = None,
    queries: Mapping[str, Json] | None = None, force: bool = False,
) -> tuple[Path, str]:  # fmt: skip
    """Write a model in the format of this name; gives the file, and how it is loaded there."""
    if name == "ranklib":
        hint = "`set format='elasticsearch'`: its model/xgboost+json is read by the same plugin as model/ranklib"
        raise check.error("models are not exported to RankLib's format", got="'ranklib'", hint=hint)
    module = importlib.import_module(f"{__package__}.{check.choice('format', name, FORMATS).replace('-', '_')}")
    path = check_writable(path, force=force)
    source = ExportSource.of(model, names, path, sums=name == "sql")
    if source.curve is not None and name != "onnx":
        hint = "export model.ranker_, whose scores have the same order, or to onnx"
        raise check.error(f"{name} has no place for the curve of a calibrated ranker", hint=hint)
    if queries is not None:
        _check_queries(queries, source, name)
        source = replace(source, queries=queries)
    if target is not None:
        targets.verify(source, name, target)
    written: ExportedFile = module.write(source)
    with replacing(path, force=force) as new:
        new.write_bytes(written.content)
    return path, written.load


def _check_queries(queries: Mapping[str, Json], source: ExportSource, name: str) -> None:
    """Raise unless these are queries of features, by name."""
    hint = 'pass such as {"title": {"match": {"title": "{{query}}"}}}'
    if name != "elastic-ltr":
        hint = "the plug-in has them in its feature set, and Solr in its feature store"
        raise check.error("queries belong to the format elastic-ltr", got=f"format {name!r}", hint=hint)
    if not isinstance(queries, Mapping) or not all(isinstance(one, Mapping) for one in queries.values()):
        raise check.error("queries are a dictionary from features to dictionaries", got=repr(queries), hint=hint)
    for feature in queries:
        check.choice("feature of queries", feature, source.known_names("Elasticsearch"))
