"""Training a student with a teacher: ``train --teacher``."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rankwise import check
from rankwise.arrays import Keywords
from rankwise.cli.reading import Reading

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset
    from rankwise.rankers.base import Ranker


def load_teacher(path: Path | None, beside: Mapping[str, object], without: Mapping[str, object]) -> "Any | None":
    """Load the teacher, if there is one; refuse what does not go with it, or is nothing without it."""
    if path is None:
        for option, value in beside.items():
            if value is not None:
                raise check.error(f"{option} needs a teacher", got=f"{option} {value}", hint="add --teacher MODEL")
        return None
    for option, value in without.items():
        if value is not None:
            raise check.error(
                f"a teacher does not go with {option}",
                got=f"--teacher {path} {option} {value}",
                hint="write its scores into a column of the data, and use --teacher-score COLUMN with "
                "--objective '0.5*distil + 0.5*lambdarank'",
            )
    from rankwise.rankers.table import load

    return load(path)


def distil(
    student: "Ranker",
    teacher: object,
    weight: float | None,
    unlabelled: str | None,
    parts: "tuple[RankingDataset | None, RankingDataset | None]",
    reading: Reading,
    *,
    resume: bool,
) -> "Ranker":
    """Train a student with a teacher; gives the trained student."""
    import rankwise as rw

    more: Keywords = {} if weight is None else {"weight": weight}
    if unlabelled is not None:
        more["unlabelled"] = reading.data(unlabelled, tables={"to_score": True})
    train = cast("RankingDataset", parts[0])
    return rw.distilled(teacher, student, **more).fit(train, parts[1], resume=resume).ranker_
