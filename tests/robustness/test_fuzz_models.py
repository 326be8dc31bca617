"""Forged models: changed at random, with right checksums, and loaded and used in processes that must not die of it.

A model that was damaged by accident is refused by its checksums; whoever forges one gives it right ones. Each is loaded
and scores documents in another process, told apart here: it works, it is refused as
:func:`tests.robustness.fuzzing.complaint` asks, something else is raised, the process dies, or it never answers.
"""

import contextlib
import hashlib
import json
import random
import select
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.models import storage
from rankwise.models.formats import ubjson
from tests.robustness import fuzzing

pytestmark = pytest.mark.slow
PATIENCE = 120.0
"""Seconds after which a process hangs."""

WORKER = """
import os, resource, sys, warnings
from pathlib import Path

import numpy as np

import rankwise as rw
from tests.robustness.fuzzing import complaint

warnings.simplefilter("ignore")
resource.setrlimit(resource.RLIMIT_AS, (24 << 30, resource.RLIM_INFINITY))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
features = np.load(sys.argv[1])
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # libraries print to standard output


def use(path):
    model = rw.load(path)
    try:
        if hasattr(model, "recommend"):
            model.recommend(cutoff=3)
        else:
            scores = model.predict(features)
            if hasattr(model, "curves_") and not ((scores >= 0.0) & (scores <= 1.0)).all():
                raise RuntimeError("scores that are no probabilities")
            model.scorer()(features)
            model.explain(features[:5])
            model.importances("split") if hasattr(model, "importances") else None
    except ValueError as refused:
        if str(path) not in str(refused):  # what is refused later does not know where the model came from
            raise type(refused)(f"{path}: {refused}") from None
        raise


for line in sys.stdin:
    answers.write(repr(complaint(use, Path(line.rstrip("\\n")))) + "\\n")
    answers.flush()
"""


class Worker:
    """A process that uses models, and another one when it has died."""

    def __init__(self, features: Path, said: Path) -> None:
        self.features, self.said = features, said
        self.process: subprocess.Popen[str] | None = None

    def use(self, path: Path) -> str:
        """Say what came of a model: "fine", or what is wrong."""
        if self.process is None:
            command = [sys.executable, "-c", WORKER, str(self.features)]
            root = Path(__file__).parents[2]
            with self.said.open("w") as errors:
                self.process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=root
                )
        process: Any = self.process
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(f"{path}\n")
            process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
        answer = process.stdout.readline().strip() if ready else "hung"
        if answer in ("", "hung"):
            self.close()
            return answer or f"died with {process.returncode}: {self.said.read_text(errors='replace')[-300:]}"
        return "fine" if answer == "None" else answer

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


# Ways to forge a file.

NUMBERS = (-1, 0, 1, 2, 3, 7, 100, 255, 65535, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1)
WORDS = (b"-1", b"0", b"1", b"3", b"99", b"100000", b"2147483647", b"-2147483648", b"4294967296", b"1 2", b"0 0 0")


def forged_words(content: bytes, chance: random.Random) -> bytes:
    """Put other whole numbers into a binary file, of any length and in either order of bytes."""
    found = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4))):
        size = chance.choice((1, 2, 4, 4, 4, 8))
        at = chance.randrange(max(1, len(found) - size))
        at -= at % chance.choice((1, 2, 4))
        number = chance.choice((*NUMBERS, chance.randrange(256), len(found))) % (1 << 8 * size)
        found[at : at + size] = number.to_bytes(size, chance.choice(("little", "big")))
    return bytes(found)


def forged_header(content: bytes, chance: random.Random) -> bytes:
    """Change the header of safetensors, and say how long it is."""
    (length,) = struct.unpack("<Q", content[:8])
    header = forged_document(json.loads(content[8 : 8 + length]), chance)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def forged_ubjson(content: bytes, chance: random.Random) -> bytes:
    """Change numbers, lengths and texts inside a document of XGBoost, which stays a document."""
    document = ubjson.decode(content)
    for _ in range(chance.choice((1, 1, 2, 3))):
        holder, key = chance.choice([(holder, key) for holder, key in _places(document) if not _is_node(holder[key])])
        value = holder[key]
        if isinstance(value, np.ndarray) and value.size:
            value = value.copy()
            match chance.randrange(5):
                case 0:
                    value = value[: chance.randrange(value.size)]
                case 1:
                    value = np.concatenate((value, value))
                case 2 if value.dtype.kind in "iu":
                    value[chance.randrange(value.size)] = chance.randrange(-1 if value.dtype.kind == "i" else 0, 12)
                case _:
                    number = chance.choice(NUMBERS)
                    value[chance.randrange(value.size)] = np.array(number).astype(value.dtype)
            holder[key] = value
        else:
            holder[key] = chance.choice(
                ("", "x", "-1", "0", "1", "2", "99", "4294967297", "nan", 0, -1, 1.5, None, [], {})
            )
    return encoded(document)


