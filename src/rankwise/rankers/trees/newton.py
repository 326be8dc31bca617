"""From derivatives to what a tree learner divides: checked, weighted, floored and cast, here and nowhere else.

Fed numbers that are not finite, or Hessians that are not positive, LightGBM and XGBoost silently return an
untrained model. A Hessian is used as it is wherever Newton's method can use it, which is everywhere for convex losses.
Where it is not positive, the mean size of the query's Hessians stands in its place. It is at least a thousandth of that
mean and a hundredth of the numerator, so that a list whose probabilities have gone to 0 and 1, of which the Hessian has
vanished, can still turn round. Everything is relative to the query's own numbers: a loss times a constant asks for the
same steps. Trees that are grown on a GPU get the same from ``device_newton.py``.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array, Floats, Ids
from rankwise.base.compiling import REORDERED, kernel
from rankwise.base.threads import over_queries
from rankwise.objectives.prepared import NoDeviceKernelError, Prepared

if TYPE_CHECKING:
    from rankwise.objectives.ragged import Derivatives
    from rankwise.rankers.trees.device_newton import DeviceNewton

SHARE = 1e-3  # of the mean size of a list's Hessians
LONGEST_STEP = 1e-2  # one document asks for a step of at most 100
LEAST = np.float32(1e-16)  # of a document that teaches nothing: too little to weigh in a leaf, and not 0


def newton(
    derivatives: "Derivatives",
    offsets: NDArray[np.int64],
    query_ids: Ids | None = None,
    weights: Array | None = None,
    *,
    floor_hessian: bool = True,
) -> tuple[Floats, Floats]:
    """Return numerator and Hessian as finite float32, weighted by query; ``floor_hessian`` makes the Hessian positive.

    >>> from rankwise.objectives.ragged import Derivatives
    >>> gradient = np.array([-1.0, 1.0, 0.5])
    >>> given = Derivatives(np.zeros(1), gradient, np.array([0.5, -0.25, 0.0]), gradient)
    >>> newton(given, np.array([0, 3]), weights=np.array([2.0]))
    (array([-2.,  2.,  1.], dtype=float32), array([1. , 0.5, 0.5], dtype=float32))
    """
    shape = (int(offsets[-1]),)
    parts = []
    for name in ("numerator", "hessian"):
        part = np.ascontiguousarray(getattr(derivatives, name), np.float64)
        if part.shape != shape:
            what = f"the {name} of an objective must be one number per document"
            raise check.error(what, got=f"shape {part.shape} for {shape[0]} documents")
        parts.append(part)
    if weights is None:
        weights = np.ones(offsets.size - 1)
    numerator, hessian = np.empty(shape, np.float32), np.empty(shape, np.float32)
    over_queries(_newton, offsets, *parts, weights, floor_hessian, numerator, hessian)
    for name, part, cast in zip(("numerator", "hessian"), parts, (numerator, hessian), strict=True):
        bad = ~np.isfinite(cast)
        if bad.any():
            row = int(np.argmax(bad))
            raise check.error(
                f"the {name} of an objective must be finite in float32",
                got=part[row],
                where=check.query_of_row(row, offsets, query_ids),
                hint="look at the objective and at the labels there; a lower learning rate keeps scores small",
            )
    return numerator, hessian


def newton_on_device(
    prepared: "Prepared",
    device: str | None,
    query_ids: Ids | None = None,
    weights: Array | None = None,
    *,
    floor_hessian: bool = True,
) -> "DeviceNewton | None":
    """Return :func:`newton` for a device, by torch's name; None where the CPU computes it: the numbers are the same."""
    if device is None or find_spec("torch") is None or find_spec("triton") is None:
        return None
    import torch

    from rankwise.rankers.trees.device_newton import DeviceNewton  # Triton, which trees do without elsewhere

    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        return None
    try:
        moved = prepared.to(device, torch.float32)
    except NoDeviceKernelError:
        return None
    return DeviceNewton(moved, query_ids, weights, floor_hessian=floor_hessian)


@kernel(fastmath=REORDERED - {"nnan"})  # a NaN stays, to be found
def _newton(first, last, offsets, numerator, hessian, weights, floor, top, bottom):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        mine, weight = slice(offsets[q], offsets[q + 1]), weights[q]
        above, below, out, low = numerator[mine], hessian[mine], top[mine], bottom[mine]
        size = 0.0
        for i in range(below.size):
            size += abs(below[i])
        size /= below.size
        for i in range(below.size):  # choices rather than branches, which would be guessed wrongly
            curvature, pull = below[i], abs(above[i])
            least = max(SHARE * size, LONGEST_STEP * pull)
            raised = least if curvature < least else curvature  # noqa: FURB136
            raised = (size if size > 0.0 else pull) if curvature <= 0.0 else raised
            raised = (0.0 if curvature < 0.0 else curvature) if pull == 0.0 else raised  # noqa: FURB136
            divisor = np.float32(weight * (raised if floor else curvature))
            out[i] = weight * above[i]
            low[i] = LEAST if floor and divisor < LEAST else divisor
