"""Trees as the JSON that XGBoost and LightGBM dump, with nothing in it but what readers ask for.

Readers compare with *less than*. A float32 is at most t exactly where it is less than the next float32 after t, so that
one stands in the file: exact for readers of floats and of doubles.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.models import LEAF, Nodes

_BEYOND = 1e39  # greater than every float32, and a number of JSON


def above(nodes: Nodes) -> list[float]:
    """For every node the number that values which go left are less than."""
    with np.errstate(over="ignore"):
        following = np.nextafter(nodes.threshold, np.float32(np.inf)).astype(np.float64)
    return np.clip(following, -_BEYOND, _BEYOND).tolist()  # type: ignore[no-any-return]


def xgboost_trees(nodes: Nodes, names: tuple[str, ...]) -> str:
    """An array of trees, as ``Booster.get_dump(dump_format="json")`` gives them one by one."""
    limits, depths = above(nodes), depths_of(nodes).tolist()

    def write(node: int, number: int, children: tuple[tuple[int, str], tuple[int, str]] | None) -> str:
        if children is None:
            return f'{{"nodeid":{number},"leaf":{nodes.value[node].item()!r}}}'
        (yes, left), (no, right) = children
        return (
            f'{{"nodeid":{number},"depth":{depths[node]},"split":{json.dumps(names[nodes.feature[node]])},'
            f'"split_condition":{limits[node]!r},"yes":{yes},"no":{no},'
            f'"missing":{yes if nodes.missing_left[node] else no},"children":[{left},{right}]}}'
        )

    return "[" + ",\n".join(write_trees(nodes, write)) + "]"


def lightgbm_model(nodes: Nodes, names: tuple[str, ...], categories: Mapping[int, tuple[str, ...]]) -> str:
    """A model, as ``Booster.dump_model`` gives it; splits name places in a table of texts for each feature.

    ``categories`` are the values that codes of a column stand for; a column without is asked for its codes as texts.
    Missing values have no text there but the empty one, and those that training did not see are missing.
    """
    limits = above(nodes)
    sets = {node: _texts(nodes, node, categories.get(int(nodes.feature[node]))) for node in nodes.categories}
    values: dict[int, list[str]] = {}
    for node, (texts, _) in sorted(sets.items(), key=lambda item: int(nodes.feature[item[0]])):
        column = values.setdefault(int(nodes.feature[node]), [])
        column += sorted(set(texts).difference(column))
    values = {feature: texts for feature, texts in values.items() if texts}
    places = {feature: {text: place for place, text in enumerate(texts)} for feature, texts in values.items()}

    def write(node: int, number: int, children: tuple[tuple[int, str], tuple[int, str]] | None) -> str:
        if children is None:
            return f'{{"leaf_index":{number},"leaf_value":{nodes.value[node].item()!r}}}'
        (_, left), (_, right) = children
        feature, missing_left = int(nodes.feature[node]), "true" if nodes.missing_left[node] else "false"
        if node in sets:
            texts, to_left = sets[node]
            if not to_left:
                left, right = right, left
            if not texts:  # all go the other way
                return right
            kind, missing_left = "==", "false"
            limit = '"' + "||".join(str(places[feature][text]) for text in texts) + '"'
        else:
            kind, limit = "<=", repr(limits[node])
        return (
            f'{{"split_index":{number},"split_feature":{feature},"threshold":{limit},"decision_type":"{kind}",'
            f'"default_left":{missing_left},"missing_type":"NaN","left_child":{left},"right_child":{right}}}'
        )

    head = {
        "name": "tree",
        "version": "v4",
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "label_index": 0,
        "max_feature_idx": nodes.n_features - 1,
        "objective": "lambdarank",
        "average_output": False,
        "feature_names": list(names),
        "monotone_constraints": [],
        "feature_infos": {
            names[feature]: {"min_value": 0, "max_value": len(texts) - 1, "values": list(range(len(texts)))}
            for feature, texts in values.items()
        },
        "pandas_categorical": list(values.values()),
    }
    trees = (
        f'{{"tree_index":{number},"num_leaves":{text.count("leaf_value")},"num_cat":{text.count("==")},"shrinkage":1,'
        f'"tree_structure":{text}}}'
        for number, text in enumerate(write_trees(nodes, write))
    )
    return json.dumps(head)[:-1] + ',\n"tree_info":[' + ",\n".join(trees) + "]}"


def depths_of(nodes: Nodes) -> NDArray[np.int32]:
    """Return how many splits lie above each node; parents come before their children."""
    depths = np.zeros(nodes.feature.size, np.int32)
    for node in np.flatnonzero(nodes.feature != LEAF).tolist():
        depths[[nodes.left[node], nodes.right[node]]] = depths[node] + 1
    return depths


def _texts(nodes: Nodes, node: int, listed: tuple[str, ...] | None) -> tuple[list[str], bool]:
    """The texts that a split asks for, and whether these go left: never those that missing values go with."""
    codes, missing_left = nodes.categories[node], bool(nodes.missing_left[node])
    if listed is None:
        return [str(code) for code in codes] + [""] * missing_left, True
    chosen = set(codes)
    return [text for code, text in enumerate(listed) if (code in chosen) != missing_left], not missing_left


def write_trees(nodes: Nodes, write: Callable[[int, int, Any], str]) -> list[str]:
    """Write every tree from its leaves up, whatever its depth; nodes are numbered within their tree."""
    texts = []
    for first, last in nodes.trees():
        parts: dict[int, str] = {}
        for node in range(last - 1, first - 1, -1):
            if nodes.feature[node] == LEAF:
                parts[node] = write(node, node - first, None)
                continue
            left, right = int(nodes.left[node]), int(nodes.right[node])
            parts[node] = write(
                node, node - first, ((left - first, parts.pop(left)), (right - first, parts.pop(right)))
            )
        texts.append(parts[first])
    return texts
