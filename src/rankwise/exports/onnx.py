"""ONNX: one graph from a matrix of features to scores, for ONNX Runtime and everything that carries it.

The input ``features`` is float32, (documents, features), with NaN for missing values; the output ``scores`` has one
number per document. Trees are one operator, TreeEnsemble (ai.onnx.ml 5, ONNX Runtime 1.20 and later). It compares
numbers of the kind that it adds up, so trees of LightGBM and CatBoost see the features as float64, where both are
exact; those of XGBoost are added up in float32, as XGBoost does. With values within the query, a call has the documents
of one query.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import check
from rankwise._version import __version__
from rankwise.base.arrays import Keywords
from rankwise.exports.export_source import ExportedFile, ExportSource
from rankwise.models.formats.tree_arrays import LEAF, Nodes
from rankwise.statistics.calibration import Curve

if TYPE_CHECKING:
    from rankwise.models.formats.onnx_graph import Graph

_SMALLER, _MEMBER = 0, 6  # how a node decides: at most the threshold, or one of a set
_OPSETS = {"": 20, "ai.onnx.ml": 5}


def write(source: ExportSource) -> ExportedFile:
    """Return the file."""
    onnx: Any = check.optional("onnx", "export")
    helper = onnx.helper
    if source.linear is not None:
        from rankwise.exports.onnx_linear import weighted_sum

        graph = weighted_sum(source.linear)
    elif source.net is None:
        graph = _ensemble(source.trees("ONNX", within=True), within=source.within)
    else:
        graph = source.net.onnx_graph()
    if source.curve is not None:
        graph = _calibrated(graph, source.curve)
    opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()]
    model = helper.make_model(
        helper.make_graph(
            graph.steps,
            source.title,
            [helper.make_tensor_value_info("features", onnx.TensorProto.FLOAT, ["documents", source.n_features])],
            [helper.make_tensor_value_info("scores", graph.kind, ["documents"])],
            graph.constants,
        ),
        opset_imports=opsets,
        ir_version=helper.find_min_ir_version_for(opsets),
        producer_name="rankwise",
        producer_version=__version__,
    )
    helper.set_model_props(
        model, source.notes | ({} if source.names is None else {"features": "\n".join(source.names)})
    )
    onnx.checker.check_model(model)
    load = f'onnxruntime.InferenceSession("{source.path}").run(["scores"], {{"features": matrix}})'
    return ExportedFile(bytes(model.SerializeToString()), load)


def _calibrated(graph: "Graph", curve: Curve) -> "Graph":
    """Add the curve from scores to probabilities: every piece rises as far as a score has passed it."""
    from onnx import TensorProto

    from rankwise.models.formats.onnx_graph import Drawing

    graph.steps[-1].output[0] = "raw"
    drawing = Drawing(graph.steps, graph.constants, "raw")
    drawing.step("Cast", to=TensorProto.DOUBLE)
    scores = drawing.step("Reshape", drawing.constant(np.array([-1, 1])))
    inside = drawing.of("Clip", scores, drawing.constant(curve.scores[0]), drawing.constant(curve.scores[-1]))
    drawing.of("Sub", scores, inside)
    beyond = drawing.step("Mul", drawing.constant(curve.outer_slope))
    drawing.of("Sub", inside, drawing.constant(curve.scores[:-1]))
    drawing.step("Div", drawing.constant(np.diff(curve.scores)))
    drawing.step("Clip", drawing.constant(0.0), drawing.constant(1.0))
    drawing.step("MatMul", drawing.constant(np.diff(curve.log_odds)[:, None]))
    drawing.step("Add", drawing.constant(curve.log_odds[0]))
    drawing.step("Add", beyond)
    drawing.step("Sigmoid")
    drawing.step("Reshape", drawing.constant(np.array([-1])))
    return drawing.graph(TensorProto.DOUBLE)


def _ensemble(nodes: Nodes, *, within: bool) -> "Graph":
    from onnx import TensorProto, helper, numpy_helper

    from rankwise.exports.onnx_linear import beside
    from rankwise.models.formats.onnx_graph import Drawing, Graph

    number = np.float32 if nodes.single else np.float64
    kind = TensorProto.FLOAT if nodes.single else TensorProto.DOUBLE
    attributes = _attributes(_rooted(nodes), number)
    drawing = Drawing()
    if within:
        beside(drawing)
    steps = [
        *drawing.steps,
        helper.make_node("Cast", [drawing.last], ["numbers"], to=kind),
        helper.make_node(
            "TreeEnsemble",
            ["numbers"],
            ["sums"],
            domain="ai.onnx.ml",
            n_targets=1,
            aggregate_function=1,  # the sum
            post_transform=0,  # none
            **{
                name: numpy_helper.from_array(value) if name in _TENSORS else value.tolist()
                for name, value in attributes.items()
            },
        ),
        helper.make_node("Reshape", ["sums", "flat"], ["scores"]),
    ]
    return Graph(steps, [*drawing.constants, numpy_helper.from_array(np.array([-1]), "flat")], kind)


_TENSORS = ("nodes_splits", "nodes_modes", "leaf_weights", "membership_values")


def _attributes(nodes: Nodes, number: type[np.floating[Any]]) -> Keywords:
    """The operator counts splits and leaves apart; the sets of categories stand one after the other, NaN between."""
    is_leaf = nodes.feature == LEAF
    splits, leaves = np.flatnonzero(~is_leaf), np.flatnonzero(is_leaf)
    place = np.empty(is_leaf.size, np.int64)
    place[splits], place[leaves] = np.arange(splits.size), np.arange(leaves.size)
    yes, no = nodes.left[splits], nodes.right[splits]
    modes = np.full(splits.size, _SMALLER, np.uint8)
    members: list[float] = []
    for node, codes in sorted(nodes.categories.items()):
        modes[place[node]] = _MEMBER
        members += [*codes, np.nan]
    sets = {"membership_values": np.array(members, number)} if members else {}
    return sets | {
        "tree_roots": place[nodes.roots],
        "nodes_featureids": nodes.feature[splits],
        "nodes_splits": nodes.threshold[splits].astype(number),
        "nodes_modes": modes,
        "nodes_missing_value_tracks_true": nodes.missing_left[splits].astype(np.int64),
        "nodes_truenodeids": place[yes],
        "nodes_trueleafs": is_leaf[yes].astype(np.int64),
        "nodes_falsenodeids": place[no],
        "nodes_falseleafs": is_leaf[no].astype(np.int64),
        "leaf_targetids": np.zeros(leaves.size, np.int64),
        "leaf_weights": nodes.value[leaves].astype(number),
    }


def _rooted(nodes: Nodes) -> Nodes:
    """Return nodes with a split above every leaf that is a whole tree, to which both sides lead: ONNX needs one."""
    alone = nodes.feature[nodes.roots] == LEAF
    if not alone.any():
        return nodes
    leaves, roots = nodes.roots[alone], nodes.roots.copy()
    roots[alone] = nodes.feature.size + np.arange(leaves.size)
    nothing = np.zeros(leaves.size)
    return nodes.grown(roots=roots, feature=nothing, left=leaves, right=leaves, value=nothing)
