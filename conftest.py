"""What the examples of README.md need to be tests: a search that is over soon, at the same round everywhere."""

import itertools

import pytest


@pytest.fixture(autouse=True)
def quick_searches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a search see most of a second pass whenever it looks at the clock."""
    if request.node.path == request.config.rootpath / "README.md":
        ticks = itertools.count()
        monkeypatch.setattr("rankwise.auto.budget.clock", lambda: 0.7 * next(ticks))
