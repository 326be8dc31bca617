"""Every input check and every error sentence.

An error says what was wrong, what was given, where, and what to do about it. Checks return the value in the form
that the rest of the package works with, so that a caller reads ``labels = check.labels(labels, n)``.
"""

import contextlib
import difflib
import errno
import importlib
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.arrays import Ids, offsets_of

_MOST_NUMBERS = 1e11
_LARGEST_SCORE = 1e15
_LARGEST = float(np.finfo(np.float64).max)
_FILE_ERRORS = (FileNotFoundError, FileExistsError, IsADirectoryError)  # of ours, without the system's number
_QUOTED = 200  # letters of a library's error that ours quotes


def error(what: str, *, got: object = None, where: str = "", hint: str = "") -> ValueError:
    """Build the one kind of error that bad input gets.

    >>> print(error("labels must be finite", got="nan", where="row 3 (query 'a')", hint="drop or relabel the document"))
    labels must be finite: got nan at row 3 (query 'a'). Hint: drop or relabel the document.
    """
    text = what
    if got is not None:
        text += f": got {got}"
    if where:
        text += f" at {where}" if got is not None else f": {where}"
    return ValueError(printable(f"{text}." + (f" Hint: {hint}." if hint else "")))


def printable(text: str) -> str:
    r"""Escape what could move the cursor, colour the screen, break the line or turn the direction of the letters.

    Errors quote files and names that others wrote, and end up on terminals and in logs.

    >>> print(printable("a\x1b[2J\nb\u202ec"))
    a\x1b[2J\nb\u202ec
    """
    if text.isprintable():
        return text
    unsafe = {letter for letter in set(text) if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    return text.translate({ord(letter): repr(letter)[1:-1] for letter in unsafe})


@contextlib.contextmanager
def naming(place: object) -> Iterator[None]:
    """Put the file that an error is about in front of it, unless the error names it already."""
    try:
        yield
    except ValueError as wrong:
        name = printable(str(place))
        if type(wrong) is ValueError and re.search(rf"(?:at|of|:) {re.escape(name)}(?:[,.:; ]|$)", str(wrong)):
            raise
        raise ValueError(f"{name}: {printable(str(wrong))}") from wrong


@contextlib.contextmanager
def library(
    what: str, path: object, *, also: bool = False, hint: str = "get the file again, or write it anew"
) -> Iterator[None]:
    """Say which file a library could not read, in place of the library's own error, of whatever kind that is.

    ``path`` may be a function that finds it. With ``also`` errors of ours are raised too, and pass.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as broken:  # polars panics outside of Exception
        numbered = isinstance(broken, OSError) and broken.errno not in (None, errno.EINVAL)
        if numbered or type(broken) in _FILE_ERRORS or (also and type(broken) is ValueError):
            raise
        got = str(broken).strip().partition("\n")[0][:_QUOTED] or type(broken).__name__
        where = str(path() if callable(path) else path)
        raise error(f"cannot read {what}", got=got, where=where, hint=hint) from broken


def suggestion(word: str, known: Iterable[str]) -> str:
    """Name the nearest known word, or list them all when none is near.

    >>> suggestion("ndgc", ["ndcg", "ap"])
    "did you mean 'ndcg'?"
    >>> suggestion("xyz", ["ndcg", "ap"])
    'choose one of ndcg, ap'
    """
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"choose one of {', '.join(known)}"


def choice(what: str, value: object, known: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``known`` words."""
    known = list(known)
    if isinstance(value, str) and value in known:
        return value
    raise error(f"unknown {what}", got=repr(value), hint=suggestion(str(value), known).rstrip("?"))


def integer(what: str, value: object, *, least: int) -> int:
    """Return ``value`` as an int that is at least ``least``, and that kernels can count with."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise error(f"{what} must be a whole number of at least {least}", got=repr(value))
    if value >= 2**63:
        raise error(f"{what} must be below 2^63", got=f"a number of {int(value).bit_length()} bits")
    return int(value)


def number(what: str, value: object, *, least: float = -np.inf, most: float = np.inf, open_ends: bool = False) -> float:
    """Return ``value`` as a finite float inside the interval (without its ends if ``open_ends``)."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        inside = least < value < most if open_ends else least <= value <= most
        if inside and -_LARGEST <= value <= _LARGEST:
            return float(value)
    left = "(" if open_ends or least == -np.inf else "["
    right = ")" if open_ends or most == np.inf else "]"
    raise error(f"{what} must be a number in {left}{least:g}, {most:g}{right}", got=repr(value))


def affordable(what: str, numbers: float, *, hint: str) -> None:
    """Refuse to make what no machine could hold."""
    if numbers > _MOST_NUMBERS:
        raise error(f"{what} may have {_MOST_NUMBERS:.0e} numbers at most", got=f"{numbers:.0e}", hint=hint)


def extra(module: str, extra_name: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise ImportError(
            f"{module} is not installed. Install it with: pip install 'rankwise[{extra_name}]'"
        ) from missing


def free_path(path: str | Path, *, force: bool = False) -> Path:
    """Return ``path`` if nothing lies there, or if the user allowed to replace what does."""
    path = Path(path)
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists already and is kept. Hint: choose another name, or allow it with force.")
    return path


def readable(path: str | Path, *, pipe: bool = False) -> Path:
    """Return ``path`` if it is a file that exists; or a ``pipe``, which can be read but once and not searched."""
    path = Path(path)
    kind = stat.S_IFMT(path.stat().st_mode) if path.exists() else None
    if kind == stat.S_IFREG or (pipe and kind in (stat.S_IFIFO, stat.S_IFCHR)):
        return path
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(f"{path} is a folder, and a file is needed here.")
    if kind is not None:
        raise error("a file that can be read again is needed", got=str(path), hint="write what it gives to a file")
    beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1)
    raise FileNotFoundError(f"there is no file {path}." + (f" Did you mean {path.parent / near[0]}?" if near else ""))


def features(values: ArrayLike) -> NDArray[np.float32]:
    """Check the feature matrix: two dimensions of numbers; NaN is allowed and means missing."""
    array = np.asarray(values)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise error(
            "features must be a matrix of numbers, one row per document",
            got=f"shape {array.shape} of {array.dtype}",
            hint="reshape one feature to a column with [:, None]; encode text as category codes",
        )
    return np.ascontiguousarray(array, dtype=np.float32)


def query_ids(values: ArrayLike, n_queries: int) -> Ids:
    """Check that there is one id per query, integers or strings, all different."""
    array = identifiers("query ids", values, n_queries, "query")
    unique, first = np.unique(array, return_index=True)
    if unique.size < array.size:
        again = int(np.setdiff1d(np.arange(array.size), first)[0])
        raise error(
            "query ids must all be different",
            got=f"{_plain(array[again])!r} again",
            where=f"query number {again}",
            hint="join the documents of a query, or give the second one another id",
        )
    return array


def document_ids(values: ArrayLike, n_docs: int) -> Ids:
    """Check that there is one id per document, integers or strings."""
    return identifiers("document ids", values, n_docs, "document")


def identifiers(what: str, values: ArrayLike, count: int, one: str) -> Ids:
    """Check a column of integers or strings and give it a plain NumPy type."""
    array = np.asarray(values)
    if array.dtype.kind == "O":
        kinds = {type(value) for value in array.ravel().tolist()}
        if kinds == {str}:
            array = array.astype(np.str_)
    if array.shape != (count,) or array.dtype.kind not in "iuU":
        raise error(
            f"{what} must be one integer or string per {one}",
            got=f"shape {array.shape} of {array.dtype} for {count}",
        )
    return array


def feature_names(values: Sequence[str] | None, n_features: int) -> tuple[str, ...] | None:
    """Check that there is one name per feature, all different."""
    if values is None:
        return None
    names = tuple(map(str, values))
    if len(names) != n_features or len(set(names)) != n_features:
        raise error(
            "feature names must be as many as there are features, and all different",
            got=f"{len(set(names))} different names for {n_features} features",
        )
    if any("\0" in name for name in names):  # which ends names, and some libraries, early
        raise error("feature names must not hold a zero byte", got=repr(next(name for name in names if "\0" in name)))
    return names


def columns(what: str, values: Iterable[int], n_features: int) -> tuple[int, ...]:
    """Check a list of column numbers."""
    numbers = tuple(integer(f"a column in {what}", value, least=0) for value in values)
    for value in numbers:
        if value >= n_features:
            raise error(
                f"a column in {what} must be smaller than the number of features", got=f"{value} of {n_features}"
            )
    return numbers


def categories(
    matrix: NDArray[np.float32],
    columns: Iterable[int],
    *,
    least: float,
    counts: Mapping[int, int] | None = None,
    first_row: int = 0,
) -> None:
    """Check that columns of features hold codes of categories: whole numbers of at least ``least``, or NaN.

    ``counts`` says how many categories some of the columns have; rows are counted from ``first_row``.
    """
    for column in columns:
        values = matrix[:, column]
        count = (counts or {}).get(column)
        most = 2.0**24 if count is None else count - 1.0  # float32 cannot tell larger whole numbers apart
        bad = ((values != np.floor(values)) | (values < max(least, -(2.0**24))) | (values > most)) & ~np.isnan(values)
        if bad.any():
            row = int(np.argmax(bad))
            what = "the codes of a categorical column must be whole numbers" + (" of 0 or more" if least == 0 else "")
            raise error(
                what if count is None else f"{what}, below its {count} categories",
                got=f"{values[row]:g}",
                where=f"row {first_row + row}, column {column}",
                hint="number the categories from 0; NaN stands for one that is missing",
            )


def propensities(values: ArrayLike, query_offsets: NDArray[np.int64], ids: Ids | None = None) -> NDArray[np.float64]:
    """Check examination probabilities: greater than 0."""
    hint = "give every displayed document a positive probability of being examined"
    return document_values("propensities", values, query_offsets, ids, above=0.0, hint=hint)


def positions(values: ArrayLike, query_offsets: NDArray[np.int64], ids: Ids | None = None) -> NDArray[np.int64]:
    """Check displayed positions: whole numbers from 1."""
    array = np.asarray(values)
    hint = "count displayed positions from 1"
    checked = document_values("positions", array, query_offsets, ids, least=1.0, hint=hint)
    if array.dtype == np.int64:
        return array
    broken = checked != np.floor(checked)
    if broken.any():
        row = int(np.argmax(broken))
        raise error(
            "positions must be whole numbers", got=checked[row], where=query_of_row(row, query_offsets, ids), hint=hint
        )
    return checked.astype(np.int64)


def offsets(values: ArrayLike, n_docs: int) -> NDArray[np.int64]:
    """Check that ``values`` cuts ``n_docs`` rows into queries of at least one document."""
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise error(
            "offsets must be a one-dimensional array of integers, one more than there are queries",
            got=f"shape {array.shape} of {array.dtype}",
            hint="pass the row where each query starts, then the number of rows, or use RankingDataset.from_sizes",
        )
    array = array.astype(np.int64, copy=False)
    if array[0] != 0 or array[-1] != n_docs:
        raise error(
            "offsets must cover every row: begin with 0 and end with the number of rows",
            got=f"{array[0]} to {array[-1]} for {n_docs} rows",
            hint="pass cumulative counts, or use RankingDataset.from_sizes(features, labels, sizes)",
        )
    shrinking = np.flatnonzero(np.diff(array) < 1)
    if shrinking.size:
        query = int(shrinking[0])
        raise error(
            "every query needs at least one document",
            got=f"{array[query + 1] - array[query]} documents",
            where=f"query number {query}",
            hint="leave out queries without documents",
        )
    return array


def sizes(values: ArrayLike, n_docs: int) -> NDArray[np.int64]:
    """Turn the number of documents of each query into offsets."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array < 1).any():
        raise error("sizes must be a one-dimensional array of positive integers", got=f"{array!r}")
    if array.sum() != n_docs:
        raise error(
            "sizes must add up to the number of rows",
            got=f"a sum of {array.sum()} for {n_docs} rows",
            hint="pass the number of documents of each query, in the order of the rows",
        )
    return offsets_of(array)


def runs(
    qids: ArrayLike, *, hint: str = "sort the rows by query id (a stable sort keeps the order of documents)"
) -> NDArray[np.int64]:
    """Find where each query starts in a column of query ids; a query's rows must lie together."""
    column = np.asarray(qids)
    if column.ndim != 1:
        raise error("qids must be a one-dimensional column", got=f"shape {column.shape}")
    if column.size == 0:
        return np.zeros(1, np.int64)
    starts = np.concatenate(([0], np.flatnonzero(column[1:] != column[:-1]) + 1))
    heads = column[starts]
    unique, first = np.unique(heads, return_index=True)
    if unique.size < heads.size:
        again = int(np.setdiff1d(np.arange(heads.size), first)[0])
        raise error(
            "the rows of a query must lie together",
            got=f"query {heads[again]!r} again after another query",
            where=f"row {starts[again]}",
            hint=hint,
        )
    return np.concatenate((starts, [column.size])).astype(np.int64)


def query_of_row(row: int, query_offsets: NDArray[np.int64], query_ids: Sequence[Any] | Ids | None = None) -> str:
    """Say where a row is: its number and its query."""
    query = int(np.searchsorted(query_offsets, row, side="right")) - 1
    name = f"query number {query}" if query_ids is None else f"query {_plain(query_ids[query])!r}"
    return f"row {row} ({name})"


def document_values(
    what: str,
    values: ArrayLike,
    query_offsets: NDArray[np.int64],
    query_ids: Ids | None = None,
    *,
    least: float | None = None,
    above: float | None = None,
    missing_scores: bool = False,
    hint: str = "drop the document or give it a number",
) -> NDArray[np.float64]:
    """Check one number per document: the right count, finite (−inf allowed for ``missing_scores``) and large enough."""
    array = np.asarray(values)
    if array.ndim != 1 or array.size != query_offsets[-1] or array.dtype.kind not in "fiub":
        raise error(
            f"{what} must be one number per document",
            got=f"shape {array.shape} of {array.dtype} for {query_offsets[-1]} documents",
        )
    array = array.astype(np.float64, copy=False)
    if array.size and _extremes_allow(array, least, above, missing_scores):
        return array
    bad = ~np.isfinite(array)
    if missing_scores:
        bad &= array != -np.inf
    if bad.any():
        row = int(np.argmax(bad))
        raise error(
            f"{what} must be finite", got=array[row], where=query_of_row(row, query_offsets, query_ids), hint=hint
        )
    low = np.zeros(array.size, bool)
    if least is not None:
        low |= array < least
    if above is not None:
        low |= array <= above
    if low.any():
        row = int(np.argmax(low))
        limit = f"at least {least:g}" if least is not None else f"greater than {above:g}"
        where = query_of_row(row, query_offsets, query_ids)
        raise error(f"{what} must be {limit}", got=f"{array[row]:g}", where=where, hint=hint)
    return array


def _extremes_allow(array: NDArray[np.float64], least: float | None, above: float | None, missing_scores: bool) -> bool:
    """Tell from the smallest and the largest number that all are fine; a NaN anywhere is both of them.

    Takes a fraction of the time of looking for the first wrong number, and no memory.
    """
    low, high = array.min(), array.max()
    return bool(
        high < np.inf
        and (low > -np.inf or (missing_scores and low == -np.inf))
        and (least is None or low >= least)
        and (above is None or low > above)
    )


def labels(values: ArrayLike, query_offsets: NDArray[np.int64], query_ids: Ids | None = None) -> NDArray[np.float64]:
    """Check the relevance labels: finite and not negative."""
    hint = "give every document a grade of 0 (not relevant) or more; qrels use -1 for 'not judged': make it 0"
    return document_values("labels", values, query_offsets, query_ids, least=0.0, hint=hint)


def scores(values: ArrayLike, query_offsets: NDArray[np.int64], query_ids: Ids | None = None) -> NDArray[np.float64]:
    """Check the scores of a ranker; −inf stands for a document that was not retrieved."""
    hint = "look at the model's output there; -inf is allowed and means 'not retrieved'"
    return document_values("scores", values, query_offsets, query_ids, missing_scores=True, hint=hint)


def loss_scores(values: ArrayLike, query_offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Check the scores that a loss is taken of: finite; what is beyond ±1e15 counts as ±1e15.

    Squares of larger differences, times a parameter, or summed over pairs, would not be finite, in single precision at
    last.
    """
    hint = "look at the learning rate and the features: a trainer that diverges produces such scores"
    array = document_values("scores", values, query_offsets, hint=hint)
    if array.size and (array.max() > _LARGEST_SCORE or array.min() < -_LARGEST_SCORE):
        return array.clip(-_LARGEST_SCORE, _LARGEST_SCORE)
    return array


def query_weights(values: ArrayLike, n_queries: int, *, all_zero: bool = False) -> NDArray[np.float64]:
    """Check one weight per query: finite, not negative, and not all zero unless that is allowed (in a batch)."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n_queries,):
        raise error(
            "weights must be one number per query",
            got=f"shape {array.shape} for {n_queries} queries",
            hint="weights belong to queries here; a weight per document must be equal within a query: pass the first",
        )
    bad = ~np.isfinite(array) | (array < 0)
    if bad.any():
        query = int(np.argmax(bad))
        raise error("weights must be finite and not negative", got=array[query], where=f"query number {query}")
    if n_queries and not all_zero and not array.any():
        raise error("weights must not all be zero", hint="leave weights out, or give some query a positive weight")
    return array


def query_values(what: str, values: ArrayLike, ids: Ids) -> NDArray[np.float64]:
    """Check one number per query, such as the values of a metric; NaN stands for a query that is skipped."""
    array = np.asarray(values)
    if array.shape != ids.shape or array.dtype.kind not in "fiub":
        raise error(f"{what} must be one number per query", got=f"shape {array.shape} of {array.dtype} for {ids.size}")
    array = array.astype(np.float64, copy=False)
    if np.isinf(array).any():
        query = int(np.argmax(np.isinf(array)))
        hint = "NaN is allowed and means that the query is skipped"
        raise error(f"{what} must be finite", got=array[query], where=f"query {_plain(ids[query])!r}", hint=hint)
    return array


def fractions(values: Sequence[float]) -> tuple[float, ...]:
    """Check proportions of a split: positive and adding up to one."""
    parts = tuple(number("a proportion of a split", value, least=0.0, most=1.0) for value in values)
    if not parts or abs(sum(parts) - 1.0) > 1e-9:
        raise error("the proportions of a split must add up to 1", got=f"{parts} with a sum of {sum(parts):g}")
    return parts


def probabilities(what: str, values: Sequence[float]) -> NDArray[np.float64]:
    """Check a list of probabilities, at least one."""
    chances = np.array([number(f"each of the {what}", value, least=0.0, most=1.0) for value in values])
    if not chances.size:
        raise error(f"there must be at least one of the {what}", got=repr(values))
    return chances


def distribution(what: str, values: Sequence[float]) -> NDArray[np.float64]:
    """Check probabilities that add up to one."""
    chances = probabilities(what, values)
    if abs(chances.sum() - 1.0) > 1e-9:
        raise error(f"the {what} must add up to 1", got=f"{tuple(values)} with a sum of {chances.sum():g}")
    return chances


def grades(
    values: NDArray[np.float64],
    query_offsets: NDArray[np.int64],
    ids: Ids | None,
    what: str,
    chances: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Turn labels into whole grades, for each of which there is one of the ``chances``."""
    whole = values.astype(np.int64)
    bad = (whole != values) | (whole >= chances.size)
    if bad.any():
        row = int(np.argmax(bad))
        raise error(
            f"labels must be the grades 0 to {chances.size - 1}, as there are {chances.size} {what}",
            got=f"{values[row]:g}",
            where=query_of_row(row, query_offsets, ids),
            hint="give one probability for each grade; make real-valued labels grades first, or use binarize",
        )
    return whole


def _plain(value: Any) -> Any:
    """Unwrap a NumPy scalar so that it prints as the user wrote it."""
    return value.item() if isinstance(value, np.generic) else value
