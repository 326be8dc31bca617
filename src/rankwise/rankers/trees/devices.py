"""Where numerator and Hessian of trees are computed: on the device that reads them there, or on the CPU."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from rankwise.arrays import Array, Ids
from rankwise.objectives.prepared import Prepared

if TYPE_CHECKING:
    from rankwise.rankers.trees.device_newton import DeviceNewton


def newton_on_device(
    prepared: Prepared,
    device: str | None,
    query_ids: Ids | None = None,
    weights: Array | None = None,
    *,
    floor_hessian: bool = True,
) -> "DeviceNewton | None":
    """Give what computes them on a device, by torch's name; None where the CPU has to: the numbers are the same."""
    if device is None or find_spec("torch") is None or find_spec("triton") is None:
        return None
    from rankwise.rankers.trees.device_newton import DeviceNewton  # torch and Triton, which trees do without elsewhere

    return DeviceNewton.of(prepared, device, query_ids, weights, floor_hessian=floor_hessian)
