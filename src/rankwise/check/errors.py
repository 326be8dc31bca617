"""Errors about input: built from what, got, where and hint; errors of libraries and hints rewritten into that form."""

import contextlib
import difflib
import errno
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

_FILE_ERRORS = (FileNotFoundError, FileExistsError, IsADirectoryError)  # ours, without an errno
_QUOTED = 200  # characters of a library's error that ours quotes
_ROW = re.compile(r"\bat row (\d+)\b")
Write = Callable[[str, str], str | None]
"""From the name and the value of a Python argument to other words; None leaves the argument as it is."""

_ARGUMENT = re.compile(
    r"""(?:(?<!-)\b(?P<verb>set|pass|allow\ it\ with|with)\ )?
        \b(?P<name>[a-z_]+)=
        (?P<value>'[^']*'|"[^"]*"|\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|…|[\w.+-]*\w)?""",
    re.VERBOSE,
)
_OPTION = re.compile(r"--[a-z-]+ '?$")


def error(what: str, *, got: object = None, where: str = "", hint: str = "") -> ValueError:
    """Build an error about input.

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
    """Build the TypeError of an argument that a method does not have.

    >>> print(unexpected("fit", "eval_set", "pass valid="))
    fit has no argument 'eval_set'. Hint: pass valid=.
    """
    return TypeError(printable(f"{method} has no argument {name!r}. Hint: {hint}."))


def printable(text: str) -> str:
    r"""Escape control characters: cursor movements, colours, line breaks, direction of text.

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
    """Prefix errors of a ``with`` block with the file that they are about, unless they name it already."""
    try:
        yield
    except ValueError as wrong:
        name = printable(str(place))
        if type(wrong) is ValueError and re.search(rf"(?:at|of|:) {re.escape(name)}(?:[,.:; ]|$)", str(wrong)):
            raise
        raise ValueError(f"{name}: {printable(str(wrong))}") from wrong


def placing(place: Callable[[int], str]) -> contextlib.AbstractContextManager[None]:
    """Replace the number of a row in errors of a ``with`` block by its origin, such as the line of a file."""
    return _rewriting(lambda text: _ROW.sub(lambda row: f"at {place(int(row[1]))}", text))


@contextlib.contextmanager
def _rewriting(rewrite: Callable[[str], str]) -> Iterator[None]:
    try:
        yield
    except ValueError as wrong:
        text = rewrite(str(wrong))
        if type(wrong) is not ValueError or text == str(wrong):
            raise
        raise ValueError(text) from wrong


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
    """Raise if a table has two columns of one name: one would be read as the other, or as a feature."""
    if len(set(names)) < len(names):
        repeated = next(name for place, name in enumerate(names) if name in names[:place])
        raise twice(f"{repeated!r} again", where)


def not_utf8(content: bytes, where: str) -> ValueError:
    """Build the error of text that is not UTF-8; it names the likely encoding."""
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    encoding, name = ("UTF-16", "UTF-16") if wide else ("Latin-1 or Windows-1252", "WINDOWS-1252")
    hint = f"save it as UTF-8, for example with iconv -f {name} -t UTF-8"
    return error("text must be UTF-8", got=f"what looks like {encoding}", where=where, hint=hint)


@contextlib.contextmanager
def library(
    what: str, path: object, *, also: bool = False, hint: str = "get the file again, or write it anew"
) -> Iterator[None]:
    """Replace errors of a library in a ``with`` block by one that names the file that it could not read.

    ``path`` may be a function that returns it. With ``also`` a ValueError is one of ours, and is not replaced.
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
        if type(broken).__name__ == "DuplicateError":  # of polars
            raise twice(got, where) from None
        raise error(f"cannot read {what}", got=got, where=where, hint=hint) from broken


def suggestion(word: str, choices: Iterable[str], *, most: int = 1) -> str:
    """Return the hint with the closest choices, up to ``most``, or with all of them if none is close.

    >>> suggestion("ndgc", ["ndcg", "ap"])
    "did you mean 'ndcg'?"
    >>> suggestion("xyz", ["ndcg", "ap"])
    'choose one of ndcg, ap'
    >>> suggestion("bpreff", ["bpref", "Bpref", "ap"], most=3)
    "did you mean 'bpref' or 'Bpref'?"
    """
    choices = list(choices)
    *close, last = [repr(name) for name in difflib.get_close_matches(word, choices, n=most)] or [""]
    if not last:
        return f"choose one of {', '.join(choices)}"
    return f"did you mean {', '.join(close)}{' or ' if close else ''}{last}?"


def translated(sentence: str, write: Write, verb: str) -> str:
    """Rewrite the arguments that a hint names in the words of the command line or of a TOML file.

    Arguments inside a call, an expression or an option are left as they are. ``verb`` replaces "set" and "pass".

    >>> option = lambda name, value: f"--{name}"
    >>> translated("two of a=1. Hint: set all=True, or use ndcg(gain=linear)@10.", option, "add")
    'two of a=1. Hint: add --all, or use ndcg(gain=linear)@10.'
    >>> translated("no model. Hint: name it: --model als --set factors=32.", option, "add")
    'no model. Hint: name it: --model als --set factors=32.'
    """
    before, mark, hint = sentence.partition("Hint: ")
    if not mark:
        return sentence
    depths = _depths(hint)

    def argument(match: re.Match[str]) -> str:
        if _OPTION.search(hint, 0, match.start()):
            return match[0]
        written = None if depths[match.start("name")] else write(match["name"], match["value"] or "")
        if written is None:
            return match[0]
        verbs = {"set": verb, "pass": verb}
        return written if match["verb"] is None else f"{verbs.get(match['verb'], match['verb'])} {written}"

    return before + mark + _ARGUMENT.sub(argument, hint)


def hints(write: Write, verb: str) -> contextlib.AbstractContextManager[None]:
    """Rewrite the hints of errors of a ``with`` block by :func:`translated`."""
    return _rewriting(lambda text: translated(text, write, verb))


def _depths(text: str) -> list[int]:
    """Return the number of open parentheses of calls at each character.

    >>> _depths("a(b)c")
    [0, 0, 1, 1, 0]
    """
    depths, depth = [], 0
    for place, letter in enumerate(text):
        if letter == ")" and depth:
            depths.append(depth)
            depth -= 1
            continue
        depths.append(depth)
        if letter == "(" and (depth or text[place - 1 : place].isidentifier()):
            depth += 1
    return depths
