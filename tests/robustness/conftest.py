"""The last line of a run says how many cases there were, and how to repeat them."""

import pytest

from tests import tiers
from tests.robustness import fuzzing


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if fuzzing.asked:
        tier = "all" if tiers.ALL else "a tenth"
        count = f"{sum(fuzzing.asked):,} random cases ({tier})"
        terminalreporter.write_line(f"{count} of RANKWISE_FUZZ_SEED={fuzzing.SEED}")