def _is_node(value: Any) -> bool:
    return isinstance(value, dict | list) and bool(value)


def encoded(value: Any) -> bytes:
    """Write a document as XGBoost does."""
    match value:
        case None | True | False:
            return {None: b"Z", True: b"T", False: b"F"}[value]
        case str():
            return b"S" + _length(len(value.encode())) + value.encode()
        case int():
            kind, shape = next(
                (kind, shape)
                for kind, shape in (("i", ">b"), ("I", ">h"), ("l", ">i"), ("L", ">q"))
                if _fits(value, shape)
            )
            return kind.encode() + struct.pack(shape, value)
        case float():
            return b"d" + struct.pack(">f", value)
        case np.ndarray():
            kinds = {
                "int8": "i",
                "uint8": "U",
                "int16": "I",
                "int32": "l",
                "int64": "L",
                "float32": "d",
                "float64": "D",
            }
            content = value.astype(value.dtype.newbyteorder(">")).tobytes()
            return f"[${kinds[str(value.dtype)]}#".encode() + _length(value.size) + content
        case list():
            return b"[#" + _length(len(value)) + b"".join(map(encoded, value))
        case _:
            entries = (_length(len(key.encode())) + key.encode() + encoded(one) for key, one in value.items())
            return b"{" + b"".join(entries) + b"}"


def _fits(number: int, shape: str) -> bool:
    return -(1 << 8 * struct.calcsize(shape) - 1) <= number < 1 << 8 * struct.calcsize(shape) - 1


def _length(number: int) -> bytes:
    return b"L" + struct.pack(">q", number)


def forged_document(document: Any, chance: random.Random) -> Any:
    """Change a document of JSON in a few places: other values, other kinds, keys that are missing or too many."""
    document = json.loads(json.dumps(document))
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = list(_places(document))
        if not places:
            break
        holder, key = chance.choice(places)
        match chance.randrange(4):
            case 0 if isinstance(holder, dict):
                del holder[key]
            case 1:
                holder[key] = chance.choice(
                    (
                        None,
                        True,
                        "",
                        "x",
                        -1,
                        0,
                        1,
                        1.5,
                        2**40,
                        10**30,
                        -1e300,
                        float("nan"),
                        [],
                        {},
                        [1],
                        {"a": 1},
                        "nan",
                    )
                )
            case 2 if isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
                holder[key] = chance.choice((-holder[key], holder[key] + 1, holder[key] * 1000, -1, 0, 2**31))
            case _:
                other, where = chance.choice(places)
                if isinstance(other, dict) == isinstance(other, list) or where in other or isinstance(where, int):
                    holder[key] = json.loads(json.dumps(_get(other, where)))
    return document


def _get(holder: Any, key: Any) -> Any:
    try:
        return holder[key]
    except (KeyError, IndexError):
        return None


def _places(node: Any) -> Any:
    """Every place of a document: what holds it, and under which key."""
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in entries:
        yield node, key
        yield from _places(value)


# Models of every kind, each with what is peculiar about its file.


def _data(categorical: bool = False) -> rw.RankingDataset:
    data = rw.synthetic(n_queries=40, n_features=6, n_docs=15.0, seed=3)
    features = data.features.copy()
    features[::7, 2] = np.nan
    if categorical:
        features[:, 0] = (3 * data.labels + np.arange(len(features)) % 3) % 7
    return rw.RankingDataset(features, data.labels, data.offsets, categorical=(0,) if categorical else ())


def _fresh(categorical: bool = False) -> rw.RankingDataset:
    """Return queries that models were not trained on, each of one segment."""
    data = _data(categorical)
    features = data.features.copy() + (0.0 if categorical else 0.01)
    features[:, 1] = np.repeat(np.arange(data.n_queries) % 3, data.sizes)
    return data.with_(features=features)


TREES: dict[str, Any] = {"rounds": 4, "leaves": 6, "min_documents": 5, "threads": 1}
CASES = 400
"""Forged models of each kind."""

