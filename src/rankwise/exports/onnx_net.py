"""Nets as graphs of ONNX: the transform of features, then layer by layer what the net does when it scores."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from rankwise import check
from rankwise.base.arrays import Column
from rankwise.exports.onnx import Graph

if TYPE_CHECKING:
    from torch.nn import BatchNorm1d, Linear

    from rankwise.models.nets.layers import MemberHeads, MemberLinear
    from rankwise.models.nets.model import NetModel
    from rankwise.models.nets.transforms import Transform

_ACTIVATIONS = {"ReLU": "Relu", "GELU": "Gelu", "ELU": "Elu", "Tanh": "Tanh", "Sigmoid": "Sigmoid"}


class Drawing:
    """A graph that grows step by step; ``last`` names what came out of the last one."""

    def __init__(
        self, steps: Sequence[NodeProto] = (), constants: Sequence[TensorProto] = (), last: str = "features"
    ) -> None:
        self.steps, self.constants, self.last = [*steps], [*constants], last

    def constant(self, value: object) -> str:
        """Add a constant, and return its name."""
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def step(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Apply an operator to the last result and others."""
        return self.of(operator, self.last, *inputs, **attributes)

    def of(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Apply an operator to results by their names."""
        name = f"step_{len(self.steps)}"
        self.steps.append(helper.make_node(operator, list(inputs), [name], **attributes))
        self.last = name
        return name


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
    drawing.of("Identity", drawing.last)
    drawing.steps[-1].output[0] = "scores"
    return Graph(drawing.steps, drawing.constants, TensorProto.FLOAT)


def _transform(drawing: Drawing, transform: "Transform") -> None:
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


def broken_lines(drawing: Drawing, knots: Column, values: Column) -> str:
    """Draw a line for each column: up from the last knot that is reached, by numbers of that knot alone.

    Equal features become equal to the last bit so: a sum over all knots may be rounded otherwise from row to row, and
    what is standardised within a query makes as much of that as of a difference.
    """
    apart, count = np.diff(knots), knots.shape[1]
    gaps = np.pad(np.where(apart > 0, apart, knots.dtype.type(1)), ((0, 0), (0, 1)), constant_values=1)
    rises = np.pad(np.diff(values), ((0, 0), (0, 1)))
    inside = drawing.of("Min", drawing.step("Max", drawing.constant(knots[:, 0])), drawing.constant(knots[:, -1]))
    reached = drawing.step("Unsqueeze", drawing.constant(np.array([2])))
    drawing.of("GreaterOrEqual", reached, drawing.constant(knots))
    drawing.step("Cast", to=TensorProto.FLOAT)
    drawing.step("ReduceSum", drawing.constant(np.array([2])), keepdims=0)
    drawing.step("Max", drawing.constant(np.float32(1.0)))  # of what is missing none is
    firsts = drawing.constant(count * np.arange(len(knots)) - 1)
    place = drawing.of("Add", drawing.step("Cast", to=TensorProto.INT64), firsts)
    low, gap, rise, height = (
        drawing.of("Gather", drawing.constant(one.ravel()), place) for one in (knots, gaps, rises, values)
    )
    drawing.of("Div", drawing.of("Sub", inside, low), gap)
    return drawing.of("Add", height, drawing.step("Mul", rise))


def _linear(drawing: Drawing, layer: "Linear") -> None:
    learned = [layer.weight] if layer.bias is None else [layer.weight, layer.bias]
    drawing.step("Gemm", *map(drawing.constant, learned), transB=1)


def _member_linear(drawing: Drawing, layer: "MemberLinear") -> None:
    if layer.first:
        drawing.step("Unsqueeze", drawing.constant(np.array([1])))
    drawing.step("Mul", drawing.constant(layer.before))
    drawing.step("MatMul", drawing.constant(layer.weight.T.contiguous()))
    drawing.step("Mul", drawing.constant(layer.after))
    drawing.step("Add", drawing.constant(layer.bias))


def _member_heads(drawing: Drawing, layer: "MemberHeads") -> None:
    drawing.step("Mul", drawing.constant(layer.weight))
    drawing.step("ReduceSum", drawing.constant(np.array([2])), keepdims=0)
    if layer.bias is not None:
        drawing.step("Add", drawing.constant(layer.bias))


def _normalized(drawing: Drawing, layer: "BatchNorm1d") -> None:
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
