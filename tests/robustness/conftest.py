"""The last line of a run says how many cases there were, and how to repeat them."""

import pytest

from tests.robustness import fuzzing


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if fuzzing.asked:
        terminalreporter.write_line(f"{sum(fuzzing.asked):,} random cases of RANKWISE_FUZZ_SEED={fuzzing.SEED}")