KINDS: dict[str, Any] = {
    "lightgbm": lambda: rw.LightGBMRanker("xendcg", **TREES).fit(_data()),
    "lightgbm with categories": lambda: rw.LightGBMRanker("xendcg", **TREES, cat_smooth=1).fit(_data(True)),
    "lightgbm with linear leaves": lambda: rw.LightGBMRanker("xendcg", **TREES, linear_tree=True).fit(_data()),
    "xgboost": lambda: rw.XGBoostRanker("xendcg", **TREES).fit(_data()),
    "xgboost with categories": lambda: rw.XGBoostRanker("xendcg", **TREES, max_cat_to_onehot=2).fit(_data(True)),
    "xgboost dart": lambda: rw.XGBoostRanker("xendcg", **TREES, booster="dart").fit(_data()),
    "catboost": lambda: rw.CatBoostRanker("xendcg", **TREES).fit(_data()),
    "catboost with other trees": lambda: rw.CatBoostRanker("xendcg", **TREES, grow_policy="Lossguide").fit(_data()),
    "catboost with categories": lambda: rw.CatBoostRanker("xendcg", **TREES).fit(_data(True)),
    "neural": lambda: rw.NeuralRanker("softmax_ce", hidden=(5,), epochs=1, threads=1, batch_norm="all").fit(_data()),
    "calibrated": lambda: rw.calibrate(rw.LightGBMRanker("xendcg", **TREES).fit(_data()), _fresh(), "platt"),
    "calibrated by segment": lambda: rw.calibrate(
        rw.LightGBMRanker("xendcg", **TREES).fit(_data(True)), _fresh(True), segment=1
    ),
    "factorization": lambda: rw.recommend.FactorizationRanker(epochs=1, factors=3, threads=1).fit(
        rw.recommend.synthetic_ratings(n_users=12, n_items=20, n_ratings=9.0, seed=1)
    ),
    "ease of many items": lambda: rw.recommend.EASE().fit(
        rw.recommend.synthetic_ratings(n_users=12, n_items=40, n_ratings=20.0, seed=1)
    ),
    "ease of many users": lambda: rw.recommend.EASE().fit(
        rw.recommend.synthetic_ratings(n_users=40, n_items=12, n_ratings=9.0, seed=1)
    ),
    "als": lambda: rw.recommend.ALS(factors=3).fit(
        rw.recommend.synthetic_ratings(n_users=12, n_items=20, n_ratings=9.0, seed=1)
    ),
    "knn": lambda: rw.recommend.ItemKNN(neighbours=4).fit(
        rw.recommend.synthetic_ratings(n_users=12, n_items=20, n_ratings=9.0, seed=1)
    ),
}


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    path = tmp_path_factory.mktemp("features") / "features.npy"
    np.save(path, _data(True).features)
    return path


@pytest.fixture(scope="module")
def worker(features, tmp_path_factory):
    """One process for models of all kinds, as long as it lives."""
    with contextlib.closing(Worker(features, tmp_path_factory.mktemp("worker") / "said")) as one:
        yield one


class Forger:
    """A model of one kind, to be forged in many ways."""

    def __init__(self, kind: str, folder: Path) -> None:
        description, contents = storage.read(KINDS[kind]().save(folder / "model"))
        self.about = {key: value for key, value in description.items() if key not in ("files", "format")}
        self.contents = contents
        self.chances = [len(content) * (20 if name.endswith(".json") else 1) for name, content in contents.items()]

    def forge(self, path: Path, chance: random.Random) -> str:
        """Write a forged model to a folder; gives what was changed."""
        about, (file,) = self.about, chance.choices(list(self.contents), self.chances)
        content = self.contents[file]
        how = chance.choice(("bytes", "words", "words", "description"))
        if how == "description":
            about = forged_document(about, chance)
        elif file.endswith(".json") and chance.random() < 0.8:
            how, content = "document", json.dumps(forged_document(json.loads(content), chance)).encode()
        elif file.endswith(".ubj") and chance.random() < 0.7:
            how, content = "document", forged_ubjson(content, chance)
        elif file.endswith(".safetensors") and chance.random() < 0.5:
            how, content = "header", forged_header(content, chance)
        elif how == "words" and not file.endswith(".txt"):
            content = forged_words(content, chance)
        else:
            content = fuzzing.damaged(content, chance, WORDS * 4)
        path.mkdir()
        contents = self.contents | {file: content}
        for name, one in contents.items():
            (path / name).write_bytes(one)
        listed = {
            name: {"name": name, "bytes": len(one), "sha256": hashlib.sha256(one).hexdigest()}
            for name, one in contents.items()
        }
        whole = {"format": 1, **about, "files": listed}
        (path / "rankwise.json").write_text(json.dumps({**whole, "checksum": storage._checksum(whole)}))
        return f"{how} of {file}"


@pytest.mark.parametrize("kind", KINDS)
def test_forged_models(kind, worker, tmp_path):
    """Slow: another process loads, scores and explains every forged model."""
    try:
        forger = Forger(kind, tmp_path)
    except ImportError as missing:
        pytest.skip(str(missing))
    wrong, count = [], 0
    for case, chance in fuzzing.cases(CASES):
        path = tmp_path / "forged" / f"model-{count}"
        path.parent.mkdir(exist_ok=True)
        how = forger.forge(path, chance)
        answer, count = worker.use(path), count + 1
        if answer != "fine":
            wrong.append(f"{how}: {answer} ({case})")
        shutil.rmtree(path)
    assert not wrong, f"{len(wrong)} of {count}\n" + "\n".join(wrong[:12])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("xgboost")])
def test_documents_are_written_as_xgboost_does(kind):
    """Otherwise nothing of what is forged would be read."""
    content = KINDS[kind]().model_.content()
    assert encoded(ubjson.decode(content)) == content
