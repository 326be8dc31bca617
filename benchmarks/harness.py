"""What benchmarks share: arguments, data, cells that resume, clocks, intervals and paired tables.

Benchmarks are modules of a package and are run from the root of the repository: ``python -m benchmarks.quality.auto``.
"""

import argparse
import concurrent.futures
import csv
import functools
import hashlib
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from scipy.stats import t

import rankwise as rw
from rankwise.base.pools import processes as pool_of

FOLDS = 5
SETTINGS = {"learning_rate": 0.05, "leaves": 15, "min_documents": 20, "rounds": 600, "patience": 60}
FILE_2007 = "mq2007.partial.txt"

MISSED = 3
"""How a benchmark exits that ran to its end and missed a target: 1 is an error, 2 are wrong arguments."""

# ---- arguments -------------------------------------------------------------------------------------------------------


def arguments(text: str | None, *, out: str | None = None, processes: int = 2) -> argparse.ArgumentParser:
    """Return a parser that shows the module's docstring; ``out`` adds --out and --processes of a quality study."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    if out is not None:
        parser.add_argument("--processes", type=int, default=processes, help="trainings side by side")
        parser.add_argument("--out", type=Path, default=Path(out))
    return parser


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---- data ------------------------------------------------------------------------------------------------------------


def data_folder(folder: str | None) -> str:
    """Return the folder of the data sets: the argument, or where rw.load_dataset looks."""
    return folder or os.environ.get("RANKWISE_DATA") or str(Path.home() / "rankwise-data")


def missing_data(folder: str, sets: Sequence[str]) -> str | None:
    """Return why a data set cannot be read, or None."""
    try:
        for data in sets:
            parts(folder, data, 1)
    except FileNotFoundError as missing:
        return str(missing)
    return None


REAL = ("mq2008", "mq2007", "web10k", "example")
"""MQ2008, MQ2007 in part, samples of MSLR-WEB10K, and the example of LightGBM's lambdarank."""
KINDS: dict[str, dict[str, Any]] = {
    "few": {"n_queries": 60, "n_docs": 20},
    "many": {"n_queries": 2000, "n_docs": 20},
    "noisy": {"n_queries": 400, "n_docs": 25, "noise": 2.5},
    "sparse": {"n_queries": 400, "n_docs": 40, "grades": (0.97, 0.02, 0.01)},
    "long": {"n_queries": 60, "n_docs": 300},
    "useless": {"n_queries": 400, "n_docs": 25},
    "clicks": {"n_queries": 300, "n_docs": 20},
}
"""Synthetic kinds: few and many queries, noisy labels, few relevant documents, long lists, 150 useless features, and
clicks on an older ranking instead of the labels of training and validation queries."""
LARGE: dict[str, dict[str, Any]] = {
    "large": {"n_queries": 1500, "n_features": 136},
    "larger": {"n_queries": 6000, "n_features": 136},
    "largest": {"n_queries": 25_000, "n_features": 136},
}
"""Synthetic sets of 180,000, 720,000 and 3 million documents with as many features as MSLR."""


@functools.cache
def parts(folder: str, data: str, fold: int) -> tuple[rw.RankingDataset, ...]:
    """Return training, validation and test data of a fold, which counts from 1."""
    if data == "mq2008":
        train, valid, test = rw.load_dataset(data, fold=fold, folder=folder, cache=False)
        return train, valid or train, test
    train, valid, test = list(rw.folds(whole(folder, data), FOLDS, seed=0))[fold - 1]
    if data == "clicks":
        return clicked(train, fold), clicked(valid, fold), test
    return train, valid, test


