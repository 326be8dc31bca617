"""Reading what a command line names: data sets, files of scores, lists of metrics, ``name=FILE`` pairs."""

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise import check

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from rankwise.data.dataset import RankingDataset


def items(text: str) -> list[str]:
    """Cut a list at its commas, but not at those inside brackets.

    >>> items("ndcg(gain=linear, ties=worst)@5, ap")
    ['ndcg(gain=linear, ties=worst)@5', 'ap']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def numbers(what: str, text: str) -> tuple[float, ...]:
    """Read numbers between commas.

    >>> numbers("proportions", ".6,.2,.2")
    (0.6, 0.2, 0.2)
    """
    try:
        return tuple(float(item) for item in items(text))
    except ValueError:
        raise check.error(f"{what} must be numbers between commas", got=repr(text)) from None


def named(pairs: Sequence[str]) -> dict[str, Path]:
    """Read ``name=FILE`` pairs; a bare FILE is called by its name without folders and endings.

    >>> named(["old=a/b.txt", "runs/new.txt.gz"])
    {'old': PosixPath('a/b.txt'), 'new': PosixPath('runs/new.txt.gz')}
    """
    found: dict[str, Path] = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals:
            name, path = Path(pair).name.partition(".")[0], pair
        if not name or not path:
            raise check.error("rankings are given as name=FILE", got=repr(pair))
        if name in found:
            hint = "give each a name of its own: name=FILE"
            raise check.error(
                "two rankings have the same name", got=f"{name!r} for {found[name]} and {path}", hint=hint
            )
        found[name] = Path(path)
    return found


def read_data(
    name: str, *, part: str | None, fold: int | None, progress: Callable[[int, int], object] | None = None
) -> "RankingDataset":
    """Read a data set: a file by its ending, or one part of a set that a .toml file or the catalog describes."""
    from rankwise.data import formats as files
    from rankwise.data.catalog import load

    path = Path(name)
    if is_set(name):
        return load.load_dataset(name, fold, part=part or "test")  # type: ignore[no-any-return, call-overload]
    if part is not None or fold is not None:
        what = "--part and --fold belong to sets of the catalog and to .toml files"
        raise check.error(what, got=f"the plain file {name}", hint="leave them out")
    return files.read_data(path) if files.is_parquet(path) else files.read_data(path, progress=progress)


def read_parts(data: str, valid: str | None, fold: int | None) -> "tuple[RankingDataset, RankingDataset | None]":
    """Read training and validation data: two files, or parts of a set that a .toml file or the catalog describes."""
    held_out = None if valid is None else read_valid(valid, fold)
    if not is_set(data):
        fold_of_data = None if valid is not None and is_set(valid) else fold
        return read_data(data, part=None, fold=fold_of_data), held_out
    from rankwise.data.catalog.load import load_dataset

    whole = load_dataset(data, fold)
    if not hasattr(whole, "train"):
        raise check.error("ratings are no ranking data", got=data, hint=f"use 'rankwise recommend {data}'")
    return whole.train, held_out or whole.valid


def read_valid(name: str, fold: int | None) -> "RankingDataset":
    """Read validation data: a file, or the validation part of a set, in the same fold as the training data."""
    return read_data(name, part="valid", fold=fold) if is_set(name) else read_data(name, part=None, fold=None)


def is_set(name: str) -> bool:
    """Tell a set of several parts, described by a .toml file or the catalog, from a plain file."""
    path = Path(name)
    return path.suffix == ".toml" or not (path.suffix or "/" in name or path.exists())


def pairs(words: Sequence[str], form: str = "NAME=VALUE") -> dict[str, str]:
    """Read ``name=text`` pairs.

    >>> pairs(["leaves=whole(7, 63)"])
    {'leaves': 'whole(7, 63)'}
    """
    found: dict[str, str] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not name.strip() or not equals or not text.strip():
            raise check.error(f"settings are written {form}", got=repr(word))
        found[name.strip()] = text.strip()
    return found


def settings(words: Sequence[str]) -> dict[str, object]:
    """Read ``name=value`` pairs; a value is a number, true, false, none, a list in brackets, or a word.

    >>> settings(["lambda_l2=0.5", "extra_trees=true", "boosting=dart", "seeds=[1, 2]"])
    {'lambda_l2': 0.5, 'extra_trees': True, 'boosting': 'dart', 'seeds': [1, 2]}
    """
    return {name: _value(text) for name, text in pairs(words).items()}


def _value(text: str) -> object:
    words: dict[str, object] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return json.loads(text)
    except RecursionError:
        raise check.error("a setting has too many brackets inside each other", got=f"{text[:20]}…") from None
    except ValueError:
        return float(text) if _is_number(text) else text


def read_scores(path: Path) -> "NDArray[np.float64]":
    """Read one score per document: a .npy array, or text with one number per line, compressed or not."""
    from rankwise.data.compressed import read_bytes

    return _scores(read_bytes(path), path)


def _scores(content: bytes, path: Path) -> "NDArray[np.float64]":
    """Read scores from what a file holds."""
    import numpy as np

    if _is_array(content, path):
        return _array(content, path)
    lines = content.decode("utf-8", "replace").rstrip().split("\n")
    try:
        return np.array([_number(line) for line in lines])
    except ValueError:
        bad = next(number for number, line in enumerate(lines) if not _is_number(line) or "_" in line)
        got, where = repr(lines[bad].rstrip("\r")[:60]), f"line {bad + 1} of {path}"
        hint = "write one number per document, in the order of the data, or a TREC run"
        raise check.error("a file of scores holds one number per line", got=got, where=where, hint=hint) from None


def _is_array(content: bytes, path: Path) -> bool:
    return path.suffix == ".npy" or content.startswith(b"\x93NUMPY")


def _array(content: bytes, path: Path) -> "NDArray[np.float64]":
    """Read a .npy file, whose header must fit what follows."""
    import numpy as np

    with check.library("a .npy file", path):
        file = io.BytesIO(content)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, dtype = readers[np.lib.format.read_magic(file)](file)
    if len(shape) != 1 or dtype.kind not in "fiu":
        got = f"shape {shape} of {dtype}"
        raise check.error("a file of scores holds one number per document", got=got, where=str(path))
    values = content[file.tell() :]
    if len(values) != shape[0] * dtype.itemsize:
        got = f"{len(values):,} bytes for {shape[0]:,} numbers of {dtype}"
        raise check.error("a .npy file is cut short, or longer than it says", got=got, where=str(path))
    return np.frombuffer(values, dtype).astype(np.float64)


def judged(
    path: Path, by: "RankingDataset | pl.DataFrame", *, all_topics: bool
) -> "tuple[NDArray[np.float64], RankingDataset]":
    """Give the scores of a file or a model, and the data that they belong to: DATA, or a run joined with qrels."""
    from rankwise.data.compressed import read_bytes
    from rankwise.data.dataset import RankingDataset
    from rankwise.evaluation import trec

    if path.is_dir():
        return _predicted(path, by if isinstance(by, RankingDataset) else None)
    if not isinstance(by, RankingDataset):
        with check.naming(path):
            return trec.judge(trec.read_run(path), by, all_topics=all_topics)
    content = read_bytes(path)  # once: it may be a pipe
    words = content[:4096].lstrip().split(b"\n", 1)[0].split()
    if len(words) >= 6 and not _is_array(content, path):  # query Q0 document rank score tag
        return _join(trec.parse_run(content, path), by, path)
    return _scores(content, path), by


def _predicted(path: Path, data: "RankingDataset | None") -> "tuple[NDArray[np.float64], RankingDataset]":
    """Score the data with a model."""
    import rankwise as rw

    model = rw.load(path)
    if data is None:
        hint = "pass DATA instead of --qrels, or write a run with 'rankwise predict'"
        raise check.error("a model needs data with features", got=str(path), hint=hint)
    with check.naming(path):
        return model.predict(data), data


def _join(run: "pl.DataFrame", data: "RankingDataset", path: Path) -> "tuple[NDArray[np.float64], RankingDataset]":
    """Take the data for qrels; every query counts, also those for which the run found nothing."""
    import polars as pl

    from rankwise.evaluation import trec

    if data.document_ids is None:
        hint = "give one score per line instead, in the order of the data, or judge the run with --qrels"
        raise check.error("a TREC run needs data with document ids", got=f"{path} and data without", hint=hint)
    frame = pl.DataFrame({"query": data.qids(), "document": data.document_ids, "grade": data.labels})
    with check.naming(path):
        scores, judged = trec.judge(run, frame, all_topics=True)
    return scores, judged.with_(weights=data.weights)


def _number(line: str) -> float:
    if "_" in line:  # which Python allows in a number, and no other program
        raise ValueError
    return float(line)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
