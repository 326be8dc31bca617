"""Graphs of ONNX, drawn step by step: from ``features``, float32 with NaN for what is missing, to scores."""

from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from rankwise.base.arrays import Column


class Drawing:
    """A graph that grows step by step; ``last`` names what came out of the last one."""

    def __init__(self) -> None:
        self.steps: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.last = "features"

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

    def lines(self, knots: Column, values: Column) -> str:
        """Draw a line for each column of the last result: up from the last knot reached, by numbers of that knot alone.

        Equal features become equal to the last bit so: a sum over all knots may be rounded otherwise from row to row,
        and what is standardised within a query makes as much of that as of a difference.
        """
        apart, count = np.diff(knots), knots.shape[1]
        gaps = np.pad(np.where(apart > 0, apart, knots.dtype.type(1)), ((0, 0), (0, 1)), constant_values=1)
        rises = np.pad(np.diff(values), ((0, 0), (0, 1)))
        inside = self.of("Min", self.step("Max", self.constant(knots[:, 0])), self.constant(knots[:, -1]))
        reached = self.step("Unsqueeze", self.constant(np.array([2])))
        self.of("GreaterOrEqual", reached, self.constant(knots))
        self.step("Cast", to=TensorProto.FLOAT)
        self.step("ReduceSum", self.constant(np.array([2])), keepdims=0)
        self.step("Max", self.constant(np.float32(1.0)))  # of what is missing none is
        firsts = self.constant(count * np.arange(len(knots)) - 1)
        place = self.of("Add", self.step("Cast", to=TensorProto.INT64), firsts)
        low, gap, rise, height = (
            self.of("Gather", self.constant(one.ravel()), place) for one in (knots, gaps, rises, values)
        )
        self.of("Div", self.of("Sub", inside, low), gap)
        return self.of("Add", height, self.step("Mul", rise))
