"""What tests and examples of all folders need: names of their own, and searches of README.md that are over soon."""

import itertools

import pytest


@pytest.fixture(autouse=True)
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget after each test, or page of examples, what it registers."""
    monkeypatch.setattr("rankwise.language.registry._entries", {})


@pytest.fixture(autouse=True)
def quick_searches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """README.md: one thread, and a clock on which most of a second passes between two looks at it."""
    if request.node.path == request.config.rootpath / "README.md":
        monkeypatch.setenv("RANKWISE_THREADS", "1")
        ticks = itertools.count()
        monkeypatch.setattr("rankwise.model_selection.auto.budget.clock", lambda: 0.7 * next(ticks))
