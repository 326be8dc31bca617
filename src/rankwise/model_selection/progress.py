"""A progress bar of a search, for people who watch."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from rankwise.model_selection.result import COMPLETE, Trial
from rankwise.progress import bar

Report = Callable[[Sequence[Trial], float], None]


@contextlib.contextmanager
def showing(progress: bool | None, metric: str, limit: int | None, minutes: float | None) -> Iterator[Report]:
    """Yield the function to call between trials; by default there is a bar only where a terminal shows it."""
    columns = ("bar", "text", "elapsed", "left")
    with bar(progress, 1.0, "the first trial", columns=columns, transient=True) as update:

        def report(trials: Sequence[Trial], seconds: float) -> None:
            if update is None:
                return
            shares = [len(trials) / limit] if limit else []
            shares += [seconds / (60.0 * minutes)] if minutes else []
            best = max((trial for trial in trials if trial.state == COMPLETE), key=lambda t: t.value or 0, default=None)
            text = f"{len(trials)} trials" + (f" of {limit}" if limit else "")
            if best is not None:
                text += f", {metric} {best.value:.4f} in trial {best.number}"
            update(min(max(shares), 1.0), text)

        yield report
