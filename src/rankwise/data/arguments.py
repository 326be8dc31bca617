"""What functions take: columns of a data set as keyword arguments, and texts that have a data set beside them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypedDict, runtime_checkable

from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset


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


@runtime_checkable
class Texts(Protocol):
    """Lists of texts, as :class:`rankwise.rerank.Lists`: all that is not text lies beside them."""

    @property
    def data(self) -> "RankingDataset":
        """Labels, offsets, ids and features of the documents."""
        ...

    @property
    def candidates(self) -> str:
        """How many documents a query has, and which."""
        ...


def ranking_data(data: "RankingDataset | Texts") -> "RankingDataset":
    """Return the data set itself, or the one beside texts."""
    return data.data if isinstance(data, Texts) else data
