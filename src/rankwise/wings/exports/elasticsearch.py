"""Elasticsearch and OpenSearch with the learning-to-rank plugin: the request that creates a model.

The file is the body of ``POST _ltr/_featureset/FEATURES/_createmodel``. Trees, whoever grew them, become a definition
of the type ``model/xgboost+json``, a linear net or model one of ``model/linear``, without its constant. Features are
found by their names in the set. The plugin adds up in float32.
"""

import json

from rankwise.base.arrays import Array
from rankwise.wings.exports.export_source import ExportedFile, ExportSource
from rankwise.wings.exports.tree_json import xgboost_trees

_SYSTEM = "Elasticsearch's plugin"


def write(source: ExportSource) -> ExportedFile:
    """Return the body of the request."""
    names = source.known_names(_SYSTEM)
    slopes = _slopes(source)
    if slopes is None:
        kind, definition = "model/xgboost+json", xgboost_trees(source.trees(_SYSTEM, categories=False), names)
    else:
        kind, definition = "model/linear", json.dumps(dict(zip(names, slopes.tolist(), strict=True)))
    body = {"model": {"name": source.title, "model": {"type": kind, "definition": definition}}}
    load = (
        f"curl -X POST -H 'Content-Type: application/json' -d @{source.path} "
        "http://localhost:9200/_ltr/_featureset/FEATURES/_createmodel"
    )
    return ExportedFile(json.dumps(body, ensure_ascii=False).encode(), load)


def _slopes(source: ExportSource) -> Array | None:
    """Return what one of each feature adds to the score of a linear model, or of a net that is one; None of trees."""
    if (linear := source.plain(_SYSTEM)) is not None:
        return linear.weights / linear.transform.scale
    return None if source.drawn is None else source.drawn.slopes_for(_SYSTEM)
