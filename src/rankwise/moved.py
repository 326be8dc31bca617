"""The one table of names that have moved: an old module is imported with a warning, and holds what the new one does."""

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MODULES = {
    "rankwise.data.clicks": "rankwise.clicks.models.impressions",
    "rankwise.data.users": "rankwise.clicks.models.users",
    "rankwise.objectives.checks": "rankwise.statistics.objective_checks",
    "rankwise.rankers.contributions": "rankwise.models.contributions",
    "rankwise.rankers.model_card": "rankwise.models.model_card",
    "rankwise.rankers.nets.presets": "rankwise.models.nets.presets",
    "rankwise.rankers.schema": "rankwise.models.schema",
    "rankwise.rankers.scoring": "rankwise.models.scoring",
    "rankwise.rankers.scoring.scorer": "rankwise.models.scoring.scorer",
    "rankwise.rankers.storage": "rankwise.models.storage",
    "rankwise.rankers.training.iterative": "rankwise.rankers.base",
    "rankwise.rankers.training.session": "rankwise.rankers.training.run",
}
"""Old name -> new name."""


class _Moved(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=name == "rankwise.rankers.scoring") if name in MODULES else None

    def exec_module(self, module: ModuleType) -> None:
        new = MODULES[module.__name__]
        warnings.warn(f"{module.__name__} is {new} now", DeprecationWarning, stacklevel=2)
        own = {name: value for name, value in vars(importlib.import_module(new)).items() if not name.startswith("__")}
        vars(module).update(own)


def install() -> None:
    """Let old names be imported."""
    sys.meta_path.append(_Moved())
