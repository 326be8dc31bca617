"""Solr: a ``MultipleAdditiveTreesModel``, the JSON that a request to the model store of a collection uploads.

Features are found by their names in the feature store. Solr compares in float32 and goes left where a value is at most
the threshold + 1e-6, so that the file has the number that gives the threshold by this sum; where there is none, the one
that gives the next lower float32 that can be reached. Scores are added up in float32.

Solr takes a missing value for 0. Where a model sends it elsewhere than 0, its splits say where it goes, which Solr
reads from 9.2 on, for features whose ``defaultValue`` is NaN.
"""

import json

import numpy as np

from rankwise.base.arrays import Floats, Json
from rankwise.models import LEAF, LinearModel
from rankwise.wings.exports.export_source import ExportedFile, ExportSource
from rankwise.wings.exports.tree_json import write_trees

_SLACK = np.float32(1e-6)  # that Solr adds to thresholds


def write(source: ExportSource) -> ExportedFile:
    """Return the file."""
    names = [json.dumps(name, ensure_ascii=False) for name in source.known_names("Solr")]
    load = (
        f"curl -X PUT -H 'Content-Type: application/json' --data-binary @{source.path} "
        "http://localhost:8983/solr/COLLECTION/schema/model-store"
    )
    if (linear := source.plain("Solr")) is not None:
        return ExportedFile(_linear(linear, source).encode(), load)
    nodes = source.trees("Solr", categories=False)
    thresholds = [_number(value) for value in before_slack(nodes.threshold)]
    splits = nodes.feature != LEAF
    sends_missing = bool((nodes.missing_left != (nodes.threshold >= 0))[splits].any())

    def node(row: int, number: int, children: tuple[tuple[int, str], tuple[int, str]] | None) -> str:  # noqa: ARG001
        if children is None:
            return f'{{"value":"{_number(nodes.value[row])}"}}'
        missing = f'"missing":"{"left" if nodes.missing_left[row] else "right"}",' if sends_missing else ""
        return (
            f'{{"feature":{names[nodes.feature[row]]},"threshold":"{thresholds[row]}",{missing}'
            f'"left":{children[0][1]},"right":{children[1][1]}}}'
        )

    trees = ",\n".join(f'{{"weight":"1","root":{root}}}' for root in write_trees(nodes, node))
    features = ",".join(f'{{"name":{name}}}' for name in names)
    missing = '"isNullSameAsZero":false,' if sends_missing else ""
    content = (
        f'{{"class":"org.apache.solr.ltr.model.MultipleAdditiveTreesModel","name":{json.dumps(source.title)},\n'
        f'"features":[{features}],\n"params":{{{missing}"trees":[\n{trees}]}}}}\n'
    )
    return ExportedFile(content.encode(), load)


def _linear(model: LinearModel, source: ExportSource) -> str:
    """Return a linear model, whose features Solr standardises; its constant, which Solr has no place for, is left out.

    A mean that stands for a missing value is the ``defaultValue`` of the feature.
    """
    transform, names = model.transform, source.known_names("Solr")
    features: list[Json] = []
    for name, center, scale in zip(names, transform.center.tolist(), transform.scale.tolist(), strict=True):
        norm = {
            "class": "org.apache.solr.ltr.norm.StandardNormalizer",
            "params": {"avg": repr(center), "std": repr(scale)},
        }
        features.append({"name": name, "norm": norm})
    weights = dict(zip(names, model.weights.tolist(), strict=True))
    described: Json = {"class": "org.apache.solr.ltr.model.LinearModel", "name": source.title, "features": features}
    return json.dumps(described | {"params": {"weights": weights}}, ensure_ascii=False, indent=1) + "\n"


def before_slack(thresholds: Floats) -> Floats:
    """Return the numbers to which Solr adds its slack: the largest sums that are at most the thresholds.

    >>> numbers = before_slack(np.array([0.5, -1e-35], np.float32))
    >>> (numbers + np.float32(1e-6)).tolist()  # a value of 0 is not at most the second
    [0.5, -1.1368683772161603e-13]
    """
    with np.errstate(over="ignore"):
        near = [thresholds - _SLACK]
        near += [np.nextafter(near[0], np.float32(end)) for end in (-np.inf, np.inf)]
        near += [np.nextafter(near[1], np.float32(-np.inf)), np.nextafter(near[2], np.float32(np.inf))]
        candidates = np.stack(near)
        sums = candidates + _SLACK
    best = np.argmax(np.where(sums <= thresholds, sums, -np.inf), axis=0)
    return np.asarray(np.take_along_axis(candidates, best[None], axis=0)[0])


def _number(value: np.floating) -> str:
    """Write a number for Java, which reads it as a float32."""
    return repr(float(value)) if np.isfinite(value) else f"{'-' if value < 0 else ''}Infinity"
