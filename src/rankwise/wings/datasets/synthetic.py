"""Synthetic ranking data that behaves like MSLR-WEB30K, for demos, tests, benchmarks and methods under study.

A document has hidden traits (how well its body, title and anchor texts match, its authority, freshness, ...), a query
has an intent, an ease and its own scales. What a document is worth, its *utility*, is not linear in the traits: either
of two texts may match, authority only helps a page that is on topic, spam counts beyond a limit, a length can be too
short and too long, and whether fresh is good depends on the intent. Judges see the utility through noise and give the
grades 0 to 4. Features see the traits: as counts, heavy tails, ratios, flags, shifted and scaled by query, some
of them redundant and some of them unrelated to anything.

Further goals have utilities of their own: cos(angle) times the utility plus sin(angle) times another function of the
traits, which has the same spread within queries and no correlation with the utility there.

Every number is keyed by (seed, query, document, column): query 5 is the same in a data set of ten queries and in one of
ten thousand, column 5 the same among 30 features and among 136, whatever the threads.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise import RankingDataset, check
from rankwise.base import threads
from rankwise.base.arrays import offsets_of
from rankwise.base.compiling import kernel
from rankwise.base.stream import Stream, philox, uniform_pair
from rankwise.data.columns import check_names

MSLR_GRADES = (0.52, 0.32, 0.134, 0.018, 0.008)
"""Shares of the grades 0 to 4, close to those of MSLR-WEB30K."""

TRAITS = ("body", "title", "anchor", "authority", "fresh", "spam", "length", "popular")
_BODY, _TITLE, _ANCHOR, _AUTHORITY, _FRESH, _SPAM, _LENGTH, _POPULAR = range(8)
QUERY_TRAITS = ("intent", "rarity", "terms")
_INTENT, _RARITY, _TERMS, _EASE, _SHIFT = range(5)

KINDS = ("count", "heavy", "tfidf", "bm25", "ratio", "flag", "lm", "query")
_COUNT, _HEAVY, _TFIDF, _BM25, _RATIO, _FLAG, _LM, _QUERY = range(8)

_SPREAD = 0.6  # standard deviation of the logarithm of list lengths; .61 in the MSLR samples
_REFERENCE = (8192, 8)  # queries and documents each, of the sample from which the limits between grades are taken
_FIRST_COLUMN = 8  # blocks of draws before this one belong to the document's traits and its judge
_LOW, _HALF, _16, _32 = (np.uint64(word) for word in (0xFFFFFFFF, 0xFFFF, 16, 32))
_UNIT = np.sqrt(3.0) / 65536.0  # the sum of four uniforms on 0 to 65535 has mean 131070 and variance 65536² / 3


def synthetic(
    n_queries: int = 300,
    n_features: int = 30,
    *,
    n_docs: float = 120.0,
    noise: float = 0.8,
    grades: Sequence[float] = MSLR_GRADES,
    goals: Mapping[str, float] | None = None,
    seed: int = 0,
) -> RankingDataset:
    """Return MSLR-like ranking data.

    List lengths are log-normal with a mean of ``n_docs`` (at least 2, at most 20 times the mean). ``noise`` is the
    judges' standard deviation, in units in which the utility of a query's documents has one of about 1: with 0 the
    utility decides the grade, and an ideal ranker (:func:`synthetic_ideal`) reaches NDCG 1. ``grades`` are the shares
    of the grades 0, 1, ... over many queries; single queries are easier or harder. Ten columns show the traits that
    matter, one each; later columns repeat, mix or have nothing to do with them.

    ``goals`` adds further labels, ``more_labels``, that conflict with the first by a set angle. It maps their names to
    angles in degrees: within queries, the utility of a goal has a correlation of cos(angle) with that of the labels, so
    0 is agreement up to the judges' noise, 90 is independence, and 180 turns the ideal ranking upside down. All goals
    lie in one plane: two of them conflict by the difference of their angles.

    >>> data = synthetic(n_queries=100, seed=1)
    >>> data
    RankingDataset(100 queries, 11,632 documents, 30 features, labels 0 to 4)
    >>> data.feature_names[:4]
    ('body_tfidf', 'title_bm25', 'anchor_count', 'authority_heavy')
    >>> synthetic(n_queries=100, goals={"purchase": 60}, seed=1)
    RankingDataset(100 queries, 11,632 documents, 30 features, labels 0 to 4, more labels: purchase)
    """
    n_queries = check.integer("n_queries", n_queries, least=1)
    n_features = check.integer("n_features", n_features, least=1)
    n_docs = check.number("n_docs", n_docs, least=2.0, most=100_000.0)
    noise = check.number("noise", noise, least=0.0, most=1000.0)
    check.affordable("synthetic data", n_queries * n_docs * n_features, hint="set n_queries= or n_docs= lower")
    shares = check.distribution("shares of the grades", grades)
    world = Stream(seed, query_ids=np.arange(n_queries)).child("synthetic")

    first, second = world.child("sizes").per_query(n_queries, 2).T
    normal = np.sqrt(-2.0 * np.log(first)) * np.cos(2.0 * np.pi * second)
    lengths = np.exp(np.log(n_docs) - _SPREAD**2 / 2.0 + _SPREAD * normal)
    sizes = np.rint(lengths.clip(2.0, 20.0 * n_docs)).astype(np.int64)
    offsets = offsets_of(sizes)

    check_names("goals", goals or {})
    angles = {name: check.number(f"the angle of {name!r}", angle) for name, angle in (goals or {}).items()}
    labels, *more = (_grades(world, offsets, noise, shares, *goal) for goal in (("", 0.0), *angles.items()))
    columns = _columns(world, n_features)
    return RankingDataset(
        _features(world, offsets, columns),
        labels,
        offsets,
        query_ids=np.arange(n_queries),
        feature_names=columns.names,
        more_labels=dict(zip(angles, more, strict=True)) or None,
    )


def synthetic_ideal(data: RankingDataset, *, angle: float = 0.0, seed: int = 0) -> NDArray[np.float64]:
    """Return the scores of a ranker that knows each document's utility: what judges would see without noise.

    ``data`` are from :func:`synthetic` with that seed, or a part of its queries, such as the test part of a split.
    Within a query the expected gain grows with the utility, so on average no ranker does better. ``angle`` is that of
    one of the ``goals``, for its labels.

    >>> data = synthetic(n_queries=100, seed=1)
    >>> synthetic_ideal(data, seed=1)[:3].round(2)
    array([-0.87,  1.22,  0.44])
    """
    ids = data.query_ids
    if ids is not None and ids.dtype.kind in "iu":
        world = Stream(seed, query_ids=ids).child("synthetic")
        column = _features(world, data.offsets, _columns(world, 1))
        if np.allclose(column[:, 0], data.features[:, 0], rtol=1e-5):
            return _judge(world, data.offsets, 0.0, "", _factors(check.number("angle", angle)))[0]
    raise check.error(
        "the ideal scores are known only for documents that synthetic made, in their order",
        got=f"other documents than those of seed {seed}",
        where=f"{data!r}",
        hint="pass the seed that made the data, and the data before documents or the first feature are changed",
    )


class _Columns(NamedTuple):
    """The generator of each feature: its kind, its traits, and their weights."""

    names: tuple[str, ...]
    kind: NDArray[np.int64]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    mix: NDArray[np.float64]  # (n_features, 3): weights of both traits and of the feature's own noise; squares sum to 1


# The ten columns that show everything that matters: kind, trait.
_PLAIN = (
    *((_TFIDF, _BODY), (_BM25, _TITLE), (_COUNT, _ANCHOR), (_HEAVY, _AUTHORITY), (_LM, _FRESH)),
    *((_RATIO, _SPAM), (_HEAVY, _LENGTH), (_COUNT, _POPULAR), (_QUERY, _INTENT), (_QUERY, _TERMS)),
)


def _columns(world: Stream, n_features: int) -> _Columns:
    """Draw the kind and traits of each column: column j depends on the seed and on j alone."""
    draws = Stream(world.seed, path=world.path).child("columns").per_query(n_features, 6)
    columns = []
    for j, (sort, form, one, other, clear, share) in enumerate(draws.tolist()):
        kind, first, second = int(form * 7), int(one * 8), int(other * 8)
        if j < len(_PLAIN):
            kind, first = _PLAIN[j]
            trait, clarity, share = (QUERY_TRAITS if kind == _QUERY else TRAITS)[first], 0.97, 0.0
        elif sort < 0.35:  # one trait again, less clearly
            trait, clarity, share = TRAITS[first], 0.5 + 0.4 * clear, 0.0
        elif sort < 0.6:  # a mixture of two
            trait, clarity, share = f"{TRAITS[first]}_{TRAITS[second]}", 0.6 + 0.3 * clear, 0.3 + 0.4 * share
        elif sort < 0.65:  # a property of the query
            kind, first = _QUERY, int(one * 3)
            trait, clarity, share = QUERY_TRAITS[first], 0.8, 0.0
        else:
            trait, clarity, share = "nothing", 0.0, 0.0
        parts = np.array([1.0 - share, share]) * clarity / np.hypot(1.0 - share, share)
        name = f"query_{trait}" if kind == _QUERY else f"{trait}_{KINDS[kind]}"
        mix = (*parts, np.sqrt(1.0 - clarity**2))
        columns.append((name if j < len(_PLAIN) else f"{name}_{j}", kind, first, second, mix))
    names, *arrays = zip(*columns, strict=True)
    return _Columns(names, *map(np.array, arrays))


def _grades(
    world: Stream, offsets: NDArray[np.int64], noise: float, shares: NDArray[np.float64], goal: str, angle: float
) -> NDArray[np.int64]:
    """Return the grades of a goal; limits between them depend on noise, shares and angle, and not on the data."""
    factors = _factors(angle)
    _, reference = _judge(*_reference(), noise, goal, factors)
    limits = np.quantile(reference, np.cumsum(shares)[:-1].clip(0.0, 1.0))
    return np.searchsorted(limits, _judge(world, offsets, noise, goal, factors)[1], side="right")


def _reference() -> tuple[Stream, NDArray[np.int64]]:
    """Return the stream and offsets of a fixed sample."""
    n_queries, size = _REFERENCE
    return Stream(0).child("reference"), np.arange(n_queries + 1) * size


def _factors(angle: float) -> tuple[float, float]:
    """Return the factors of :func:`_utility` and :func:`_other_utility` in the utility of a goal."""
    if angle == 0.0:
        return 1.0, 0.0
    both = [_judge(*_reference(), 0.0, "", factors)[0].reshape(_REFERENCE) for factors in ((1.0, 0.0), (0.0, 1.0))]
    utility, other = ((values - values.mean(axis=1, keepdims=True)).ravel() for values in both)
    slope = utility @ other / (utility @ utility)
    across = np.sin(np.radians(angle)) * np.linalg.norm(utility) / np.linalg.norm(other - slope * utility)
    return float(np.cos(np.radians(angle)) - slope * across), float(across)


def _judge(
    world: Stream, offsets: NDArray[np.int64], noise: float, goal: str, factors: tuple[float, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each document's utility, and the judge's view of it: with noise, which is another one for each goal."""
    utility, judged = np.empty(int(offsets[-1])), np.empty(int(offsets[-1]))
    purpose = goal or "first"
    keys = world.child("query").key, world.child("document").key, world.child("goal").child(purpose).key
    queries, work = world.queries(offsets.size - 1), 200.0 * np.diff(offsets)
    threads.over_queries(_fill_judged, offsets, keys, queries, noise, goal != "", factors, utility, judged, work=work)
    return utility, judged


