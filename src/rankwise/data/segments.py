"""Segments of queries, such as devices, markets, or head, torso and tail: the name of each query's segment."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Array, Floats, Ids, Offsets
from rankwise.base.sparse import dense

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset

Labels = dict[str, NDArray[np.object_]]
"""Name of a kind of segments, such as "device" -> the name of each query's segment."""
Segment = str | int | Mapping[Any, Any] | ArrayLike | Sequence[Any]
"""A feature of queries; a mapping from queries, or an array, to values; "traffic"; or a list of several."""
TRAFFIC = "traffic"
PARTS = ("head", "torso", "tail")


def segments_of(
    segment: Segment,
    ids: Ids,
    *,
    weights: Array | None = None,
    data: "RankingDataset | None" = None,
    known: Mapping[str, Any] | None = None,
) -> Labels:
    """Return the segment of each query, by the name of the kind.

    ``segment`` is the name (or number) of a feature of ``data`` that is the same for all documents of a query, such as
    ``"device"``; a mapping from query ids to values; an array with a value for each query; or ``"traffic"``, by
    ``weights``, see :func:`traffic_segments`. A list has several of these, and ``{"device": …, "market": …}`` names
    mappings and arrays; numbers of the name traffic are counts. ``known`` are kinds that were found before.

    >>> segments_of({"a": "phone", "b": "desktop"}, np.array(["b", "a"]))
    {'segment': array(['desktop', 'phone'], dtype=object)}
    """
    several = isinstance(segment, list | tuple) and len(segment) != ids.size
    if several and not cast("list[Any]", segment):
        raise check.error("segments need a feature, or a value for each query", got="none")
    found: Labels = {}
    for one in cast("list[Any]", segment) if several else [cast("Any", segment)]:
        named = (
            isinstance(one, Mapping) and bool(one) and all(np.ndim(v) or isinstance(v, Mapping) for v in one.values())
        )
        for name, values in one.items() if named else [(getattr(one, "name", None), one)]:
            if isinstance(values, str | int | np.integer) and not named:
                name, labels = _by_name(values, ids, weights, data, known or {})
            else:
                each = _looked_up(values, ids) if isinstance(values, Mapping) else _of_queries(values, ids)
                counts = name == TRAFFIC and all(isinstance(value, Real) for value in each)
                labels = traffic_segments(each) if counts else _names(each)
            title = base = str(name or "segment")
            while title in found:
                title = f"{base} {len(found) + 1}"
            found[title] = labels
    return found


def traffic_segments(counts: Any) -> Any:
    """Return whether queries are of the head, the torso or the tail: each has about a third of the traffic.

    ``counts`` says how often each query is asked: a number for each query, or a mapping from query ids, and so is what
    is returned. The head is the fewest of the most frequent queries that have a third of the traffic, the torso those
    after it up to two thirds, and the tail all others. Queries with the same count are in the same segment.

    >>> traffic_segments({"shoes": 60, "red shoes": 30, "red shoes 42": 5, "boots 38 brown": 5})
    {'shoes': 'head', 'red shoes': 'torso', 'red shoes 42': 'tail', 'boots 38 brown': 'tail'}
    """
    if isinstance(counts, Mapping):
        return dict(zip(counts, traffic_segments([*counts.values()]).tolist(), strict=True))
    numbers = np.asarray(counts, np.float64)
    numbers = check.query_weights(numbers, numbers.size)
    sizes, place = np.unique(-numbers, return_inverse=True)
    mass = np.bincount(place, numbers)
    if sizes.size < 2:
        hint = (
            "`pass segment={'traffic': counts}, of how often each is asked|give queries weights, or a table with the "
            "columns query and traffic, of how often each is asked`"
        )
        what = "head, torso and tail need queries that are asked more often than others"
        raise check.error(what, got="the same weight for all", hint=hint)
    before = (np.cumsum(mass) - mass) / mass.sum()  # traffic of more frequent queries
    return np.array(PARTS, object)[np.minimum((3.0 * before + 1e-9).astype(np.int64), 2)][place]


