"""Click logs by name: tables, or files of User Behavior Insights, which are known by their endings."""

from pathlib import Path
from typing import Annotated

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import Option, Unset
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.logs.reading import read
from rankwise.wings.clicks.logs.ubi import read_ubi

_UBI = (".json", ".ndjson", ".jsonl")
_OF_UBI = ("ranker", "segment")
_COLUMN = Option(metavar="COLUMN")
_SYSTEM = Option("system", metavar="COLUMN")


def read_log(
    source: str,
    *,
    query: Annotated[str, "The query.", _COLUMN] = "query",
    document: Annotated[str, "The document.", _COLUMN] = "document",
    impression: Annotated[str, "The id of one display of a list.", _COLUMN] = "impression",
    position: Annotated[str, "The position.", _COLUMN] = "position",
    clicked: Annotated[
        str | None, "1 for a click and 0 for none; of UBI, the actions that count as clicks, between commas.",
        Unset("clicked; click"), _COLUMN,
    ] = None,
    ranker: Annotated[str | None, "The system that ordered the list; of UBI, a field.", _SYSTEM] = None,
    user: Annotated[str | None, "The user.", _COLUMN] = None,
    segment: Annotated[str | None, "The part of the traffic, such as the device.", _COLUMN] = None,
    time: Annotated[
        str | None, "The time: dates, ISO 8601, or seconds since 1970; of UBI, the timestamp.", _COLUMN
    ] = None,
    weight: Annotated[str | None, "The number of impressions that a row stands for.", Unset("1"), _COLUMN] = None,
) -> Log:  # fmt: skip
    """Read a log of :func:`rankwise.clicks.read`, or, by the ending, of :func:`rankwise.clicks.read_ubi`.

    Files of User Behavior Insights may be several, between commas.
    """
    optional = {"ranker": ranker, "user": user, "segment": segment, "time": time, "weight": weight}
    named: Keywords = {role: name for role, name in optional.items() if name is not None}
    files = [part.strip() for part in source.split(",") if part.strip()]
    if all(map(_is_ubi, files)):
        actions = [part.strip() for part in (clicked or "click").split(",")]
        return read_ubi(*files, clicked=actions, **{role: named[role] for role in _OF_UBI if role in named})
    if len(files) > 1:
        raise check.error("several files between commas are of User Behavior Insights", got=source)
    named |= {"query": query, "document": document, "impression": impression, "position": position}
    return read(source, clicked=clicked or "clicked", **named)


def _is_ubi(path: str) -> bool:
    return Path(path.removesuffix(".gz").removesuffix(".zst")).suffix.lower() in _UBI
