"""Versions of search engines: what they score otherwise than the model does.

All that is known to differ is where trees send a missing value, a feature whose query does not match. Thresholds are
float32 in every version of the plug-ins (``XGBoostJsonParser`` reads floats) and of Solr, and exact in the files.

| engine | from | a missing value | source |
|---|---|---|---|
| OpenSearch, the plug-in | 2.0 | is 0 | issues 200 (of 2.19) and 286 of opensearch-learning-to-rank-base |
| | 3.2 | goes right | release notes 3.2.0, pull 206; issue 378: directions of splits were not read |
| | 3.8 | goes where the split says | release notes 3.8.0, pull 379 |
| Elasticsearch, the plug-in | 5.1 | is 0 | issue 481 of o19s/elasticsearch-learning-to-rank |
| | 8.11 | not known: 0, or where the split says | pull 482 was merged in 2024; no source says into which release |
| Elasticsearch itself | 8.12 | goes where the split says | its guide; ``TreeNode.compare`` |
| Solr | 6.4 | is 0 | SOLR-8542, SOLR-16596 |
| | 9.2 | goes where the split says | SOLR-16596 |

The plug-ins' linear models take a missing value for 0 in every version (``LinearRanker`` is a ``DenseLtrRanker``).
"""

import re
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.models import LEAF
from rankwise.wings.exports.export_source import ExportSource


class Since(NamedTuple):
    """How trees treat missing values from a version on."""

    version: tuple[int, int]
    missing: Literal["is 0", "goes right", "goes where the split says", "is 0, or goes where the split says: not known"]


_OPENSEARCH = (
    Since((2, 0), "is 0"), Since((3, 2), "goes right"), Since((3, 8), "goes where the split says")
)  # fmt: skip
_PLUGIN = (Since((5, 1), "is 0"), Since((8, 11), "is 0, or goes where the split says: not known"))
_SOLR = (Since((6, 4), "is 0"), Since((9, 2), "goes where the split says"))
TARGETS = {
    ("opensearch", "elasticsearch"): _OPENSEARCH,
    ("elasticsearch", "elasticsearch"): _PLUGIN,
    ("elasticsearch", "elastic-ltr"): (Since((8, 12), "goes where the split says"),),
    ("solr", "solr"): _SOLR,
}
"""Engine and format -> what is known of its versions."""


def verify(source: ExportSource, name: str, target: str) -> None:
    """Raise where a version of an engine, such as ``"opensearch-2.19"``, would score the model otherwise."""
    found = re.fullmatch(r"([a-z]+)-(\d+)\.(\d+)(\.\d+)?", str(target))
    engine = found[1] if found else ""
    engines = [one for one, form in TARGETS if form == name]
    if found is None or engine not in engines:
        what = f"a target of the format {name} is one of " + ", ".join(f"{one}-VERSION" for one in engines)
        what = what if engines else f"the format {name} has no targets"
        raise check.error(what, got=repr(target), hint="`set target='opensearch-2.19'`, for example, or leave it out")
    version = int(found[2]), int(found[3])
    known = [since for since in TARGETS[engine, name] if since.version <= version]
    if not known:
        first = ".".join(map(str, TARGETS[engine, name][0].version))
        raise check.error(f"nothing is known of {engine} before {first}", got=repr(target), hint="leave the target out")
    if (differs := _differ(source, name, known[-1].missing)).any():
        column = source.model.schema.name(int(np.flatnonzero(differs)[0]))
        missing = "is 0" if source.linear is not None else known[-1].missing
        raise check.error(
            f"a missing value {missing} in {target}, and not so in the model",
            where=f"{column} and {differs.sum() - 1} others" if differs.sum() > 1 else column,
            hint="train on data that have 0 where values are missing, a LightGBMRanker, or a LinearRanker with "
            "`transform=None`; or choose a later version",
        )


def _differ(source: ExportSource, name: str, missing: str) -> NDArray[np.bool_]:
    """Return for every feature whether a document without it has another score there."""
    differs = np.zeros(source.n_features, np.bool_)
    if (linear := source.linear) is not None:
        transform = linear.transform  # Solr has a default value for each feature
        at_zero = (0.0 - transform.center) / transform.scale
        differs = (linear.weights != 0.0) & (transform.fill != at_zero) & (name != "solr")
    elif source.drawn is not None:
        raise check.error("a target is checked of trees and linear models", got="a net", hint="leave the target out")
    elif missing != "goes where the split says":
        nodes = source.trees(name)
        to_left = nodes.threshold >= 0.0 if missing != "goes right" else np.zeros(nodes.feature.size, np.bool_)
        wrong = (nodes.feature != LEAF) & (nodes.missing_left != to_left)
        differs[nodes.feature[wrong]] = True
    return differs
