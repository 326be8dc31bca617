"""Two tiers of random tests: a tenth of the cases by default, all of them where ``RANKWISE_TESTS=all``."""

import os

import pytest

ALL = os.environ.get("RANKWISE_TESTS") == "all"
"""Whether every case runs, as ``make test-all`` asks for."""

only_all = pytest.mark.skipif(not ALL, reason="trainings on real data, for make test-all")


def share(cases: int) -> int:
    """Return how many of a test's ``cases`` to run: the first tenth, or all of them."""
    return cases if ALL else max(1, cases // 10)
