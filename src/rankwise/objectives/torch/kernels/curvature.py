"""What stands for a diagonal that Newton's method cannot use, on a device (``rankwise.objectives.curvature``)."""

import triton.language as tl
from torch import Tensor

from rankwise.objectives.curvature import FLOOR_SHARE, LEAST, TREATMENTS
from rankwise.objectives.torch.kernels.launched import launched
from rankwise.objectives.torch.kernels.lists import DeviceLists

_FLOORED = tl.constexpr(TREATMENTS.index("floored"))
_FLOOR_SHARE, _LEAST = tl.constexpr(FLOOR_SHARE), tl.constexpr(LEAST)
_BLOCK = 256


@launched
def _treat(offsets, gradient, hessian, treatment: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Replace the diagonal of a list by what depends on all of it: a floor below its largest, or ones."""
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    source = hessian if treatment == _FLOORED else gradient
    largest = tl.zeros([block], hessian.dtype.element_ty)
    for start in range(0, size, block):
        documents = start + tl.arange(0, block)
        largest = tl.maximum(largest, tl.abs(tl.load(source + first + documents, mask=documents < size, other=0.0)))
    top = tl.max(largest)
    for start in range(0, size, block):
        documents = start + tl.arange(0, block)
        inside = documents < size
        if treatment == _FLOORED:
            own = tl.load(hessian + first + documents, mask=inside, other=0.0)
            own = tl.where(top > 0.0, tl.maximum(own, top * _FLOOR_SHARE) + _LEAST, own)
        else:  # a list that teaches nothing must not weigh in a leaf
            own = tl.zeros([block], hessian.dtype.element_ty) + tl.where(top > 0.0, 1.0, 0.0)
        tl.store(hessian + first + documents, own, mask=inside)


def treat(treatment: str, lists: DeviceLists, gradient: Tensor, hessian: Tensor) -> None:
    """Replace ``hessian`` in place, as ``rankwise.objectives.curvature.treat`` does."""
    if treatment == "absolute":
        hessian.abs_()
    elif treatment == "gradient":
        hessian.copy_(gradient).abs_()
    elif treatment in TREATMENTS:
        _treat[(lists.n_queries,)](
            lists.offsets, gradient, hessian, treatment=TREATMENTS.index(treatment), block=_BLOCK, num_warps=2
        )
