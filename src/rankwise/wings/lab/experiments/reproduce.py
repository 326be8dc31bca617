"""Experiments from Python, as the command line has them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankwise.base.tables import Table
from rankwise.wings.lab.experiments.results import Results
from rankwise.wings.lab.experiments.running.progress import Report
from rankwise.wings.lab.experiments.running.run import run
from rankwise.wings.lab.experiments.spec import Spec, find_spec, recipes


def reproduce(
    experiment: str | Path | Spec,
    folder: str | Path | None = None,
    *,
    quick: bool = False,
    jobs: int | None = None,
    dask: str | None = None,
    data_folder: str | Path | None = None,
    progress: Report | None = None,
    **changes: Any,
) -> Results:
    """Run an experiment: one that comes with rankwise by its name, a ``.toml`` file, or a :class:`Spec`.

    Trials are kept in ``folder`` (``results/`` and the name of the experiment), and what is there is not computed
    again. ``quick`` takes the small form; ``changes`` are keys of the description, such as ``trials=10``,
    ``data=["mq2008"]`` or ``settings={"rounds": 100}``. In a script, call it below ``if __name__ == "__main__":``,
    because trials run in worker processes, or set ``jobs=1``. ``progress`` is called after every trial.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     reproduce(
    ...         "2021-table1", folder, quick=True, jobs=1, trials=2, queries=40,
    ...         data=["synthetic(n_docs=15)"], settings={"rounds": 5, "threads": 1},
    ...     ).methods
    ['ListNet', 'LambdaMART', 'XE-NDCG']
    """
    spec = experiment_spec(experiment, quick=quick, changes=changes)
    folder = results_folder(spec, quick=quick) if folder is None else folder
    return run(spec, folder, jobs=jobs, dask=dask, data_folder=data_folder, progress=progress, estimate=False)


def experiment_spec(
    experiment: str | Path | Spec, *, quick: bool = False, changes: Mapping[str, object] | None = None
) -> Spec:
    """Find the description of an experiment, in its small form if ``quick``, with some of its keys changed."""
    spec = experiment if isinstance(experiment, Spec) else find_spec(str(experiment))
    spec = spec.quickly() if quick else spec
    return spec.changed(changes) if changes else spec


def results_folder(spec: Spec, *, quick: bool = False) -> Path:
    """Where results go unless a folder is named; those of the small form lie apart.

    >>> results_folder(find_spec("2021-table1"), quick=True).as_posix()
    'results/2021-table1-quick'
    """
    return Path("results") / (f"{spec.name}-quick" if quick else spec.name)


def included() -> list[Spec]:
    """Return the experiments that come with rankwise."""
    return [find_spec(name) for name in recipes()]


def included_table() -> Table:
    """Return a table of these: paper, data, and what they cost."""
    rows = tuple(
        (spec.name, spec.paper.partition(":")[0], spec.title, ", ".join(spec.paper_data or spec.data), spec.cost)
        for spec in included()
    )
    note = (
        "Cost: the full form on synthetic data, on two cores; --estimate gives it for your data. --quick takes a "
        "minute or two. --data runs it on other data."
    )
    header = ("name", "paper by", "what", "the paper's data", "cost")
    return Table(header=header, rows=rows, align="lllll", notes=(note,))
