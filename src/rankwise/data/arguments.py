"""Columns of a data set as keyword arguments, for type checkers and editors: what may be passed, and what it is."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from numpy.typing import ArrayLike


class Columns(TypedDict, total=False):
    """What documents and queries may have beside features, labels and ids of queries."""

    weights: ArrayLike | None
    document_ids: ArrayLike | None
    document_weights: ArrayLike | None
    groups: ArrayLike | None
    teacher_scores: ArrayLike | None
    feature_names: Sequence[str] | None
    categorical: Sequence[int]
    categories: Mapping[int, Sequence[object]] | None
    propensities: ArrayLike | None
    positions: ArrayLike | None
    judged: ArrayLike | None
    rows: ArrayLike | None


class NamedColumns(Columns, total=False):
    """The same, and the ids of queries."""

    query_ids: ArrayLike | None


class Changes(NamedColumns, total=False):
    """All that a data set has."""

    features: ArrayLike
    labels: ArrayLike
    offsets: ArrayLike


class Roles(TypedDict, total=False):
    """Which column of a table is what; see :func:`rankwise.data.frames.from_frame`."""

    query: str
    label: str
    features: Sequence[str] | None
    weight: str | None
    document: str | None
    document_weight: str | None
    groups: str | None
    teacher_score: str | None
    propensity: str | None
    position: str | None
    judged: str | None
    categorical: Iterable[str]
    categories: Mapping[str, Sequence[object]] | None
    sort: bool
    to_score: bool
