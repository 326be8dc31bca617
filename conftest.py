"""What tests and examples of all folders need: names of their own, and one thread for README.md."""

import pytest


@pytest.fixture(autouse=True)
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget after each test, or page of examples, what it registers."""
    monkeypatch.setattr("rankwise.language.registry._entries", {})


@pytest.fixture(autouse=True)
def one_thread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """README.md trains with one thread, as other tests run beside it."""
    if request.node.path == request.config.rootpath / "README.md":
        monkeypatch.setenv("RANKWISE_THREADS", "1")
