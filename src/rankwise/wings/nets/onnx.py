"""Nets as graphs of ONNX: the transform of features, then layer by layer what the net does when it scores."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto
from torch.nn import BatchNorm1d, Linear

from rankwise import check
from rankwise.models.formats.onnx_graph import Drawing, Graph, broken_lines
from rankwise.wings.nets.layers import MemberHeads, MemberLinear
from rankwise.wings.nets.transforms import Transform

if TYPE_CHECKING:
    from rankwise.wings.nets.model import NetModel

_ACTIVATIONS = {"ReLU": "Relu", "GELU": "Gelu", "ELU": "Elu", "Tanh": "Tanh", "Sigmoid": "Sigmoid"}


def perceptron(net: "NetModel") -> Graph:
    """Draw a net."""
    drawing = Drawing()
    _transform(drawing, net.transform)
    for layer in net.body:
        kind = type(layer).__name__
        if kind in _ACTIVATIONS:
            drawing.step(_ACTIVATIONS[kind])
        elif kind in _LAYERS:
            _LAYERS[kind](drawing, layer)
        elif kind != "Dropout":  # which does nothing when a net scores
            raise check.error("a layer that is not known in ONNX", got=kind)
    drawing.step("ReduceMean", drawing.constant(np.array([1])), keepdims=0)  # over members, or a single one
    drawing.step("Identity")
    return drawing.graph(TensorProto.FLOAT)


def _transform(drawing: Drawing, transform: Transform) -> None:
    missing = drawing.of("IsNaN", "features")
    drawing.last = "features"
    if transform.quantiles is not None:
        knots, values = transform.quantiles.knots, transform.quantiles.values
        broken_lines(drawing, *(np.asarray(one.detach().cpu()) for one in (knots, values)))
    if transform.log:
        # ONNX has no log1p: in float64 the 1 takes nothing away from a small number.
        numbers = drawing.step("Cast", to=TensorProto.DOUBLE)
        sign = drawing.of("Sign", numbers)
        size = drawing.of("Abs", numbers)
        drawing.of("Log", drawing.of("Add", size, drawing.constant(np.array(1.0))))
        drawing.of("Cast", drawing.of("Mul", sign, drawing.last), to=TensorProto.FLOAT)
    drawing.of("Where", missing, drawing.constant(transform.mean), drawing.last)
    if transform.standardize:
        drawing.step("Sub", drawing.constant(transform.center))
        drawing.step("Div", drawing.constant(transform.scale))


def _linear(drawing: Drawing, layer: Linear) -> None:
    learned = [layer.weight] if layer.bias is None else [layer.weight, layer.bias]
    drawing.step("Gemm", *map(drawing.constant, learned), transB=1)


def _member_linear(drawing: Drawing, layer: MemberLinear) -> None:
    if layer.first:
        drawing.step("Unsqueeze", drawing.constant(np.array([1])))
    drawing.step("Mul", drawing.constant(layer.before))
    drawing.step("MatMul", drawing.constant(layer.weight.T.contiguous()))
    drawing.step("Mul", drawing.constant(layer.after))
    drawing.step("Add", drawing.constant(layer.bias))


def _member_heads(drawing: Drawing, layer: MemberHeads) -> None:
    drawing.step("Mul", drawing.constant(layer.weight))
    drawing.step("ReduceSum", drawing.constant(np.array([2])), keepdims=0)
    if layer.bias is not None:
        drawing.step("Add", drawing.constant(layer.bias))


def _normalized(drawing: Drawing, layer: BatchNorm1d) -> None:
    learned = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
    drawing.step("BatchNormalization", *map(drawing.constant, learned), epsilon=layer.eps)


def _silu(drawing: Drawing, _: object) -> None:
    before = drawing.last
    drawing.of("Mul", before, drawing.of("Sigmoid", before))


_LAYERS: dict[str, Callable[[Drawing, Any], None]] = {
    "Linear": _linear,
    "MemberLinear": _member_linear,
    "MemberHeads": _member_heads,
    "BatchNorm1d": _normalized,
    "SiLU": _silu,
}
