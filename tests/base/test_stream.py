"""The random streams: the published generator, good numbers, and nothing but the key decides them."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rankwise.base.stream import Stream, hashed_ids, philox, uniform, uniform_pair
from tests.processes import environment

N = 20_000
OFFSETS = np.array([0, N])

# Random123's kat_vectors for philox4x32 with 10 rounds: counter, key, result.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def plain_philox(counter, key):
    """The generator once more, in Python's own integers."""
    (a, b, c, d), (k, m) = counter, key
    for _ in range(10):
        left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (right >> 32) ^ b ^ k, right % 2**32, (left >> 32) ^ d ^ m, left % 2**32
        k, m = (k + 0x9E3779B9) % 2**32, (m + 0xBB67AE85) % 2**32
    return a, b, c, d


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_philox_matches_the_published_numbers(counter, key, result):
    assert tuple(map(int, philox(*map(np.uint64, counter + key)))) == result
    assert plain_philox(counter, key) == result


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**31 - 1))
def test_a_number_is_a_function_of_key_query_index_and_draw(key, query, index, draw):
    words = plain_philox((index, draw // 2, query % 2**32, query >> 32), (key % 2**32, key >> 32))
    high, low = words[2 * (draw % 2) : 2 * (draw % 2) + 2]
    expected = ((high * 2**32 + low) // 2**12 + 0.5) / 2**52
    assert uniform(np.uint64(key), np.uint64(query), index, draw) == expected
    assert uniform_pair(np.uint64(key), np.uint64(query), index, draw // 2)[draw % 2] == expected


def test_the_ends_are_never_reached():
    # The extreme words of the generator: 0 and 2^64 - 1, through the same formula.
    assert 0.0 < (0 + 0.5) / 2**52
    assert ((2**64 - 1) // 2**12 + 0.5) / 2**52 < 1.0
    numbers = Stream(3).documents(np.array([0, 1_000_000]))
    assert 0.0 < numbers.min() < 1e-5
    assert 1.0 - 1e-5 < numbers.max() < 1.0


def numbers(**changes):
    """N numbers of one query: along the index, unless ``axis`` says along what else."""
    seed, round, query = changes.get("seed", 5), changes.get("round", 0), changes.get("query", 8)
    stream = Stream(seed, round, [query], path=changes.get("path", ()))
    axis = changes.get("axis", "index")
    if axis == "index":
        return stream.documents(OFFSETS, changes.get("draw", 0))
    if axis == "draw":
        return stream.per_query(1, N, changes.get("first", 0))[0]
    return Stream(seed, round, np.arange(N) + query).per_query(N)[:, 0]


@pytest.mark.parametrize("axis", ["index", "draw", "query"])
def test_numbers_are_uniform_along_every_axis(axis):
    sample = numbers(axis=axis)
    assert stats.kstest(sample, "uniform").pvalue > 1e-3
    for scale in (1, 2**10, 2**20):  # high bits, and the bits further down
        counts = np.bincount((sample * scale % 1.0 * 64).astype(int), minlength=64)
        assert stats.chisquare(counts).pvalue > 1e-3
    # Neighbours along the axis are independent as well: pairs fill the square.
    cells = (sample[:-1:2] * 16).astype(int) * 16 + (sample[1::2] * 16).astype(int)
    assert stats.chisquare(np.bincount(cells, minlength=256)).pvalue > 1e-3


@pytest.mark.parametrize(
    "neighbour",
    [
        {"seed": 6},
        {"round": 1},
        {"query": 9},
        {"query": 8 + 2**32},
        {"query": "8"},
        {"draw": 1},
        {"draw": 2},
        {"path": ("order:0",)},
        {"path": ("order:1",)},
        {"path": ("noise:0",)},
        {"path": ("order:0", "order:0")},
    ],
    ids=str,
)
def test_neighbouring_keys_are_independent(neighbour):
    one, two = numbers(), numbers(**neighbour)
    assert not np.isin(one, two).any()
    for left, right in ((one, two), (one[1:], two[:-1]), (one[:-1], two[1:])):
        assert abs(np.corrcoef(left, right)[0, 1]) < 4.0 / np.sqrt(N)
        assert stats.kstest((left - right) % 1.0, "uniform").pvalue > 1e-3
        cells = (left * 16).astype(int) * 16 + (right * 16).astype(int)
        assert stats.chisquare(np.bincount(cells, minlength=256)).pvalue > 1e-3


def test_keys_of_all_neighbours_differ():
    steps = [("order", 0), ("order", 1), ("order", 11), ("noise", 0), ("noise", 1)]
    paths = [(), *((one,) for one in steps), *((one, two) for one in steps for two in steps)]
    keys = set()
    for seed, round, path in itertools.product(range(12), range(12), paths):
        stream = Stream(seed, round)
        for step in path:
            stream = stream.child(*step)
        keys.add(stream.key)
    assert len(keys) == 12 * 12 * len(paths)
    # Seed, round and the path are not part of one another.
    assert Stream(1, 11).key != Stream(11, 1).key


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_numbers_do_not_depend_on_order_and_partition_of_queries(data):
    ids = data.draw(
        st.one_of(
            st.lists(st.text(max_size=5), min_size=1, max_size=8, unique=True),
            st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8, unique=True),
        )
    )
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=len(ids), max_size=len(ids)))
    chosen = data.draw(st.permutations(range(len(ids))))[: data.draw(st.integers(1, len(ids)))]
    draw = data.draw(st.integers(0, 5))
    offsets = np.cumsum([0, *sizes])
    whole = Stream(2, 3, ids).child("order", 4)
    part = Stream(2, 3, [ids[q] for q in chosen]).child("order", 4)
    expected = np.concatenate([whole.documents(offsets, draw)[offsets[q] : offsets[q + 1]] for q in chosen])
    got = part.documents(np.cumsum([0, *(sizes[q] for q in chosen)]), draw)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(part.per_query(len(chosen), 3, 1), whole.per_query(len(ids), 4)[chosen, 1:])
    np.testing.assert_array_equal(
        whole.take(np.array(chosen), len(ids)).per_query(len(chosen)), part.per_query(len(chosen))
    )


def test_children_and_rounds_keep_the_queries():
    stream = Stream(1, query_ids=["a", "b"])
    later = stream.child("order", 2).at(5)
    direct = Stream(1, 5, ["a", "b"], path=("order:2",))
    np.testing.assert_array_equal(later.per_query(2, 4), direct.per_query(2, 4))
    assert (later.per_query(2, 4) != stream.per_query(2, 4)).all()


def test_integer_ids_of_any_width_are_the_same_key():
    for kind in (np.int8, np.int32, np.int64, np.uint8, np.uint64):
        assert hashed_ids(np.array([0, 7, 100], kind)).tolist() == [0, 7, 100]
    assert hashed_ids(np.array([-1])).tolist() == [2**64 - 1]
    np.testing.assert_array_equal(Stream(1).per_query(3), Stream(1, query_ids=[0, 1, 2]).per_query(3))


def test_string_ids_do_not_depend_on_the_process():
    ids = ["a", "ü", ""]
    program = f"from rankwise.base.stream import hashed_ids; print(hashed_ids({ids!a}).tolist())"
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=environment(PYTHONHASHSEED=seed),
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert printed == {f"{hashed_ids(ids).tolist()}\n"}


def test_string_ids_of_every_kind_of_array_agree():
    plain = hashed_ids(["a", "bc"])
    np.testing.assert_array_equal(hashed_ids(np.array(["a", "bc"], dtype=object)), plain)
    np.testing.assert_array_equal(hashed_ids(np.array([b"a", b"bc"])), plain)
    assert np.unique(hashed_ids([str(number) for number in range(50_000)])).size == 50_000


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Stream(-1), "seed must be a whole number of at least 0: got -1."),
        (lambda: Stream(1.5), "seed must be a whole number of at least 0: got 1.5."),  # type: ignore[arg-type]
        (lambda: Stream(True), "seed must be a whole number of at least 0: got True."),
        (lambda: Stream(1, -2), "round must be a whole number of at least 0: got -2."),
        (lambda: Stream(1).child("a", -3), "the number of a stream must be a whole number of at least 0: got -3."),
        (
            lambda: Stream(1).child("a/b"),
            "the purpose of a stream must be a word: got 'a/b'. Hint: write child(\"order\").",
        ),
        (lambda: Stream(1, query_ids=[[1]]), "query ids must be one-dimensional: got shape (1, 1)."),
        (lambda: Stream(1, query_ids=[0.5]), "query ids must be integers or strings: got float64."),
        (
            lambda: Stream(1, query_ids=[1, 2]).per_query(3),
            "a stream needs one query id per query: got 2 ids for 3 queries. "
            "Hint: make the stream with the query_ids of the data that it is used for.",
        ),
    ],
)
def test_invalid_arguments(make, sentence):
    with pytest.raises(ValueError) as caught:
        make()
    assert str(caught.value) == sentence
