"""Two tiers of random tests: a tenth of the cases by default, all of them where ``RANKWISE_TESTS=all``."""

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

Case = TypeVar("Case")
ALL = os.environ.get("RANKWISE_TESTS") == "all"
"""Whether every case runs, as ``make test-all`` asks for."""

only_all = pytest.mark.skipif(not ALL, reason="runs for long; make test-all includes it")


def some(cases: Sequence[Case], count: int = 1) -> Sequence[Case]:
    """Return the first ``count`` of the cases that a test is parametrised by, or all of them."""
    return cases if ALL else cases[:count]


def share(cases: int) -> int:
    """Return how many of a test's ``cases`` to run: the first tenth, or all of them."""
    return cases if ALL else max(1, cases // 10)
