"""The squared hinge on a GPU: one program for each query, in Triton."""

import triton.language as tl

from rankwise.base.device.launching import list_bounds, triton_kernel


@triton_kernel
def _pairs(
    offsets, scores, labels, margin: tl.float64, value, gradient, hessian, wanted: tl.constexpr, block: tl.constexpr
):
    """One query: every document gathers from all its pairs; the loss of a pair is counted at its better document."""
    query = tl.program_id(0)
    first, size = list_bounds(offsets, query)
    lanes = tl.arange(0, block)
    total = tl.zeros([block], scores.dtype.element_ty)
    for start in range(0, size, block):
        mine = start + lanes
        score = tl.load(scores + first + mine, mask=mine < size, other=0.0)[:, None]
        label = tl.load(labels + first + mine, mask=mine < size, other=0.0)[:, None]
        slope, curve = tl.zeros([block], score.dtype), tl.zeros([block], score.dtype)
        for begin in range(0, size, block):
            others = begin + lanes
            other = tl.load(scores + first + others, mask=others < size, other=0.0)[None, :]
            grade = tl.load(labels + first + others, mask=others < size, other=0.0)[None, :]
            pair = (mine < size)[:, None] & (others < size)[None, :] & (label != grade)
            better = label > grade
            gap = tl.cast(margin, score.dtype) - tl.where(better, score - other, other - score)
            gap = tl.where(pair, tl.maximum(gap, 0.0), 0.0)
            slope += tl.sum(tl.where(better, -2.0 * gap, 2.0 * gap), 1)
            curve += tl.sum(tl.where(gap > 0.0, 2.0, 0.0).to(score.dtype), 1)
            total += tl.sum(tl.where(better, gap * gap, 0.0), 1)
        tl.store(gradient + first + mine, slope, mask=mine < size)
        if wanted:
            tl.store(hessian + first + mine, curve, mask=mine < size)
    tl.store(value + query, tl.sum(total))


def squared_hinge(lists, scores, arguments, _, out):
    """Launch the kernel: its arguments are those of the CPU's, by name."""
    wanted = out.hessian.numel() > 0
    outputs = (out.value, out.gradient, out.hessian if wanted else out.gradient)
    _pairs[(lists.n_queries,)](lists.offsets, scores, arguments.labels, arguments.margin, *outputs, wanted, 32)
