"""Graphs of ONNX from ``features``, float32 with NaN for what is missing, to ``scores``, drawn step by step."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from rankwise.base.arrays import Column


class Graph(NamedTuple):
    """From ``features`` to ``scores``."""

    steps: list[NodeProto]
    constants: list[TensorProto]
    kind: Any
    """The type of the scores."""


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

    def graph(self, kind: Any) -> Graph:
        """Return the graph, whose last result are scores of this type."""
        self.steps[-1].output[0] = "scores"
        return Graph(self.steps, self.constants, kind)


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
