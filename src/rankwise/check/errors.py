"""Errors about input: built from what, got, where and hint; errors of libraries and hints rewritten into that form."""

import contextlib
import difflib
import errno
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from rankwise.check.message import Message, Row, Write

_FILE_ERRORS = (FileNotFoundError, FileExistsError, IsADirectoryError)  # ours, without an errno
_QUOTED = 200  # characters of a library's error that ours quotes
_TWICE, _RENAME = "a table must name each of its columns once", "rename or leave out one of them"
_USER = re.compile(  # and a password; with a / or ? in it, where a port that is no number shows that it is one
    r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]+:(?://|/(?=[^/\s]*@)))"
    r"(?:[^/\s?#]*@|[^/\s:\[@]*:(?!\d{0,5}(?:[/\s'\"?#,;.)]|$))\S*@)"
)
_QUERY = re.compile(r"(?i)(?<![a-z0-9+.-])([a-z][a-z0-9+.-]+://[^\s'\"?#]*)[?#][^\s'\"]*")
_SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]+:/")  # with one slash where it was taken for a path
_BARE = re.compile(r"\?[^\s'\"]+")
_SIGNED = re.compile(
    r"(?i)([?&;][\w.%-]*(?:sig|token|secret|passw|pwd|credential|auth|jwt|key(?!w))[\w.%-]*=)[^&;\s'\"#]*[^&;\s'\"#.,:)]"
)


class InputError(ValueError):
    """Input that cannot be used; its text is the sentence of its fields."""

    @property
    def message(self) -> Message:
        """The parts of the sentence, with a hint that marks arguments."""
        return Message.of(self)

    @property
    def what(self) -> str:
        """The rule that the input breaks."""
        return self.message.what

    @property
    def got(self) -> str | None:
        """The value that was found instead, or None where the rule says all."""
        return self.message.got

    @property
    def where(self) -> str:
        """The place of the value, such as the line of a file; empty where there is none."""
        return str(self.message.where)

    @property
    def about(self) -> str:
        """The file or the part that the sentence begins with; empty where there is none."""
        return self.message.about

    @property
    def hint(self) -> str:
        """The advice to the user; empty where there is none."""
        return self.message.plain


InputError.__module__ = "rankwise.errors"  # the public place, which tracebacks show


def error(what: str, *, got: object = None, where: str | Row = "", hint: str = "") -> InputError:
    """Build an error about input; arguments that the hint names may be marked, see :class:`Message`.

    >>> print(error("labels must be finite", got="nan", where="row 3 (query 'a')", hint="drop or relabel the document"))
    labels must be finite: got nan at row 3 (query 'a'). Hint: drop or relabel the document.
    """
    place = Row(where.number, printable(where.rest)) if isinstance(where, Row) else printable(where)
    shown = None if got is None else printable(str(got))
    return InputError(Message(printable(what), shown, place, printable(hint)))


def unexpected(method: str, name: str, hint: str) -> TypeError:
    """Build the TypeError of an argument that a method does not have.

    >>> print(unexpected("fit", "eval_set", "pass valid="))
    fit has no argument 'eval_set'. Hint: pass valid=.
    """
    return TypeError(Message(printable(f"{method} has no argument {name!r}"), hint=hint))


def warn(what: str, *, hint: str = "", category: type[Warning] = UserWarning, stacklevel: int = 1) -> None:
    """Warn in the form of an error, with a hint that may mark arguments; ``stacklevel`` is that of the caller."""
    message = Message(what, hint=hint)
    warning = category(str(message))  # pytest.warns takes nothing but a text
    vars(warning)["message"] = message
    warnings.warn(warning, stacklevel=stacklevel + 1)


def address(url: str) -> str:
    """Return a URL without what may be secret in it.

    >>> address("https://me:password@host/train.parquet?signature=with a blank")
    'https://host/train.parquet'
    """
    if not _SCHEME.match(url):  # a path
        return url
    return _USER.sub(r"\1", url.replace(" ", "%20")).partition("?")[0].partition("#")[0]


def shown(text: str, url: str = "") -> str:
    """Return a message about URLs, or about this ``url``, without what may be secret in them.

    >>> shown("no https://me:password@host/train.parquet?signature=x today"), shown("train.parquet")
    ('no https://host/train.parquet today', 'train.parquet')
    """
    text = _QUERY.sub(r"\1", _USER.sub(r"\1", text.replace(url, address(url)) if url else text))
    return _BARE.sub("", text) if url else text


