"""Typed arguments of data sets and of reading tables, for ``Unpack``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from numpy.typing import ArrayLike


class Columns(TypedDict, total=False):
    """Optional arguments of a data set, except the ids of queries."""

    feature_names: Sequence[str] | None
    categorical: Sequence[int]
    categories: Mapping[int, Sequence[object]] | None
    feature_origin: str | None
    # arguments:begin, from the table of columns by python -m tests.generate
    weights: ArrayLike | None
    document_ids: ArrayLike | None
    document_weights: ArrayLike | None
    groups: ArrayLike | None
    teacher_scores: ArrayLike | None
    document_rewards: ArrayLike | None
    propensities: ArrayLike | None
    positions: ArrayLike | None
    init_scores: ArrayLike | None
    judged: ArrayLike | None
    strata: ArrayLike | None
    inclusion_probabilities: ArrayLike | None
    relevance_probabilities: ArrayLike | None
    rows: ArrayLike | None
    query_texts: ArrayLike | None
    document_texts: ArrayLike | None
    more_labels: Mapping[str, ArrayLike] | None
    # arguments:end


class NamedColumns(Columns, total=False):
    """Optional arguments of a data set."""

    query_ids: ArrayLike | None


class Changes(NamedColumns, total=False):
    """All arguments of a data set."""

    features: ArrayLike
    labels: ArrayLike
    offsets: ArrayLike


class Names(TypedDict, total=False):
    """Names of columns of a table, by role."""

    # roles:begin, from the table of columns by python -m tests.generate
    query: str
    label: str | None
    weight: str | None
    document: str | None
    document_weight: str | None
    groups: str | None
    teacher_score: str | None
    document_reward: str | None
    propensity: str | None
    position: str | None
    init_score: str | None
    judged: str | None
    stratum: str | None
    inclusion_probability: str | None
    relevance_probability: str | None
    query_text: str | None
    document_text: str | None
    more_labels: Mapping[str, str] | None
    # roles:end


class Roles(Names, total=False):
    """Arguments of reading a table; see :func:`rankwise.data.frames.from_frame`."""

    features: Sequence[str] | None
    categorical: Iterable[str]
    categories: Mapping[str, Sequence[object]] | None
    sort: bool
    to_score: bool
    dates: str | None
    drop_duplicates: bool
