"""RankLib: the text of a LambdaMART model, which RankLib reads, and the plugin of Elasticsearch as ``model/ranklib``.

Features are known by their place, counted from 1. A missing value is 0 there; models that send it elsewhere than 0
get a warning, since only documents without missing values score the same.
"""

import numpy as np

from rankwise import check
from rankwise.exports.export_source import ExportedFile, ExportSource
from rankwise.models.formats.tree_arrays import LEAF, Nodes


def write(source: ExportSource) -> ExportedFile:
    """Return the text, laid out as RankLib does."""
    nodes = source.trees("RankLib", categories=False)
    splits = nodes.feature != LEAF
    if (nodes.missing_left != (nodes.threshold >= 0))[splits].any():
        what = "RankLib takes a missing value for 0, and this model may not: documents with missing values can get "
        what += "other scores there"
        hint = "put numbers in their place before training, or export to elasticsearch"
        check.warn(what, hint=hint, category=RuntimeWarning, stacklevel=4)
    count = nodes.roots.size
    lines = ["## LambdaMART", f"## No. of trees = {count}", f"## No. of leaves = {_most_leaves(nodes)}"]
    lines += ["## No. of threshold candidates = -1", "## Learning rate = 1.0", "## Stop early = 0", "", "<ensemble>"]
    for number, (first, _) in enumerate(nodes.trees(), 1):
        lines += [
            f'\t<tree id="{number}" weight="1.0">',
            "\t\t<split>",
            *_split(nodes, first),
            "\t\t</split>",
            "\t</tree>",
        ]
    load = f"java -jar RankLib.jar -load {source.path} -rank DOCUMENTS -score SCORES"
    return ExportedFile("\n".join([*lines, "</ensemble>", ""]).encode(), load)


def _split(nodes: Nodes, root: int) -> list[str]:
    """The lines of a tree, from its root down; those that close a part wait until it is written."""
    lines: list[str] = []
    waiting: list[tuple[int | None, str]] = [(root, "\t\t\t")]
    while waiting:
        node, indent = waiting.pop()
        if node is None:
            lines.append(indent)
        elif nodes.feature[node] == LEAF:
            lines.append(f"{indent}<output> {nodes.value[node].item()!r} </output>")
        else:
            lines += [
                f"{indent}<feature> {nodes.feature[node] + 1} </feature>",
                f"{indent}<threshold> {nodes.threshold[node].item()!r} </threshold>",
            ]
            for side, child in (("right", nodes.right[node]), ("left", nodes.left[node])):
                close = (None, f"{indent}</split>")
                waiting += [close, (int(child), f"{indent}\t"), (None, f'{indent}<split pos="{side}">')]
    return lines


def _most_leaves(nodes: Nodes) -> int:
    return max(int(np.count_nonzero(nodes.feature[first:last] == LEAF)) for first, last in nodes.trees())
