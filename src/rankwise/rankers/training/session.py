"""The frame around the training loop, of rankers and rerankers: interrupts, threads, checkpoint, resume, progress."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankwise import compiling
from rankwise.rankers import storage
from rankwise.rankers.training.checkpoints import Checkpoint
from rankwise.rankers.training.interrupts import Interrupts
from rankwise.rankers.training.loop import History, Learner, Loop, State
from rankwise.rankers.training.progress import ProgressBar
from rankwise.rankers.training.stopping import Stopping
from rankwise.rankers.training.validation import Measured
from rankwise.stream import Stream
from rankwise.threads import use_threads

Watch = Callable[[int, History], None]
"""Called after every round with its number and the history so far."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """One training run: learner, random numbers, stopping rule, measured data sets, checkpoint and progress."""

    learner: Learner[Any]
    stream: Stream
    stopping: Stopping
    progress: ProgressBar
    measured: Sequence[Measured] = ()
    checkpoint: Checkpoint | None = None
    start: State = field(default_factory=State)
    """State before the first round, unless a checkpoint is resumed."""
    verify: Callable[[Mapping[str, bytes]], None] | None = None
    """Check of the files of a checkpoint, before the learner reads them."""

    def resumed(self, *, resume: bool) -> tuple[State, object]:
        """Return the state and the best model to start from: those of the checkpoint, if there is one to resume."""
        if self.checkpoint is None or (content := self.checkpoint.read(resume=resume)) is None:
            return self.start, None
        state, files = content
        with storage.making_sense(self.checkpoint.path):
            if self.verify is not None:
                self.verify(files)
            return state, self.learner.resume(files, state)

    def run(
        self, state: State, best: object, interrupts: Interrupts, *, show: bool | None, watch: Watch | None
    ) -> State:
        """Train from ``state`` on, and leave the best model in the learner."""
        reports = [self.progress.report]
        if watch is not None:
            reports.append(lambda state: watch(state.done, state.history))
        with self.progress.showing(show if self.learner.processes.first else False, state.done):
            loop = Loop(
                learner=self.learner,
                stream=self.stream,
                stopping=self.stopping,
                measured=self.measured,
                checkpoint=self.checkpoint,
                reports=reports,
            )
            return loop.run(state, best, interrupts)


def train(
    prepare: Callable[[], Session],
    keep: Callable[[Any, State], None],
    *,
    threads: int,
    progress: bool | None,
    resume: bool,
    watch: Watch | None,
    unit: str,
) -> str:
    """Run the training that ``prepare`` builds, and return why it ended.

    Ctrl-C ends a round at once, and training with the best model so far. ``keep`` takes the model over from the
    learner: an interruption waits until it has returned.
    """
    with Interrupts() as interrupts, use_threads(threads), compiling.announce_compiling(progress):
        with interrupts.allowed():
            session = prepare()
            state, best = session.resumed(resume=resume)
        state = session.run(state, best, interrupts, show=progress, watch=watch)
        keep(session.learner, state)
        del session, best  # Python loses a Ctrl-C that comes while a library's data are freed; here it waits
    if interrupts.asked:  # after the last round
        state.stopped = "interrupted"
    if state.stopped == "interrupted":
        kept = f"the best model so far, of {state.best} {unit}, is kept"
        warnings.warn(f"interrupted after {unit[:-1]} {state.done}: {kept}", RuntimeWarning, stacklevel=4)
    return state.stopped
