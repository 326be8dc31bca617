"""Compilation and launches of Triton kernels, and the bounds that each begins with."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton import knobs
from triton.runtime.interpreter import InterpretedFunction

_WIDE = 31  # bits above which an integer is passed in 64
# Compiled kernels are run as Triton's own launcher does it in these versions.
_TESTED = (3, 4) <= tuple(int(part) for part in triton.__version__.split(".")[:2]) <= (3, 7)


class TritonKernel:
    """A Triton kernel that is compiled once for the types of its arguments, and launched with little overhead.

    Triton would also specialise on arguments that are 1 or divisible by 16, such as the number of documents of a batch,
    and compile in the middle of training whenever a batch is the first of its kind. And each of its launches inspects
    all arguments again, which takes longer than a small kernel: here that is done once for their types.

    ``kernel[grid](*arguments, num_warps=…)`` takes all arguments by position, constants last.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        parameters = inspect.signature(function).parameters.items()
        values = [name for name, parameter in parameters if parameter.annotation is not tl.constexpr]
        self._kernel: Any = triton.jit(function, do_not_specialize=values)
        self._interpreted = isinstance(self._kernel, InterpretedFunction)
        self._n_values = len(values)
        self._compiled: dict[Any, Any] = {}
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        """Return the launch of so many programs."""

        def launch(*arguments: Any, num_warps: int = 4) -> None:
            if self._interpreted:
                self._kernel[grid](*arguments, num_warps=num_warps)
                return
            device, n = torch._C._cuda_getDevice(), self._n_values
            types = [
                x.dtype if x.__class__ is Tensor else x.bit_length() > _WIDE if x.__class__ is int else x.__class__
                for x in arguments[:n]
            ]
            key = (device, num_warps, *types, *arguments[n:])
            compiled = self._compiled.get(key)
            if compiled is None:
                self._compiled[key] = self._kernel[grid](*arguments, num_warps=num_warps)
                return
            programs = grid if len(grid) == 3 else (*grid, 1) if len(grid) == 2 else (*grid, 1, 1)
            hooks = knobs.runtime.launch_enter_hook
            if _TESTED and not getattr(hooks, "calls", hooks):  # no profiler listens
                stream = torch._C._cuda_getCurrentRawStream(device)
                code, metadata = compiled.function, compiled.packed_metadata
                compiled.run(*programs, stream, code, metadata, None, None, None, *arguments)
            else:
                compiled[programs](*arguments)

        return launch


triton_kernel = TritonKernel
"""Decorator of a kernel that is launched, as against ``triton.jit`` for the functions that it calls."""


@triton.jit
def list_bounds(offsets, query):
    """Return the first row of a query's documents, and how many there are."""
    first = tl.load(offsets + query)
    return first, tl.load(offsets + query + 1) - first


@triton.jit
def program_list(offsets):
    """Return the query of a program that works on a whole list, and :func:`list_bounds`."""
    query = tl.program_id(0)
    first, size = list_bounds(offsets, query)
    return query, first, size


@triton.jit
def tile_bounds(offsets, tile_queries, tile_starts):
    """Return the query of a program's tile, the start of the tile in it, and :func:`list_bounds`.

    A table of tiles may end with empty tiles, which start behind the end of their query.
    """
    query = tl.load(tile_queries + tl.program_id(0))
    first = tl.load(offsets + query)
    return query, tl.load(tile_starts + tl.program_id(0)), first, tl.load(offsets + query + 1) - first