def printable(text: str) -> str:
    r"""Escape control characters: cursor movements, colours, line breaks, direction of text.

    Errors quote files and names that others wrote, and end up on terminals and in logs. Passwords and signatures of
    URLs are left out; other words of a query may be part of a document's id.

    >>> print(printable("a\x1b[2J\nb\u202ec"))
    a\x1b[2J\nb\u202ec
    >>> print(printable("https://me:password@host/a?id=3&token=x"))
    https://host/a?id=3&token=…
    """
    if ":/" in text or "=" in text:
        text = _SIGNED.sub(r"\1…", _USER.sub(r"\1", text))
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
        name = printable(address(str(place)))
        if isinstance(wrong, InputError) and wrong.message.names(name):
            raise
        raise prefixed(name, wrong) from wrong


def prefixed(place: str, wrong: ValueError) -> InputError:
    """Return an error with the place that it is about before its sentence."""
    message = Message.of(wrong).changed(printable)
    return InputError(replace(message, about=f"{place}: {message.about}" if message.about else place))


def placing(place: Callable[[int], str | Row]) -> contextlib.AbstractContextManager[None]:
    """Replace the number of a row in errors of a ``with`` block by its origin, such as the line of a file."""
    return _changing(
        lambda message: (
            replace(message, where=message.where.placed(place)) if isinstance(message.where, Row) else message
        )
    )


def renaming(name: str, other: str) -> contextlib.AbstractContextManager[None]:
    """Replace a name in errors of a ``with`` block by another, such as that of a copy by that of its source."""
    return _changing(lambda message: message.changed(lambda text: text.replace(name, other)))


def hints(write: Write, verb: str) -> contextlib.AbstractContextManager[None]:
    """Rewrite the hints of errors of a ``with`` block by :meth:`Message.rewritten`."""
    return _changing(lambda message: message.rewritten(write, verb))


def also_hint(hint: str) -> contextlib.AbstractContextManager[None]:
    """Add a hint to errors of a ``with`` block."""
    return _changing(lambda message: replace(message, hint=f"{message.hint}; {hint}" if message.hint else hint))


@contextlib.contextmanager
def _changing(change: Callable[[Message], Message]) -> Iterator[None]:
    try:
        yield
    except ValueError as wrong:
        message = Message.of(wrong)
        if type(wrong) not in (InputError, ValueError) or (changed := change(message)) == message:
            raise
        raise InputError(changed) from wrong


def is_missing(value: object) -> bool:
    """Whether a Python object stands for a missing value: None, NaN, or pandas' NA and NaT."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def require_unique_names(names: Sequence[str], where: str = "") -> None:
    """Raise if a table has two columns of one name: one would be read as the other, or as a feature."""
    if len(set(names)) < len(names):
        repeated = next(name for place, name in enumerate(names) if name in names[:place])
        raise error(_TWICE, got=f"{repeated!r} again", where=where, hint=_RENAME)


def not_utf8(content: bytes, where: str) -> InputError:
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

    ``path`` may be a function that returns it. With ``also`` an InputError is not replaced.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as broken:  # polars panics outside of Exception
        numbered = isinstance(broken, OSError) and broken.errno not in (None, errno.EINVAL)
        if numbered or type(broken) in _FILE_ERRORS or (also and isinstance(broken, InputError)):
            raise
        got = str(broken).strip().partition("\n")[0][:_QUOTED] or type(broken).__name__
        where = str(path() if callable(path) else path)
        if type(broken).__name__ == "DuplicateError":  # of polars
            raise error(_TWICE, got=got, where=where, hint=_RENAME) from None
        raise error(f"cannot read {what}", got=got, where=where, hint=hint) from broken


def suggestion(word: str, choices: Iterable[str], *, most: int = 1, arguments: bool = False) -> str:
    """Return the hint with the closest choices, up to ``most``, or with all of them if none is close.

    Close ones that are ``arguments`` are marked, see :class:`Message`.

    >>> suggestion("ndgc", ["ndcg", "ap"])
    "did you mean 'ndcg'"
    >>> suggestion("xyz", ["ndcg", "ap"])
    'choose one of ndcg, ap'
    >>> suggestion("bpreff", ["bpref", "Bpref", "ap"], most=3)
    "did you mean 'bpref' or 'Bpref'"
    """
    choices = list(choices)
    near = difflib.get_close_matches(word, choices, n=most)
    *close, last = [f"'`{name}`'" if arguments else repr(name) for name in near] or [""]
    if not last:
        return f"choose one of {', '.join(choices)}"
    return f"did you mean {', '.join(close)}{' or ' if close else ''}{last}"