def _features(world: Stream, offsets: NDArray[np.int64], columns: _Columns) -> NDArray[np.float32]:
    out = np.empty((int(offsets[-1]), columns.kind.size), np.float32)
    keys = world.child("query").key, world.child("document").key
    queries = world.queries(offsets.size - 1)
    work = 20.0 * columns.kind.size * np.diff(offsets)
    threads.over_queries(_fill_features, offsets, keys, queries, *columns[1:], out, work=work)
    return out


@kernel(inline=True)
def _normals(key, query, index, block):  # type: ignore[no-untyped-def]
    """Two independent standard normal numbers (Box and Muller)."""
    first, second = uniform_pair(key, query, index, block)
    radius = np.sqrt(-2.0 * np.log(first))
    return radius * np.cos(2.0 * np.pi * second), radius * np.sin(2.0 * np.pi * second)


@kernel
def _query_traits(key, query, traits):  # type: ignore[no-untyped-def]
    traits[_INTENT], traits[_RARITY] = _normals(key, query, 0, 0)
    traits[_TERMS], traits[_EASE] = _normals(key, query, 0, 1)
    traits[_SHIFT], _ = _normals(key, query, 0, 2)
    traits[_TERMS] = np.floor(1.0 + 2.0 * np.exp(0.5 * traits[_TERMS]))


