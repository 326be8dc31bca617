"""Elasticsearch's own learning to rank, from 8.12 on: the request that creates a trained model, as ``eland`` sends it.

The file is the body of ``PUT _ml/trained_models/NAME``: trees, whoever grew them, and for each feature the query whose
score it is, with ``{{query}}`` where a search passes parameters. A document that the query does not match has no value,
and goes where the split sends missing ones. Trees are compared and added up in doubles; scores end as float32.
"""

import json

import numpy as np

from rankwise.base.arrays import Json
from rankwise.models import LEAF, Nodes
from rankwise.wings.exports.export_source import ExportedFile, ExportSource

_LARGEST = float(np.finfo(np.float32).max)


def write(source: ExportSource) -> ExportedFile:
    """Return the body of the request."""
    names = source.known_names("Elasticsearch")
    nodes = source.trees("Elasticsearch", categories=False)
    extractors = [
        {"query_extractor": {"feature_name": name, "query": source.queries.get(name, _field(name))}} for name in names
    ]
    trees = [
        {"tree": {"feature_names": names, "tree_structure": one, "target_type": "regression"}} for one in _trees(nodes)
    ]
    ensemble = {"feature_names": names, "trained_models": trees, "aggregate_output": {"weighted_sum": {}}}
    body: Json = {
        "description": f"{source.notes['ranker']} of rankwise, {source.notes['objective']}",
        "inference_config": {"learning_to_rank": {"feature_extractors": extractors}},
        "definition": {"trained_model": {"ensemble": ensemble | {"target_type": "regression"}}},
    }
    load = (
        f"curl -X PUT -H 'Content-Type: application/json' -d @{source.path} "
        f"http://localhost:9200/_ml/trained_models/{source.title}"
    )
    return ExportedFile(json.dumps(body, ensure_ascii=False).encode(), load)


def _field(name: str) -> Json:
    """Return the query whose score is a field of the document, which must not be negative."""
    script = {"source": "return doc[params.field].value;", "params": {"field": name}}
    return {"script_score": {"query": {"exists": {"field": name}}, "script": script}}


def _trees(nodes: Nodes) -> list[list[Json]]:
    """Return the nodes of every tree, numbered within it."""
    limits = np.clip(nodes.threshold.astype(np.float64), -_LARGEST * 2, _LARGEST).tolist()
    return [
        [
            {"node_index": node - first, "leaf_value": nodes.value[node].item()}
            if nodes.feature[node] == LEAF
            else {
                "node_index": node - first,
                "decision_type": "lte",
                "split_feature": nodes.feature[node].item(),
                "threshold": limits[node],
                "left_child": nodes.left[node].item() - first,
                "right_child": nodes.right[node].item() - first,
                "default_left": nodes.missing_left[node].item(),
            }
            for node in range(first, last)
        ]
        for first, last in nodes.trees()
    ]
