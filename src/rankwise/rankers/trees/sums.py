"""A weighted sum of forests as one forest: the trees of all, one after the other, with scaled leaves.

Each function takes and gives files of a library, and a factor for each. Scores are those of the sum of the forests up
to rounding: trees are added up in another order, and XGBoost keeps leaves in float32.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

_SCALED = ("leaf_value", "internal_value", "leaf_const", "leaf_coeff", "shrinkage")
"""What of a tree of LightGBM is in units of scores, or says how much of its step was taken."""


def lightgbm(texts: Sequence[str], factors: Sequence[float]) -> str:
    """Join models in LightGBM's text."""
    blocks = []
    heads = [text.partition("\nTree=")[0] for text in texts]
    for text, head, factor in zip(texts, heads, factors, strict=True):
        content, at = text.encode(), len(head.encode()) + 1
        for size in map(int, _field(head, "tree_sizes").split()):
            blocks.append(_scaled(content[at : at + size].decode().partition("\n")[2], factor))
            at += size
    trees = [f"Tree={number}\n{block}" for number, block in enumerate(blocks)]
    sizes = " ".join(str(len(tree.encode())) for tree in trees)
    infos = [_field(head, "feature_infos").split() for head in heads]
    head = heads[0].replace(f"\ntree_sizes={_field(heads[0], 'tree_sizes')}", f"\ntree_sizes={sizes}")
    joined = " ".join(_info(column) for column in zip(*infos, strict=True))
    head = head.replace(f"\nfeature_infos={_field(heads[0], 'feature_infos')}", f"\nfeature_infos={joined}")
    end = texts[0][texts[0].index("end of trees\n") :]
    return f"{head}\n{''.join(trees)}{end}"


def xgboost(models: Sequence[bytes], factors: Sequence[float]) -> bytes:
    """Join models in XGBoost's JSON; all start from a score of 0."""
    parsed = [json.loads(model) for model in models]
    trees: list[dict[str, Any]] = []
    info, ends = [], [0]
    for model, factor in zip(parsed, factors, strict=True):
        part, share = _gbtree(model), np.float32(factor)
        info += part["tree_info"]
        ends += [len(trees) + end for end in part["iteration_indptr"][1:]]
        for number, tree in enumerate(part["trees"], len(trees)):
            tree["id"] = number
            leaves = np.array(tree["left_children"]) == -1
            tree["split_conditions"] = _times(tree["split_conditions"], np.where(leaves, share, np.float32(1.0)))
            tree["base_weights"] = _times(tree["base_weights"], share)
        trees += part["trees"]
    whole = parsed[0]
    about = _gbtree(whole)
    about |= {"trees": trees, "tree_info": info, "iteration_indptr": ends}
    about["gbtree_model_param"]["num_trees"] = str(len(trees))
    return json.dumps(whole, ensure_ascii=False).encode()  # XGBoost reads no escapes


def _field(head: str, name: str) -> str:
    """A line of the beginning of LightGBM's text."""
    return next(line.partition("=")[2] for line in head.split("\n") if line.startswith(f"{name}="))


def _scaled(block: str, factor: float) -> str:
    """Scale what a tree adds to scores; numbers are written so that they are read as they are."""
    lines = []
    for line in block.split("\n"):
        name, equals, values = line.partition("=")
        if name in _SCALED:
            line = name + equals + " ".join(repr(factor * float(value)) if value else "" for value in values.split(" "))
        lines.append(line)
    return "\n".join(lines)


def _info(ranges: Sequence[str]) -> str:
    """What LightGBM says about a feature: ``[least:most]``, codes of categories ``0:1:3``, or ``none``."""
    known = [one for one in ranges if one != "none"]
    if not known:
        return "none"
    if not known[0].startswith("["):
        return ":".join(map(str, sorted({int(code) for one in known for code in one.split(":")})))
    ends = [one.strip("[]").split(":") for one in known]
    return f"[{min((low for low, _ in ends), key=float)}:{max((high for _, high in ends), key=float)}]"


def _gbtree(model: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = model["learner"]["gradient_booster"]["model"]
    return found


def _times(values: Sequence[float], share: Any) -> list[float]:
    return [float(value) for value in np.array(values, np.float32) * share]