@kernel
def _document_traits(key, query, index, traits):  # type: ignore[no-untyped-def]
    """Eight standard normal traits; the three texts agree to a degree, and popular pages have authority."""
    for pair in range(4):
        traits[2 * pair], traits[2 * pair + 1] = _normals(key, query, index, pair)
    topic, noise = _normals(key, query, index, 4)
    for text in (_BODY, _TITLE, _ANCHOR):
        traits[text] = 0.6 * topic + 0.8 * traits[text]
    traits[_POPULAR] = 0.5 * traits[_AUTHORITY] + np.sqrt(0.75) * traits[_POPULAR]
    return noise


@kernel
def _utility(traits, intent):  # type: ignore[no-untyped-def]
    on_topic = 1.0 / (1.0 + np.exp(-4.0 * traits[_BODY]))
    value = 0.5 * max(traits[_TITLE], traits[_ANCHOR])
    value += on_topic * (0.5 + 0.8 * traits[_AUTHORITY])
    value += 0.6 * np.tanh(2.0 * intent) * traits[_FRESH]
    value -= 0.3 * min((traits[_LENGTH] - 0.3) ** 2, 4.0)
    if traits[_SPAM] > 0.8:
        value -= 1.2
    if traits[_POPULAR] > 1.0 and traits[_SPAM] < 0.8:
        value += 0.7
    return value


