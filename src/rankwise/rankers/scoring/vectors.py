"""One instruction, many documents: steps of the scorer that Numba itself does not make into vectors."""

# ruff: noqa: ARG001 (Numba fixes the arguments)

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

Ir = Any
"""A type, value or tool of Numba's and LLVM's intermediate code, which have no types."""
LANES = 16
"""How many documents are scored at a time."""


def _rule_out(_: Ir, bits: Ir, start: Ir, values: Ir, threshold: Ir, mask: Ir) -> Ir:
    """``bits[start + k] &= mask`` for every lane k with ``values[k] > threshold``, all lanes at once; NaN exceeds none.

    Written as a loop it stays one: Numba cannot know that the arrays do not overlap.
    """

    def generate(context: Ir, builder: Ir, signature: Ir, arguments: Ir) -> Ir:
        whole, real = ir.IntType(32), ir.FloatType()
        row, lanes = ir.VectorType(whole, LANES), ir.VectorType(real, LANES)

        def pointer(number: int, of: Ir, *offset: Ir) -> Ir:
            data = context.make_array(signature.args[number])(context, builder, arguments[number]).data
            return builder.bitcast(builder.gep(data, offset) if offset else data, of.as_pointer())

        def everywhere(value: Ir, of: Ir) -> Ir:
            nothing = ir.Constant(of, ir.Undefined)
            first = builder.insert_element(nothing, value, ir.Constant(whole, 0))
            return builder.shuffle_vector(first, nothing, ir.Constant(row, [0] * LANES))

        place = pointer(0, row, arguments[1])
        before, given = builder.load(place, align=4), builder.load(pointer(2, lanes), align=4)
        exceeds = builder.fcmp_ordered(">", given, everywhere(arguments[3], lanes))
        cleared = builder.and_(before, everywhere(arguments[4], row))
        builder.store(builder.select(exceeds, cleared, before), place, align=4)
        return context.get_dummy_value()

    return types.void(bits, types.intp, values, types.float32, types.uint32), generate


def _lowest(_: Ir, word: Ir) -> Ir:
    """The number of the lowest bit that is set."""

    def generate(context: Ir, builder: Ir, signature: Ir, arguments: Ir) -> Ir:
        return builder.zext(builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1)), ir.IntType(64))

    return types.intp(types.uint32), generate


rule_out: Ir = intrinsic(_rule_out)
lowest: Ir = intrinsic(_lowest)
