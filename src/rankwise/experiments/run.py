"""Run an experiment: plan its trials, compute those that are missing, keep each as it ends."""

import contextlib
import json
import multiprocessing
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import check
from rankwise._version import __version__
from rankwise.evaluation.evaluate import weighted_mean
from rankwise.experiments.estimate import Clock
from rankwise.experiments.results import DESCRIPTION, KEY, Results
from rankwise.experiments.sources import Source
from rankwise.experiments.spec import Spec
from rankwise.experiments.store import Outcome, Store
from rankwise.experiments.trial import Cell, compute
from rankwise.threads import thread_count

if TYPE_CHECKING:
    import polars as pl


@dataclass(kw_only=True, eq=False)
class Progress:
    """How far a run is; handed to whoever watches after every trial."""

    total: int
    """Trials times methods, levels and data sets."""
    kept: int
    """Those that were there before."""
    done: int
    """Those that are there now."""
    seconds_left: float | None
    """At most, as far as can be told; None: not known yet."""
    means: dict[tuple[str, float, str], list[float]] = field(default_factory=dict)
    """(data, level, method) -> the deciding metric's mean of each trial that is there."""
    failed: list[str] = field(default_factory=list)


Watch = Callable[[Progress], None]


def plan(spec: Spec, *, data_folder: str | Path | None = None, threads: int = 1) -> list[Cell]:
    """List everything that is to be computed: whole trials first, so that what is there can be compared early."""
    folder = None if data_folder is None else str(data_folder)
    sources = [Source(text, folder, spec.queries) for text in spec.data]
    names = [source.name for source in sources]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise check.error("two data sets have the same name", got=twice, cure="name one of them: other=path/to/file")
    marks = {source: source.fingerprint() for source in sources}
    cells = [
        Cell(
            spec=spec,
            source=source,
            level=level,
            trial=trial,
            method=name,
            threads=threads,
            fingerprint=marks[source],
        )
        for trial in range(spec.trials)
        for source in sources
        for level in spec.levels
        for name in spec.methods
    ]
    for cell in cells[: len(sources) * len(spec.levels) * len(spec.methods)]:  # settings are checked before training
        spec.parsed()[cell.method].build(spec.settings_of(cell.method, cell.source.name, cell.level), {})
    return cells


def run(
    spec: Spec,
    folder: str | Path,
    *,
    jobs: int | None = None,
    dask: str | None = None,
    data_folder: str | Path | None = None,
    watch: Watch | None = None,
    estimate: bool = True,
    command: str = "",
) -> Results:
    """Compute what is missing of an experiment in ``folder``, and give all of it.

    ``jobs`` processes work at once (one for each core), and the threads are divided among them; with ``dask``, the
    address of a cluster, its workers do the work, which must be able to read the data. Every trial is kept as it ends:
    a run that was stopped goes on where it was, and more trials keep the old ones.
    """
    threads = thread_count()
    jobs = threads if jobs is None else check.integer("jobs", jobs, least=1)
    cells = plan(spec, data_folder=data_folder, threads=max(1, threads // jobs))
    store = Store(folder)
    missing = [cell for cell in cells if not store.has(cell.name)]
    _describe(store, spec, cells, command)
    progress = Progress(
        total=len(cells), kept=len(cells) - len(missing), done=len(cells) - len(missing), seconds_left=0
    )
    absent = {cell.name for cell in missing}
    for name in (cell.name for cell in cells if cell.name not in absent):
        _add(progress, spec, store.queries(name))
    workers = min(jobs, len(missing)) if dask is None else 0
    clock = Clock(store, cells, missing, workers)
    if estimate and dask is None:
        clock.probe()
    progress.seconds_left = clock.left(missing)
    tell = watch or (lambda _: None)
    tell(progress)
    waiting = {cell.name: cell for cell in missing}

    def keep(cell: Cell, outcome: Outcome) -> None:
        store.write(cell.name, outcome)
        waiting.pop(cell.name, None)
        clock.tell(cell, outcome.about["seconds"])
        _add(progress, spec, outcome.queries)
        progress.done += 1
        progress.seconds_left = clock.left(list(waiting.values()))
        tell(progress)

    for cell, outcome in _outcomes(missing, workers, dask, clock):
        if isinstance(outcome, Outcome):
            keep(cell, outcome)
        else:
            progress.failed.append(f"{cell.method} on {cell.source.name}, trial {cell.trial}: {outcome}")
            tell(progress)
    if progress.failed:
        raise check.error(
            f"{len(progress.failed)} of {len(cells)} trials failed; the others are kept",
            got=f"first {progress.failed[0].rstrip('.')}",
            cure="change the settings there and run again: what is kept is not computed again",
        )
    return Results.read(folder)


def _outcomes(
    cells: list[Cell], workers: int, dask: str | None, clock: Clock
) -> Iterator[tuple[Cell, Outcome | Exception]]:
    """Compute cells in any order; bad input in one of them does not stop the others."""
    if dask is None and workers <= 1:
        clock.start()
        for cell in cells:
            try:
                yield cell, compute(cell)
            except ValueError as wrong:
                yield cell, wrong
        return
    with _cluster(dask) if dask is not None else _processes(workers) as pool:
        clock.start()
        asked: dict[Future[Outcome], Cell] = {pool.submit(compute, cell): cell for cell in cells}
        for future in as_completed(asked):
            try:
                yield asked[future], future.result()
            except ValueError as wrong:
                yield asked[future], wrong


@contextlib.contextmanager
def _processes(count: int) -> Iterator[Executor]:
    """Processes that end when they are no longer wanted, and also when this one is killed."""
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_begin)
    try:
        yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _begin() -> None:
    """Prepare a worker: Ctrl-C is for the process that started it, and without that one it has nothing to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@contextlib.contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    """The workers of a Dask cluster."""
    distributed: Any = check.extra("distributed", "dask")  # noqa: S610
    with distributed.Client(address) as client, client.get_executor(pure=False) as pool:
        yield pool


def _describe(store: Store, spec: Spec, cells: list[Cell], command: str) -> None:
    about = {
        "rankwise": __version__,
        "command": command or " ".join(Path(word).name if i == 0 else word for i, word in enumerate(sys.argv)),
        "machine": f"{platform.platform()}, {os.cpu_count()} cores",
        "date": time.strftime("%Y-%m-%d %H:%M:%S%z"),
        "names": {text: Source(text).name for text in spec.data},
    }
    content = {"spec": spec.plain(), "about": about, "files": [cell.name for cell in cells]}
    store.describe(json.dumps(content, indent=1, ensure_ascii=False) + "\n", DESCRIPTION)


def _add(progress: Progress, spec: Spec, frame: "pl.DataFrame") -> None:
    """Add the mean of a trial."""
    data, level, _, method = frame.select(list(KEY)).row(0)
    value = weighted_mean(frame[spec.decide].fill_null(np.nan).to_numpy(), frame["weight"].to_numpy())
    progress.means.setdefault((data, level, method), []).append(value)
