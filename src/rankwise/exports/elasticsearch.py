"""Elasticsearch and OpenSearch with the learning-to-rank plugin: the request that creates a model.

The file is the body of ``POST _ltr/_featureset/FEATURES/_createmodel``. Trees, whoever grew them, become a definition
of the type ``model/xgboost+json``, a linear net or model one of ``model/linear``, without its constant. Features are
found by their names in the set. The plugin adds up in float32.
"""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array
from rankwise.exports.export_source import ExportedFile, ExportSource
from rankwise.exports.tree_json import xgboost_trees

if TYPE_CHECKING:
    from rankwise.models.nets.model import NetModel

_SYSTEM = "Elasticsearch's plugin"


def write(source: ExportSource) -> ExportedFile:
    """Return the body of the request."""
    names = source.known_names(_SYSTEM)
    linear = source.plain(_SYSTEM)
    if linear is not None:
        kind, definition = "model/linear", json.dumps(dict(zip(names, linear.slopes.tolist(), strict=True)))
    elif source.net is None:
        kind, definition = "model/xgboost+json", xgboost_trees(source.trees(_SYSTEM, categories=False), names)
    else:
        weights = linear_weights(source.net)
        kind, definition = "model/linear", json.dumps(dict(zip(names, weights.tolist(), strict=True)))
    model = {"name": source.title, "model": {"type": kind, "definition": definition}}
    load = (
        f"curl -X POST -H 'Content-Type: application/json' -d @{source.path} "
        "http://localhost:9200/_ltr/_featureset/FEATURES/_createmodel"
    )
    return ExportedFile(json.dumps({"model": model}, ensure_ascii=False).encode(), load)


def linear_weights(net: "NetModel") -> Array:
    """What one of each feature adds to the score of a linear net; what the net adds to every score is left out."""
    kinds = [type(layer).__name__ for layer in net.body]
    curved = "the logarithm of features" if net.transform.log else "the ranks of features" * (not net.transform.linear)
    if kinds.count("Linear") != 1 or set(kinds) - {"Linear", "BatchNorm1d"} or curved:
        why = curved or f"{kinds.count('Linear') - 1} hidden layers"
        raise check.error(
            f"{_SYSTEM} takes trees and linear models",
            got=f"a net with {why}",
            hint="train a net with `hidden=()` and `transform='standardize'`",
        )
    weights = 1.0 / _numbers(net.transform.scale)
    layers: Any = net.body
    for layer in layers:
        if hasattr(layer, "running_var"):
            weights = weights * _numbers(layer.weight) / np.sqrt(_numbers(layer.running_var) + layer.eps)
        else:
            weights = weights * _numbers(layer.weight)[0]
    return weights


def _numbers(tensor: Any) -> Array:
    return np.asarray(tensor.detach().cpu(), np.float64)
