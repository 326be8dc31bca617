"""Models that earlier versions saved, one of each kind, load and score as they did then.

``saved/0.1.0.tar.xz`` is an archive of ``saved/make.py``, which says what is in it; there is one for each release.

``saved/9b0364c.tar.xz`` has models of rankwise 0.1.0 at commit 9b0364c, before there were cards. Its ``scores.npz`` has
the documents (``features``; nets and the like take all but the first column, without NaN), the lists of the
recommenders (``users``, ``items``, ``ends``), and the scores of each model.
"""

import functools
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.rankers import table
from tests.rankers.saved import make

ARCHIVES = sorted(path.name.removesuffix(".tar.xz") for path in make.HERE.glob("*.tar.xz"))
BEFORE_CARDS = "9b0364c"
RELEASES = [name for name in ARCHIVES if name != BEFORE_CARDS]
MODULES = {
    "xgboost": "xgboost",
    "catboost": "catboost",
    "neural": "torch",
    "factorization": "torch",
    "reranker": "sentence_transformers",
}
"""What some rankers need: an extra may be missing."""
UP_TO_ROUNDING = {"neural", "factorization", "ease", "als", "knn", "reranker"}
"""Scores that are products of vectors, whose last bits depend on the processor."""
CURVES = {"calibrate", "linear_tree"}
"""Exponentials, and products that some processors round once and others twice."""
LOOSE: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-6}
CLOSE: dict[str, Any] = {"rtol": 1e-12, "atol": 0.0}


@functools.cache
def contents(archive: str) -> dict[str, bytes]:
    with tarfile.open(make.HERE / f"{archive}.tar.xz") as packed:
        return {entry.name: packed.extractfile(entry).read() for entry in packed.getmembers()}  # type: ignore[union-attr]


@functools.cache
def arrays(archive: str, name: str) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(contents(archive)[name])) as stored:
        return dict(stored)


@functools.cache
def facts(release: str) -> dict[str, dict[str, Any]]:
    return dict(json.loads(contents(release)["facts.json"]))


def files_of(archive: str, kind: str) -> dict[str, bytes]:
    start = f"{kind}/"
    return {name.removeprefix(start): each for name, each in contents(archive).items() if name.startswith(start)}


def folder_of(archive: str, kind: str, path: Path) -> Path:
    """Write the folder of a model."""
    folder = path / kind
    folder.mkdir()
    for name, content in files_of(archive, kind).items():
        (folder / name).write_bytes(content)
    return folder


def rankers_in(archive: str, kind: str) -> set[str]:
    """The names of all rankers that a model is made of; ``linear_tree`` counts as one."""
    texts = [each.decode() for name, each in files_of(archive, kind).items() if name.endswith("json")]
    linear = {"linear_tree"} if any('"linear_tree": true' in text for text in texts) else set()
    return {name for text in texts for name in re.findall(r'"ranker": ?"(\w+)"', text)} | linear


def require(archive: str, kind: str) -> None:
    """Skip the test if a library of a model is missing."""
    for name in sorted(rankers_in(archive, kind) & MODULES.keys()):
        pytest.importorskip(MODULES[name], reason=f"the saved model {kind} needs {MODULES[name]}")


def assert_same(archive: str, kind: str, found: np.ndarray, expected: np.ndarray) -> None:
    """Compare scores: bit for bit where that is the same on all processors."""
    rankers = rankers_in(archive, kind)
    assert found.dtype == expected.dtype
    if rankers & UP_TO_ROUNDING:
        np.testing.assert_allclose(found, expected, **LOOSE)
    elif rankers & CURVES:
        np.testing.assert_allclose(found, expected, **CLOSE)
    else:
        np.testing.assert_array_equal(found, expected)


