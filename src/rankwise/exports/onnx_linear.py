"""Linear models as graphs of ONNX, in float64; with values within the query, a call has the documents of one query."""

import numpy as np
from onnx import TensorProto

from rankwise.models.formats.onnx_graph import Drawing, Graph, broken_lines
from rankwise.models.linear import LinearModel


def weighted_sum(model: LinearModel) -> Graph:
    """Draw a linear model."""
    drawing, transform = Drawing(), model.transform
    missing = drawing.of("IsNaN", "features")
    values = drawing.of("Cast", "features", to=TensorProto.DOUBLE)
    if len(transform.knots):
        values = broken_lines(drawing, *(one.astype(np.float64) for one in (transform.knots, transform.heights)))
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


def beside(drawing: Drawing) -> str:
    """Append to the features of float32 their values within the query, rounded to float32 as trees see them."""
    values = drawing.of("Cast", "features", to=TensorProto.DOUBLE)
    _within(drawing, drawing.of("IsNaN", "features"), values)
    return drawing.of("Concat", "features", drawing.step("Cast", to=TensorProto.FLOAT), axis=1)


def _within(drawing: Drawing, missing: str, values: str) -> str:
    """Standardise columns, from their lowest value on, so that those that are all the same are exactly 0."""
    documents, nothing = drawing.constant(np.array([0])), drawing.constant(np.array(0.0))
    lowest = drawing.of(
        "ReduceMin", drawing.of("Where", missing, drawing.constant(np.array(np.inf)), values), documents
    )
    away = drawing.of("Where", missing, nothing, drawing.of("Sub", values, lowest))
    ones = drawing.of("Cast", drawing.of("Not", missing), to=TensorProto.DOUBLE)
    count = drawing.of("Max", drawing.of("ReduceSum", ones, documents), drawing.constant(np.array(1.0)))
    mean = drawing.of("Div", drawing.of("ReduceSum", away, documents), count)
    rest = drawing.of("Where", missing, nothing, drawing.of("Sub", away, mean))
    squares = drawing.of("ReduceSum", drawing.of("Mul", rest, rest), documents)
    spread = drawing.of("Sqrt", drawing.of("Div", squares, count))
    varied = drawing.of("Greater", spread, nothing)
    return drawing.of("Div", rest, drawing.of("Where", varied, spread, drawing.constant(np.array(1.0))))