@functools.cache
def whole(folder: str, data: str = "mq2007") -> rw.RankingDataset:
    """Return all queries of a data set that has no folds of its own."""
    if data == "numpy-scipy":
        return rw.concatenate([part for part in rw.load_dataset(data) if part])
    if data in KINDS | LARGE:
        made = rw.synthetic(**(KINDS | LARGE)[data], seed=7)
        if data != "useless":
            return made
        noise = np.random.default_rng(7).normal(size=(made.n_docs, 150)).astype(np.float32)
        features = np.hstack([made.features, noise])
        return rw.RankingDataset(features, made.labels, made.offsets, query_ids=made.query_ids)
    files = {"mq2007": FILE_2007 + "*", "web10k": "web10k.fold1.*", "example": "rank.t*", "tmdb": "title_features.csv*"}
    names = files[data]
    paths = sorted(Path(folder).rglob(names))
    if not paths:
        raise FileNotFoundError(f"no {names} below {folder}")
    if data == "mq2007":
        return rw.read_letor(paths[0])
    if data == "web10k":
        return rw.concatenate([rw.read_letor(path) for path in paths])
    if data == "tmdb":
        columns = ["features0", "features1", "features2"]
        return rw.read_csv(paths[0], label="grade", query="qid", features=columns)
    found = [
        _example(path, part)
        for part in ("train", "test")
        for path in paths
        if f"rank.{part}" in path.name and "query" not in path.name
    ]
    return rw.concatenate(found)


def clicked(data: rw.RankingDataset, seed: int) -> rw.RankingDataset:
    """Return the data with clicks of ten impressions for labels, up to 4: examined by position, clicked by grade."""
    queries = np.repeat(np.arange(data.n_queries), data.sizes)
    order = np.lexsort((-data.features[:, 0], queries))
    rank = np.empty(data.n_docs)
    rank[order] = np.arange(data.n_docs) - data.offsets[queries[order]] + 1.0
    chance = np.array([0.05, 0.3, 0.5, 0.7, 0.95])[data.labels.astype(int)] / rank
    clicks = np.random.default_rng(seed).binomial(10, chance)
    return rw.RankingDataset(data.features, np.minimum(clicks, 4), data.offsets, query_ids=data.query_ids)


def _example(path: Path, part: str) -> rw.RankingDataset:
    """Return a part of LightGBM's example: rows in libsvm's format, and the number of rows of each query beside it."""
    from sklearn.datasets import load_svmlight_file

    rows, labels = load_svmlight_file(str(path), n_features=300, zero_based=False)
    sizes = np.loadtxt(path.with_name(path.name.replace(part, f"{part}.query")), dtype=int)
    ids = [f"{part}{number}" for number in range(sizes.size)]
    return rw.RankingDataset(rows.toarray(), labels, np.append(0, np.cumsum(sizes)), query_ids=ids)


def shuffled(data: rw.RankingDataset, seed: int) -> rw.RankingDataset:
    """Return the same documents in another order within each query; seed 0 leaves them as they are."""
    if seed == 0:
        return data
    queries = np.repeat(np.arange(data.n_queries), data.sizes)
    order = np.lexsort((np.random.default_rng(seed).random(data.n_docs), queries))
    named = {
        name: getattr(data, name) for name in ("document_ids", "inclusion_probabilities", "relevance_probabilities")
    }
    columns: dict[str, Any] = {name: np.asarray(one)[order] for name, one in named.items() if one is not None}
    return rw.RankingDataset(
        data.features[order], data.labels[order], data.offsets, query_ids=data.query_ids, **columns
    )


def versions() -> dict[str, str]:
    return {name: version(name) for name in ("rankwise", "lightgbm", "numpy", "numba")}


def by_query(evaluation: rw.Evaluation, metrics: Sequence[str]) -> dict[str, list[float | None]]:
    """Return the values of all queries for JSON; skipped queries are None."""
    return {name: [None if np.isnan(value) else value for value in evaluation[name].tolist()] for name in metrics}


# ---- cells that resume -----------------------------------------------------------------------------------------------

Cell = TypeVar("Cell")


