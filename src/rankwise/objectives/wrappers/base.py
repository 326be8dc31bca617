"""The base of wrappers: an objective around another one."""

from dataclasses import dataclass

from rankwise.objectives.base import Objective
from rankwise.objectives.function_objective import as_objective


@dataclass(frozen=True, repr=False)
class Wrapper(Objective):
    """An objective around another one, or around a function."""

    inner: Objective

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "inner", as_objective(self.inner, self.name))

    @property
    def children(self) -> tuple[Objective, ...]:
        """The inner objective."""
        return (self.inner,)
