"""Many trainings in several processes, and tables of how methods differ on the same trials."""

import csv
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy.stats import t

from rankwise.pools import processes as pool_of

Result = tuple[Hashable, Hashable, Hashable, float]
"""Setting (a row of the table), method (a column), trial, and what was measured."""

Measured = TypeVar("Measured", bound=float | tuple[float, ...])


def measured(jobs: Sequence[Any], measure: Callable[[Any], Measured], processes: int, out: Path) -> Iterator[Measured]:
    """Give what each job measures, in their order; a line of ``out`` is written as soon as it is known."""
    with out.open("w", newline="") as file, pool_of(processes) as pool:
        writer = csv.writer(file)
        for number, (job, value) in enumerate(zip(jobs, pool.map(measure, jobs, chunksize=4), strict=True), 1):
            writer.writerow([*job, *(value if isinstance(value, tuple) else (value,))])
            file.flush()
            if number % 100 == 0 or number == len(jobs):
                print(f"{number} of {len(jobs)} models", flush=True)
            yield value


def table(results: Sequence[Result], header: Sequence[str], baseline: Hashable) -> str:
    """One row per setting: the mean of the baseline, and the mean paired difference of every other method to it.

    The interval is Student's, of 95%, over trials; trials share queries, so it says little about other queries.
    """
    values: dict[Any, dict[Any, dict[Hashable, float]]] = defaultdict(lambda: defaultdict(dict))
    for setting, method, trial, value in results:
        values[setting][method][trial] = value
    methods = [name for name in dict.fromkeys(method for _, method, _, _ in results) if name != baseline]
    names = [*header, str(baseline), *(str(name) for name in methods)]
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for setting, by_method in values.items():
        plain = by_method[baseline]
        cells = [*(f"{part:g}" if isinstance(part, float) else str(part) for part in setting)]
        cells.append(f"{np.mean(list(plain.values())):.4f}")
        for method in methods:
            gaps = np.array([by_method[method][trial] - plain[trial] for trial in plain])
            half = t.ppf(0.975, gaps.size - 1) * gaps.std(ddof=1) / np.sqrt(gaps.size) if gaps.size > 1 else np.nan
            cells.append(f"{gaps.mean():+.4f} ± {half:.4f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