class Cells(Generic[Cell]):
    """Outcomes of a study, a JSON file for each cell beside ``--out``: what is there is not measured again.

    A cell is a frozen dataclass. Its file is named by its fields (but for ``folder``), versions of packages and
    ``settings``: after a change of the code, write to another ``--out``.
    """

    def __init__(self, out: Path, settings: object = None) -> None:
        self.folder, self.settings = out.with_suffix(".cells"), settings
        self.folder.mkdir(parents=True, exist_ok=True)

    def file(self, cell: Cell) -> Path:
        fields = asdict(cell)  # type: ignore[call-overload]
        fields.pop("folder", None)
        key = json.dumps({**fields, "settings": self.settings, "versions": versions()}, sort_keys=True)
        names = (f"{value:g}" if isinstance(value, float) else str(value) for value in fields.values())
        plain = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in "-".join(names))
        return self.folder / f"{plain[:100]}-{hashlib.sha256(key.encode()).hexdigest()[:8]}.json"

    def measure(self, wanted: Sequence[Cell], measure: Callable[[Cell], Any], processes: int) -> dict[Cell, Any]:
        """Measure what is not there yet, several cells at once; return all outcomes."""
        missing = [cell for cell in wanted if not self.file(cell).exists()]
        say(f"{len(wanted)} cells, {len(wanted) - len(missing)} of them measured before, in {self.folder}")
        start = time.perf_counter()
        with pool_of(processes) as pool:
            running = {pool.submit(_measure, measure, cell, self.file(cell)): cell for cell in missing}
            try:
                for done, future in enumerate(concurrent.futures.as_completed(running), 1):
                    left = (time.perf_counter() - start) / done * (len(missing) - done)
                    say(f"[{done}/{len(missing)}] {running[future]}: {future.result():.1f} s; about {left:.0f} s left")
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return {cell: json.loads(self.file(cell).read_text()) for cell in wanted}


def _measure(measure: Callable[[Any], Any], cell: Any, path: Path) -> float:
    start = time.perf_counter()
    write(path, json.dumps(measure(cell)))
    return time.perf_counter() - start


def write(path: Path, text: str) -> None:
    """Write a file that appears only once it is complete."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_text(text)
    unfinished.replace(path)


Measured = TypeVar("Measured", bound=float | tuple[float, ...])


def measured(jobs: Sequence[Any], measure: Callable[[Any], Measured], processes: int, out: Path) -> Iterator[Measured]:
    """Yield what each job measures, in their order; a line of ``out`` is written as soon as it is known."""
    with out.open("w", newline="") as file, pool_of(processes) as pool:
        writer = csv.writer(file)
        for number, (job, value) in enumerate(zip(jobs, pool.map(measure, jobs, chunksize=4), strict=True), 1):
            writer.writerow([*job, *(value if isinstance(value, tuple) else (value,))])
            file.flush()
            if number % 100 == 0 or number == len(jobs):
                print(f"{number} of {len(jobs)} models", flush=True)
            yield value


# ---- intervals and paired tables -------------------------------------------------------------------------------------


def half_width(values: Any) -> float:
    """Return half of Student's 95% interval of a mean; NaN for fewer than two values."""
    known = np.asarray(values, float)
    known = known[~np.isnan(known)]
    if known.size < 2:
        return float("nan")
    return float(t.ppf(0.975, known.size - 1) * known.std(ddof=1) / np.sqrt(known.size))


def difference(gaps: Any) -> str:
    """Return the mean of paired differences with its 95% interval, as in all tables."""
    return f"{np.nanmean(gaps):+.4f} ± {half_width(gaps):.4f}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [header, *rows]
    texts = ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]
    return "\n".join([texts[0], "|---" * len(header) + "|", *texts[1:]])


Result = tuple[Hashable, Hashable, Hashable, float]
"""Setting (a row of the table), method (a column), trial, and what was measured."""


def paired_table(results: Sequence[Result], header: Sequence[str], baseline: Hashable) -> str:
    """One row per setting: the mean of the baseline, and the mean paired difference of every other method to it.

    The interval is over trials; trials share queries, so it says little about other queries.
    """
    values: dict[Any, dict[Any, dict[Hashable, float]]] = defaultdict(lambda: defaultdict(dict))
    for setting, method, trial, value in results:
        values[setting][method][trial] = value
    methods = [name for name in dict.fromkeys(method for _, method, _, _ in results) if name != baseline]
    rows = []
    for setting, by_method in values.items():
        plain = by_method[baseline]
        cells = [*(f"{part:g}" if isinstance(part, float) else str(part) for part in setting)]
        cells.append(f"{np.mean(list(plain.values())):.4f}")
        cells += [difference([by_method[method][trial] - plain[trial] for trial in plain]) for method in methods]
        rows.append(cells)
    return markdown([*header, str(baseline), *map(str, methods)], rows)