def naming(listed: Sequence[object]) -> Callable[[float], str]:
    """Return what names the values of a column, by its categories if it has any: no two values alike.

    >>> name = naming(["phone", ""])
    >>> name(0.0), name(1.0), name(np.nan), naming([])(2.0)
    ('phone', 'empty', 'missing', '2')
    """
    texts = [str(value) for value in listed]
    missing, empty = (_unlike(name, texts) for name in ("missing", "empty"))

    def named(value: float) -> str:
        if np.isnan(value):
            return missing
        if texts:
            return texts[int(value)] or empty
        short = f"{value + 0.0:.7g}"  # without the sign of 0
        return short if np.float32(short) == value else f"{value:.9g}"

    return named


def of_documents(values: Floats, named: Callable[[float], str]) -> Any:
    """Return the name of each document's value."""
    kinds, place = np.unique(values, return_inverse=True)
    return np.array([named(value) for value in kinds], object)[place]


def of_lists(names: Any, segment: object, offsets: Offsets, ids: Ids | None, why: str = "") -> Any:
    """Return the name that all documents of a query have; raise where those of a query have several."""
    first = names[offsets[:-1]]
    changes = np.flatnonzero(names != np.repeat(first, np.diff(offsets)))
    if changes.size:
        raise check.error(
            f"a segment must be the same for all documents of a query{why}",
            got=f"{names[changes[0]]!r} of {segment!r}",
            where=check.query_of_row(int(changes[0]), offsets, ids),
            hint="name a feature of queries",
        )
    return first


def _by_name(
    name: Any, ids: Ids, weights: Array | None, data: "RankingDataset | None", known: Mapping[str, Any]
) -> tuple[str, Any]:
    """Return the title and the segments of a kind that was found before, a feature, or traffic."""
    features = () if data is None or data.feature_names is None else data.feature_names
    if name in known:
        return str(name), known[name]
    if name == TRAFFIC and name not in features:
        return name, traffic_segments(np.ones(ids.size) if weights is None else weights)
    if data is None or (isinstance(name, str) and not features):
        hint = (
            f"`pass segment={{{name!r}: {{query: value, …}}}}|pass a table with a column query and one for each kind`"
        )
        got = f"{name!r}, of {'no data' if data is None else 'data whose features have no names'}"
        raise check.error("a segment is named after a feature of the data", got=got, hint=hint)
    if isinstance(name, str):
        number = features.index(check.choice("segment", name, features))
    else:
        number = check.columns("segment", [name], data.n_features)[0]
    values = dense(data.features[:, [number]])[:, 0]
    names = of_documents(values, naming(data.categories.get(number, ())))
    return str(features[number] if features else name), of_lists(names, name, data.offsets, data.query_ids)


def _looked_up(values: Mapping[Any, Any], ids: Ids) -> list[Any]:
    """Return the value of each query in a mapping, whose keys may be ids or their texts."""
    found = {str(query): value for query, value in values.items()}
    for query in ids.tolist():
        if str(query) not in found:
            hint = "give each query of the data a segment"
            raise check.error(
                "a segment is missing", got=f"{len(found):,} queries", where=f"query {query!r}", hint=hint
            )
    return [found[str(query)] for query in ids.tolist()]


def _of_queries(values: Any, ids: Ids) -> list[Any]:
    """Return the value of each query from an array, or a column of a table."""
    column = np.asarray(values, object if isinstance(values, list | tuple) else None)
    if column.shape != ids.shape:
        hint = "pass the name of a feature, a mapping from query ids to values, or an array with a value for each query"
        got = f"shape {column.shape} for {ids.size:,} queries"
        raise check.error("segments must be one value per query", got=got, hint=hint)
    return column.tolist()  # type: ignore[no-any-return]


def _names(values: Sequence[Any]) -> Any:
    """Return the names of values of queries: texts as they are, numbers as they are written in short."""
    texts = {value for value in values if isinstance(value, str)}
    of_number, missing, empty = naming([]), _unlike("missing", [*texts]), _unlike("empty", [*texts])

    def named(value: Any) -> str:
        if value is None or value != value:
            return missing
        if isinstance(value, int | float) and not isinstance(value, bool):
            return of_number(value)
        return str(value) or empty

    return np.array([named(value) for value in values], object)


def _unlike(name: str, names: Sequence[str]) -> str:
    """Return a name in as many parentheses as none of the others has.

    >>> _unlike("missing", ["a", "missing"])
    '(missing)'
    """
    return _unlike(f"({name})", names) if name in names else name
