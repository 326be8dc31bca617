"""The one kind of error that bad input gets, and how errors of others are put into it."""

import contextlib
import difflib
import errno
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

_FILE_ERRORS = (FileNotFoundError, FileExistsError, IsADirectoryError)  # of ours, without the system's number
_QUOTED = 200  # letters of a library's error that ours quotes
_ROW = re.compile(r"\bat row (\d+)\b")


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


def unexpected(method: str, name: str, hint: str) -> TypeError:
    """Build the error of an argument that a method does not have, of Python's own kind.

    >>> print(unexpected("fit", "eval_set", "pass valid="))
    fit has no argument 'eval_set'. Hint: pass valid=.
    """
    return TypeError(printable(f"{method} has no argument {name!r}. Hint: {hint}."))


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
def placing(place: Callable[[int], str]) -> Iterator[None]:
    """Say where a row came from, such as the line of a file, in an error that names the number of the row."""
    try:
        yield
    except ValueError as wrong:
        raise ValueError(_ROW.sub(lambda row: f"at {place(int(row[1]))}", str(wrong))) from wrong


def is_missing(value: object) -> bool:
    """Whether a Python object stands for a missing value: None, NaN, or pandas' NA and NaT."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def twice(got: object, where: str = "") -> ValueError:
    """Build the error of a table that has two columns of one name."""
    hint = "rename or leave out one of them"
    return error("a table must name each of its columns once", got=got, where=where, hint=hint)


def named_once(names: Sequence[str], where: str = "") -> None:
    """Refuse a table with two columns of one name: one of them would be taken for the other, or for a feature."""
    if len(set(names)) < len(names):
        again = next(name for place, name in enumerate(names) if name in names[:place])
        raise twice(f"{again!r} again", where)


def not_utf8(content: bytes, where: str) -> ValueError:
    """Build the error of text in another encoding than UTF-8, and name the one that it seems to be in."""
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    encoding, name = ("UTF-16", "UTF-16") if wide else ("Latin-1 or Windows-1252", "WINDOWS-1252")
    hint = f"save it as UTF-8, for example with iconv -f {name} -t UTF-8"
    return error("text must be UTF-8", got=f"what looks like {encoding}", where=where, hint=hint)


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
        if type(broken).__name__ == "DuplicateError":  # polars' own
            raise twice(got, where) from None
        raise error(f"cannot read {what}", got=got, where=where, hint=hint) from broken


def suggestion(word: str, known: Iterable[str], *, most: int = 1) -> str:
    """Name the nearest known word (or so many), or list them all when none is near.

    >>> suggestion("ndgc", ["ndcg", "ap"])
    "did you mean 'ndcg'?"
    >>> suggestion("xyz", ["ndcg", "ap"])
    'choose one of ndcg, ap'
    >>> suggestion("bpreff", ["bpref", "Bpref", "ap"], most=3)
    "did you mean 'bpref' or 'Bpref'?"
    """
    known = list(known)
    *others, last = [repr(name) for name in difflib.get_close_matches(word, known, n=most)] or [""]
    if not last:
        return f"choose one of {', '.join(known)}"
    return f"did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
