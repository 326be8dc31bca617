"""Run an experiment: plan its trials, compute those that are missing, keep each as it ends."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated

import numpy as np

from rankwise import __version__, check
from rankwise.base import files, hooks
from rankwise.base.arrays import Json, Keywords
from rankwise.base.pools import check_portable, processes, without_interrupts
from rankwise.base.threads import thread_count
from rankwise.check.parameters import AtLeast, Option, Unset
from rankwise.language import Workspace, registry
from rankwise.rankers import installed
from rankwise.statistics import weighted_mean
from rankwise.wings.lab.experiments.results import DESCRIPTION, PAGE, Results
from rankwise.wings.lab.experiments.running.progress import Clock, Progress, Report
from rankwise.wings.lab.experiments.running.store import TRIALS, Outcome, Store
from rankwise.wings.lab.experiments.running.trials import TrialCell, cells_of, compute, date, machine
from rankwise.wings.lab.experiments.schema import KEY
from rankwise.wings.lab.experiments.spec import Spec

if TYPE_CHECKING:
    from concurrent.futures import Future

    import polars as pl


@dataclass(kw_only=True, eq=False)
class ExperimentRun:
    """An experiment in its folder: what is there, what is missing, and how long that will take."""

    spec: Spec
    folder: Workspace
    store: Store
    cells: list[TrialCell]
    missing: list[TrialCell]
    workers: int
    """Processes; 0: a cluster."""
    clock: Clock
    progress: Progress


def begin(
    spec: Spec,
    folder: str | Path,
    *,
    jobs: int | None = None,
    on_cluster: bool = False,
    data_folder: str | Path | None = None,
    estimate: bool = True,
) -> ExperimentRun:
    """Look at what is there; with ``estimate``, time a few rounds of what nothing is known about. Writes nothing."""
    space = _workspace(Path(folder), spec)
    _check_installed(spec, on_cluster=on_cluster)
    threads = thread_count()
    jobs = threads if jobs is None else check.integer("jobs", jobs, least=1)
    cells = cells_of(spec, data_folder=data_folder, threads=max(1, threads // jobs))
    store = Store(folder)
    missing = [cell for cell in cells if not store.has(cell.name)]
    done = len(cells) - len(missing)
    progress = Progress(total=len(cells), kept=done, done=done, seconds_left=0.0)
    absent = {cell.name for cell in missing}
    for name in (cell.name for cell in cells if cell.name not in absent):
        _add(progress, spec, store.queries(name))
    workers = 0 if on_cluster else min(jobs, max(len(missing), 1))
    clock = Clock(store, cells, missing, workers)
    if estimate and not on_cluster:
        clock.probe()
    progress.seconds_left = clock.left(missing)
    work: Keywords = {"cells": cells, "missing": missing, "workers": workers, "clock": clock, "progress": progress}
    return ExperimentRun(spec=spec, folder=space, store=store, **work)


def run(
    spec: Spec,
    folder: str | Path,
    *,
    jobs: Annotated[
        int | None, AtLeast(1), "Number of processes, among which the threads are divided.", Option(group="Running")
    ] = None,
    dask: Annotated[
        str | None, "Address of a Dask cluster whose workers compute.", Option(metavar="ADDRESS", group="Running")
    ] = None,
    data_folder: Annotated[
        str | Path | None,
        "Folder of the catalog's data sets.",
        Unset("RANKWISE_DATA"),
        Option(metavar="DIR", group="Reading data"),
    ] = None,
    progress: Report | None = None,
    estimate: bool = True,
    command: str = "",
) -> Results:
    """Compute what is missing of an experiment in ``folder``, and give all of it.

    ``jobs`` processes work at once (one for each core), and the threads are divided among them; with ``dask``, the
    address of a cluster, its workers do the work, which must be able to read the data. Every trial is kept as it ends:
    a run that was interrupted resumes where it was, and more trials keep the old ones. A folder that holds anything but
    this experiment is refused. ``progress`` is called after every trial. The tables of a complete run are written to
    ``results.md``. The results are what this description asks for, also if another run with other settings has
    meanwhile taken the folder over.
    """
    files.check_writable_folder(Path(folder) / TRIALS)
    work = begin(spec, folder, jobs=jobs, on_cluster=dask is not None, data_folder=data_folder, estimate=estimate)
    state, waiting = work.progress, {cell.name: cell for cell in work.missing}
    description = _description(work, command)
    work.folder.write(DESCRIPTION, _text(description))
    report = progress or (lambda _: None)
    report(state)
    for cell, outcome in _outcomes(work, dask):
        waiting.pop(cell.name)
        if isinstance(outcome, Outcome):
            work.store.write(cell.name, outcome)
            work.clock.tell(cell, outcome.about["seconds"])
            _add(state, spec, outcome.frames["queries"])
            state.done += 1
        else:
            state.failed.append(f"{cell.method} on {cell.source.name}, trial {cell.trial}: {outcome}")
        state.seconds_left = work.clock.left(list(waiting.values()))
        report(state)
    if state.failed:
        raise check.error(
            f"{len(state.failed)} of {state.total} trials failed; the others are kept",
            got=f"first {state.failed[0].rstrip('.')}",
            hint="change the settings there and run again: what is kept is not computed again",
        )
    work.folder.write(DESCRIPTION, _text(description))  # another run in this folder may have put its own there
    results = Results.gathered(folder, description)
    work.folder.write(PAGE, results.to_markdown())
    return results


def _check_installed(spec: Spec, *, on_cluster: bool) -> None:
    """Raise if a library is missing, before work begins and not only in workers."""
    for name in {one.name for method in spec.parsed().values() for one in method.singles()}:
        installed(name)
    if spec.tune_trials or spec.tune_minutes:
        check.installed("optuna", "tune")
    if on_cluster:
        check.installed("distributed", "dask")


def _workspace(folder: Path, spec: Spec) -> Workspace:
    """Return the folder of an experiment; raise if it holds something else, before work begins."""
    space = Workspace(folder, {"name": spec.name}, what="experiment", same="name", holds="holds the results of")
    ours = (TRIALS, PAGE) if (folder / TRIALS).is_dir() else ()
    if not space.is_empty(*ours):  # else nothing, or what is left of a run without its description
        if not (folder / DESCRIPTION).is_file():
            raise check.error("the folder holds other files", got=str(folder), hint="choose another folder")
        space.check(space.record | {"identity": {"name": Results.name_in(folder)}})
    return space


def _outcomes(work: ExperimentRun, dask: str | None) -> Iterator[tuple[TrialCell, Outcome | Exception]]:
    """Compute cells in any order; bad input in one of them does not stop the others."""
    if not work.missing:
        return
    if dask is None and work.workers == 1:
        for cell in work.missing:
            try:
                yield cell, compute(cell)
            except ValueError as wrong:
                yield cell, wrong
        return
    if dask is None:
        check_portable("the experiment", work.missing[0], alone="jobs=1")
    on_cluster = hooks.find("executor", "dask")
    with processes(work.workers) if dask is None else on_cluster(dask) as pool:
        work.clock.start()
        with without_interrupts():
            registered = registry.pickle_registry()
            futures: dict[Future[Outcome], TrialCell] = {
                pool.submit(_compute, registered, cell): cell for cell in work.missing
            }
        done: SimpleQueue[Future[Outcome]] = SimpleQueue()  # whose get Ctrl-C may end at any point, unlike as_completed
        for future in futures:
            future.add_done_callback(done.put)
        for future in (done.get() for _ in futures):
            try:
                yield futures[future], future.result()
            except ValueError as wrong:
                yield futures[future], wrong


def _compute(registered: list[bytes], cell: TrialCell) -> Outcome:
    """Compute a cell in another process, which is told what is registered in this one."""
    registry.restore_registry(registered)
    return compute(cell)


def _description(work: ExperimentRun, command: str) -> Json:
    """What the folder says about itself."""
    facts = {
        "rankwise": __version__,
        "command": command,
        "machine": machine(),
        "date": date(),
    }
    spec = work.spec.plain()
    spec |= {"data": [check.shown(text) for text in work.spec.data]}  # of URLs, no secrets
    return {"spec": spec, "about": facts, "files": [cell.name for cell in work.cells]}


def _text(description: Json) -> str:
    return json.dumps(description, indent=1, ensure_ascii=False) + "\n"


def _add(progress: Progress, spec: Spec, frame: "pl.DataFrame") -> None:
    """Add the mean of a trial."""
    data, level, _, method = frame.select(list(KEY)).row(0)
    value = weighted_mean(frame[str(spec.decide)].fill_null(np.nan).to_numpy(), frame["weight"].to_numpy())
    progress.means.setdefault((data, level, method), []).append(value)