def same_facts(found: Any, expected: Any) -> bool:
    """Whether facts are the same, numbers in them too but for rounding; there may be more of them now."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            key in found and same_facts(found[key], expected[key]) for key in expected
        )
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same_facts, found, expected))
    return bool(found == (pytest.approx(expected, rel=1e-12) if isinstance(expected, float) else expected))


def read_arrays(name: str, content: bytes) -> dict[str, np.ndarray]:
    """The arrays in a file of a model; none in one of another format."""
    if name.endswith(".npz"):
        with np.load(io.BytesIO(content)) as stored:
            return dict(stored)
    if name.endswith(".safetensors"):
        from safetensors.numpy import load

        return load(content)
    return {"bytes": np.frombuffer(content, np.uint8)} if name.endswith(".bin") else {}


SAVED = [(release, kind) for release in RELEASES for kind in facts(release)]


@pytest.fixture(autouse=True)
def own_rankers():
    make.register()


@pytest.fixture
def model(release, kind, tmp_path):
    require(release, kind)
    return make.load(facts(release)[kind]["scored"], folder_of(release, kind, tmp_path))


@pytest.mark.parametrize(("release", "kind"), SAVED)
def test_saved_models_score_the_same(release, kind, model):
    scored, numbers = facts(release)[kind]["scored"], arrays(release, "numbers.npz")
    documents, expected = arrays(release, "documents.npz"), numbers[f"{kind} scores"]
    assert_same(release, kind, make.scores(scored, model, documents), expected)
    if scored == "named":  # columns and categories are found by their names and values
        assert_same(release, kind, model.predict(make.named(documents, turned=True)), expected)
    more = make.more_numbers(scored, model, documents)
    assert {f"{kind} {name}" for name in ("scores", *more)} == {name for name in numbers if name.split()[0] == kind}
    if "scorer" in more:
        assert_same(release, kind, more["scorer"], numbers[f"{kind} scorer"])
    if "contributions" in more:
        np.testing.assert_allclose(more["contributions"], numbers[f"{kind} contributions"], **LOOSE)


@pytest.mark.parametrize(("release", "kind"), SAVED)
def test_saved_models_tell_the_same(release, kind, model):
    expected = dict(facts(release)[kind])
    found = make.facts(expected.pop("scored"), model, arrays(release, "documents.npz"))
    assert found.keys() >= expected.keys()
    known = {key: fact for key, fact in expected.items() if fact is not None}  # what was not may be by now
    different = {key: (found[key], fact) for key, fact in known.items() if not same_facts(found[key], fact)}
    assert not different


@pytest.mark.parametrize(("release", "kind"), SAVED)
def test_saved_models_are_saved_again_as_they_were(release, kind, model, tmp_path):
    """Arrays are the same to the bit, also of models whose scores depend on the processor."""
    scored, documents = facts(release)[kind]["scored"], arrays(release, "documents.npz")
    folder = model.save(tmp_path / "again")
    np.testing.assert_array_equal(
        make.scores(scored, make.load(scored, folder), documents), make.scores(scored, model, documents)
    )
    for name, content in files_of(release, kind).items():
        before, after = read_arrays(name, content), read_arrays(name, (folder / name).read_bytes())
        assert before.keys() == after.keys()
        for key, array in before.items():
            np.testing.assert_array_equal(after[key], array)
            assert after[key].dtype == array.dtype
    before, after = (
        json.loads(files_of(release, kind)["rankwise.json"]),
        json.loads((folder / "rankwise.json").read_text()),
    )
    of_the_files = ("format", "versions", "files", "contents", "checksum")
    assert same_facts(after, {key: value for key, value in before.items() if key not in of_the_files})


def test_there_is_a_saved_model_of_every_ranker():
    kept = set().union(*(rankers_in(release, kind) for release, kind in SAVED))
    missing = {*table.RANKERS, *table.ENSEMBLES, *table.RECOMMENDERS, "reranker"} - kept
    assert not missing, "add a kind to tests/rankers/saved/make.py, and run it"


# Before there were cards.

NAMED = ("lightgbm", "xgboost", "catboost", "bagged_trees")
NUMBERED = ("neural", "bagged_nets", "blended", "feature")
RECOMMENDERS = ("factorization", "ease", "als", "knn", "popularity")


def test_every_model_from_before_cards_is_compared():
    kinds = {name.partition("/")[0] for name in contents(BEFORE_CARDS)} - {"scores.npz"}
    assert kinds == {*NAMED, *NUMBERED, *RECOMMENDERS}


def load_before_cards(kind: str, path: Path) -> Any:
    require(BEFORE_CARDS, kind)
    return rw.load(folder_of(BEFORE_CARDS, kind, path))


@pytest.mark.parametrize("kind", [*NAMED, *NUMBERED])
def test_models_from_before_cards_score_the_same(kind, tmp_path):
    stored = arrays(BEFORE_CARDS, "scores.npz")
    features = stored["features"] if kind in NAMED else np.nan_to_num(stored["features"][:, 1:])
    model = load_before_cards(kind, tmp_path)
    assert_same(BEFORE_CARDS, kind, model.predict(features), stored[kind])
    assert_same(BEFORE_CARDS, kind, model.scorer()(features), stored[kind])


@pytest.mark.parametrize("kind", [*NAMED, *NUMBERED, *RECOMMENDERS])
def test_models_from_before_cards_have_one_without_data(kind, tmp_path):
    card = load_before_cards(kind, tmp_path).card()
    assert "| rankwise | 0.1.0 |" in card
    assert "| digest |" not in card


@pytest.mark.parametrize("kind", RECOMMENDERS)
def test_recommenders_from_before_cards_score_the_same(kind, tmp_path):
    stored = arrays(BEFORE_CARDS, "scores.npz")
    lists = rw.RankingDataset(
        np.zeros((stored["items"].size, 1), np.float32),
        np.zeros(stored["items"].size),
        stored["ends"],
        query_ids=stored["users"],
        document_ids=stored["items"],
    )
    assert_same(BEFORE_CARDS, kind, load_before_cards(kind, tmp_path).predict(lists), stored[kind])
