"""Kernels that are launched, as against functions that they call: compiled once for the types of their arguments."""

import inspect
from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl


def launched(function: Callable[..., Any]) -> Any:
    """A Triton kernel that is compiled anew for other types and constants, and for nothing else.

    Triton would also tell apart arguments that are 1 and those that 16 divides, such as the number of documents of a
    batch or where in memory a row of scratch begins, and compile in the middle of training whenever a batch is the
    first of its kind.
    """
    arguments = inspect.signature(function).parameters.items()
    values = [name for name, argument in arguments if argument.annotation is not tl.constexpr]
    return triton.jit(function, do_not_specialize=values)