def tables_by_data(values: dict[tuple[str, str], np.ndarray], baseline: str) -> str:
    """Two tables, a row per method and a column per data set: means, and differences to the baseline by query.

    ``values`` are those of test queries, by method and data set.
    """
    methods, sets = (list(dict.fromkeys(column)) for column in zip(*values, strict=True))
    means = [[f"`{name}`", *(f"{np.nanmean(values[name, data]):.4f}" for data in sets)] for name in methods]
    gaps = [
        [f"`{name}`", *(difference(values[name, data] - values[baseline, data]) for data in sets)]
        for name in methods
        if name != baseline
    ]
    return "\n\n".join([markdown(["", *sets], means), markdown([f"less `{baseline}`", *sets], gaps)])


# ---- clocks, memory, targets -----------------------------------------------------------------------------------------

Call = Callable[[], object]
SHORT = 0.5  # seconds: shorter calls are timed after one that is not
PAUSE = 0.02  # seconds: threads of OpenMP go on spinning after their work is done, and would take ours a core


class Times:
    """What each contestant took, in turns: seconds on the wall, and CPU seconds of the least busy run."""

    def __init__(self, contestants: dict[str, Call], rounds: int, *, warm: int = 1) -> None:
        self.wall: dict[str, list[float]] = {name: [] for name in contestants}
        self.cpu: dict[str, float] = dict.fromkeys(contestants, np.inf)
        for number in range(-warm, rounds):
            for name, call in contestants.items():
                time.sleep(PAUSE)
                if self.wall[name] and self.wall[name][-1] < SHORT:
                    call()  # after the pause caches are cold and threads asleep, for whoever is first
                start, busy = time.perf_counter(), time.process_time()
                call()
                if number >= 0:
                    self.wall[name].append(time.perf_counter() - start)
                    self.cpu[name] = min(self.cpu[name], time.process_time() - busy)
        self.median = {name: statistics.median(taken) for name, taken in self.wall.items()}
        self.quickest = {name: min(taken) for name, taken in self.wall.items()}

    def take(self, part: str, name: str) -> None:
        """Take one contestant's time from another's: round by round for the median."""
        both = zip(self.wall[name], self.wall[part], strict=True)
        self.median[name] = statistics.median(whole - rest for whole, rest in both)
        self.quickest[name] -= self.quickest[part]
        self.cpu[name] -= self.cpu[part]

    def ratios(self, name: str, other: str, scale: float = 1.0) -> tuple[float, float, float]:
        """How many times longer the first took: by medians, by quickest runs, by CPU time."""
        kinds = (self.median, self.quickest, self.cpu)
        return tuple(scale * kind[name] / kind[other] for kind in kinds)  # type: ignore[return-value]


# With these in its environment a process gives every array pages of its own, which go back to the system with it.
OWN_PAGES = {"MALLOC_MMAP_THRESHOLD_": "65536"}


def measures_memory() -> bool:
    """Whether the system keeps the high-water mark of a process: Linux does."""
    return Path("/proc/self/clear_refs").exists()


def peak_memory(call: Call) -> float:
    """Bytes that a call takes at its peak beyond what the process held before; needs :data:`OWN_PAGES`."""

    def resident(line: str) -> float:
        text = Path("/proc/self/status").read_text()
        return 1024.0 * float(text.split(f"{line}:")[1].split()[0])

    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    call()
    return resident("VmHWM") - before


class Verdicts:
    """Ratios beside their targets, and how many were missed."""

    def __init__(self) -> None:
        self.missed: list[str] = []
        self.met = 0

    def least(self, what: str, ratio: float, target: float) -> str:
        return self.judge(what, ratio, ratio >= target, f"at least {target:g}")

    def most(self, what: str, ratio: float, target: float) -> str:
        return self.judge(what, ratio, ratio <= target, f"at most {target:g}")

    def judge(self, what: str, ratio: float, fine: bool, target: str) -> str:
        if fine:
            self.met += 1
            return f"{target}: pass"
        self.missed.append(f"{what}: {ratio:.2f}, wanted {target}")
        return f"{target}: MISS"
