"""Linear models, trees and curves as graphs of ONNX; with values within the query, a call has the documents of one."""

import numpy as np
from onnx import TensorProto, numpy_helper

from rankwise.base.arrays import Keywords
from rankwise.models import LEAF, LinearModel, Nodes
from rankwise.models.formats.onnx_graph import Drawing, Graph, broken_lines
from rankwise.statistics import Curve
from rankwise.wings.exports.export_source import grown

_SMALLER, _MEMBER = 0, 6  # how a node decides: at most the threshold, or one of a set


def linear_graph(model: LinearModel) -> Graph:
    """Draw a linear model, in float64."""
    drawing, transform = Drawing(), model.transform
    missing = drawing.of("IsNaN", "features")
    values = drawing.of("Cast", "features", to=TensorProto.DOUBLE)
    if len(transform.knots):
        values = broken_lines(drawing, transform.knots.astype(np.float64), transform.heights.astype(np.float64))
    else:
        drawing.of("Sub", values, drawing.constant(transform.center))
        values = drawing.step("Div", drawing.constant(transform.scale))
    drawing.of("Where", missing, drawing.constant(transform.fill), values)
    count = model.schema.count
    total = drawing.step("MatMul", drawing.constant(model.weights[:count, None]))
    if transform.query:
        _within(drawing, missing, values)
        inside = drawing.step("MatMul", drawing.constant(model.weights[count:, None]))
        total = drawing.of("Add", total, inside)
    drawing.of("Add", total, drawing.constant(np.array([[model.intercept]])))
    drawing.step("Reshape", drawing.constant(np.array([-1])))
    return drawing.graph(TensorProto.DOUBLE)


def trees_graph(nodes: Nodes, *, within: bool) -> Graph:
    """Draw trees as one operator, ``within`` behind the features' values within the query."""
    drawing = Drawing()
    number = np.float32 if nodes.single else np.float64
    kind = TensorProto.FLOAT if nodes.single else TensorProto.DOUBLE
    if within:  # rounded to float32, as the trees see them
        values = drawing.of("Cast", "features", to=TensorProto.DOUBLE)
        _within(drawing, drawing.of("IsNaN", "features"), values)
        drawing.of("Concat", "features", drawing.step("Cast", to=TensorProto.FLOAT), axis=1)
    drawing.step("Cast", to=kind)
    drawing.step(
        "TreeEnsemble",
        domain="ai.onnx.ml",
        n_targets=1,
        aggregate_function=1,  # the sum
        post_transform=0,  # none
        **_attributes(_rooted(nodes), number),
    )
    drawing.step("Reshape", drawing.constant(np.array([-1])))
    return drawing.graph(kind)


def calibrated_graph(graph: Graph, curve: Curve) -> Graph:
    """Add the curve from scores to probabilities: every piece rises as far as a score has passed it."""
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


def _within(drawing: Drawing, missing: str, values: str) -> str:
    """Standardise columns, from their lowest value on, so that those that are all the same are exactly 0."""
    documents, nothing = drawing.constant(np.array([0])), drawing.constant(np.array(0.0))
    infinite, one = drawing.constant(np.array(np.inf)), drawing.constant(np.array(1.0))
    lowest = drawing.of("ReduceMin", drawing.of("Where", missing, infinite, values), documents)
    away = drawing.of("Where", missing, nothing, drawing.of("Sub", values, lowest))
    present = drawing.of("Cast", drawing.of("Not", missing), to=TensorProto.DOUBLE)
    count = drawing.of("Max", drawing.of("ReduceSum", present, documents), one)
    mean = drawing.of("Div", drawing.of("ReduceSum", away, documents), count)
    rest = drawing.of("Where", missing, nothing, drawing.of("Sub", away, mean))
    squares = drawing.of("ReduceSum", drawing.of("Mul", rest, rest), documents)
    spread = drawing.of("Sqrt", drawing.of("Div", squares, count))
    varied = drawing.of("Greater", spread, nothing)
    return drawing.of("Div", rest, drawing.of("Where", varied, spread, one))


def _attributes(nodes: Nodes, number: type[np.float32 | np.float64]) -> Keywords:
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
    tensors = {
        "nodes_splits": nodes.threshold[splits].astype(number),
        "nodes_modes": modes,
        "leaf_weights": nodes.value[leaves].astype(number),
    } | ({"membership_values": np.array(members, number)} if members else {})
    integers = {
        "tree_roots": place[nodes.roots],
        "nodes_featureids": nodes.feature[splits],
        "nodes_missing_value_tracks_true": nodes.missing_left[splits].astype(np.int64),
        "nodes_truenodeids": place[yes],
        "nodes_trueleafs": is_leaf[yes].astype(np.int64),
        "nodes_falsenodeids": place[no],
        "nodes_falseleafs": is_leaf[no].astype(np.int64),
        "leaf_targetids": np.zeros(leaves.size, np.int64),
    }
    return {name: numpy_helper.from_array(one) for name, one in tensors.items()} | {
        name: one.tolist() for name, one in integers.items()
    }


def _rooted(nodes: Nodes) -> Nodes:
    """Return nodes with a split above every leaf that is a whole tree, to which both sides lead: ONNX needs one."""
    alone = nodes.feature[nodes.roots] == LEAF
    if not alone.any():
        return nodes
    leaves, roots = nodes.roots[alone], nodes.roots.copy()
    roots[alone] = nodes.feature.size + np.arange(leaves.size)
    nothing = np.zeros(leaves.size)
    return grown(nodes, roots, feature=nothing, left=leaves, right=leaves, value=nothing)
