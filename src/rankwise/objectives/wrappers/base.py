"""The base of wrappers: an objective around another one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rankwise.objectives.base import Objective
from rankwise.objectives.function_objective import as_objective
from rankwise.objectives.plackett_luce.objectives import PLRank
from rankwise.objectives.prepared import PreparedKernel
from rankwise.objectives.ragged import Values


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


def ranking_model(objective: Objective) -> PLRank:
    """Return the model by which rankings are drawn: the first PL-Rank inside an objective, or a plain one."""
    return next((part for part in _parts(objective) if isinstance(part, PLRank)), PLRank())


def with_rewards(plrank: PreparedKernel, rewards: Values) -> PreparedKernel:
    """Return a prepared PL-Rank with other rewards."""
    return replace(plrank, arguments=plrank.arguments._replace(rewards=rewards))


def _parts(objective: Objective) -> Iterator[Objective]:
    yield objective
    for part in objective.children:
        yield from _parts(part)
