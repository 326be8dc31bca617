"""What there is to compute: every method in every trial, at every level, on every data set."""

from pathlib import Path

from rankwise import check
from rankwise.experiments.running.sources import Source
from rankwise.experiments.running.trial import Cell
from rankwise.experiments.spec import Spec


def cells_of(spec: Spec, *, data_folder: str | Path | None = None, threads: int = 1) -> list[Cell]:
    """List everything that is to be computed: whole trials first, so that what is there can be compared early."""
    folder = None if data_folder is None else str(data_folder)
    columns = tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in spec.columns.items())
    sources = [Source(text, folder, spec.queries, spec.protocol == "ratings", columns) for text in spec.data]
    names = [source.name for source in sources]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise check.error("two data sets have the same name", got=twice, hint="name one of them: NAME=path/to/file")
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
        spec.ranker_of(cell.method, cell.source.name, cell.level).build()
    return cells