@kernel
def _other_utility(traits):  # type: ignore[no-untyped-def]
    return traits[_LENGTH] - 0.7 * traits[_POPULAR] + 0.5 * abs(traits[_FRESH])


@kernel
def _fill_judged(first, last, offsets, keys, queries, noise, further, factors, utility, judged):  # type: ignore[no-untyped-def]
    traits, query_traits = np.empty(8), np.empty(5)
    for q in range(first, last):
        _query_traits(keys[0], queries[q], query_traits)
        ease = 0.7 * query_traits[_EASE]
        if query_traits[_EASE] < -1.9:  # three queries in a hundred find nothing relevant
            ease -= 6.0
        for i in range(offsets[q], offsets[q + 1]):
            error = _document_traits(keys[1], queries[q], i - offsets[q], traits)
            if further:
                error, _ = _normals(keys[2], queries[q], i - offsets[q], 0)
            utility[i] = factors[0] * _utility(traits, query_traits[_INTENT])
            if factors[1] != 0.0:
                utility[i] += factors[1] * _other_utility(traits)
            judged[i] = utility[i] + ease + noise * error


@kernel
def _fill_features(first, last, offsets, keys, queries, kind, one, other, mix, out):  # type: ignore[no-untyped-def]
    traits, query, noise = np.empty(8), np.empty(5), np.empty(kind.size + 1)
    for q in range(first, last):
        _query_traits(keys[0], queries[q], query)
        scale = np.exp(0.5 * query[_RARITY])
        for i in range(offsets[q], offsets[q + 1]):
            _document_traits(keys[1], queries[q], i - offsets[q], traits)
            _column_noise(keys[1], queries[q], i - offsets[q], noise)
            for j in range(kind.size):
                if kind[j] == _QUERY:
                    out[i, j] = query[one[j]]
                else:
                    x = mix[j, 0] * traits[one[j]] + mix[j, 1] * traits[other[j]] + mix[j, 2] * noise[j]
                    out[i, j] = _shown(kind[j], x, scale, query[_SHIFT], query[_TERMS])


@kernel
def _column_noise(key, query, index, noise):  # type: ignore[no-untyped-def]
    """One nearly normal number per column: the sum of four 16-bit uniforms, which needs no logarithm."""
    low, high, index = query & _LOW, query >> _32, np.uint64(index)
    for block in range(noise.size // 2):
        c0, c1, c2, c3 = philox(index, np.uint64(_FIRST_COLUMN + block), low, high, key & _LOW, key >> _32)
        one = (c0 & _HALF) + (c0 >> _16) + (c1 & _HALF) + (c1 >> _16)
        two = (c2 & _HALF) + (c2 >> _16) + (c3 & _HALF) + (c3 >> _16)
        noise[2 * block] = (np.float64(one) - 131070.0) * _UNIT
        noise[2 * block + 1] = (np.float64(two) - 131070.0) * _UNIT


@kernel
def _shown(kind, x, scale, shift, terms):  # type: ignore[no-untyped-def]
    """Return a feature of some kind from a standard normal number, by the scale and shift of the query."""
    if kind == _COUNT:
        return np.floor(np.exp(1.2 * x + 0.4 * shift))
    if kind == _HEAVY:
        return np.exp(1.5 * x)
    if kind == _TFIDF:
        return scale * max(0.0, x + 1.0)
    if kind == _BM25:
        return scale * (4.0 + x) + shift
    if kind == _RATIO:
        return np.rint(4.0 * terms / (1.0 + np.exp(-1.5 * x))) / (4.0 * terms)
    if kind == _FLAG:
        return 1.0 if x > 1.0 else 0.0
    return -scale * np.exp(-0.5 * x) - shift
