"""Errors about input: built from what, got, where and hint; errors of libraries and hints rewritten into that form."""

import contextlib
import difflib
import errno
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Self

_FILE_ERRORS = (FileNotFoundError, FileExistsError, IsADirectoryError)  # ours, without an errno
_QUOTED = 200  # characters of a library's error that ours quotes
_ROW = re.compile(r"\bat row (\d+)\b")
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
Write = Callable[[str, str | None], str | None]
"""From an argument and its value, None where it is only named, to other words; None leaves it as it is in Python."""

_MARK = re.compile(r"""`((?:'[^']*'|"[^"]*"|[^`'"|])*)(?:\|([^`]*))?`""")  # as in Python, and in the shell
_ARGUMENT = re.compile(r"(set |pass )?([a-z_]+)(?:=(.*))?")


class Sentence(str):
    """The text of an error or a warning, with a hint that marks the arguments that it names.

    The command line writes marked arguments as options, and descriptions of data sets as keys. A mark is an argument,
    after "set" or "pass" if the hint says that, or the words of Python and of the command line, which may be empty.

    >>> Sentence("no labels.", "`set label=…`, or judge them` (rw.trec.join)|`")
    'no labels. Hint: set label=…, or judge them (rw.trec.join).'
    """

    start: str
    """What is before the hint."""
    hint: str
    """The hint with its marks."""

    def __new__(cls, start: str, hint: str = "") -> Self:
        """Build the text from what is wrong and the hint."""
        space = "" if start.endswith("\n") else " "
        self = super().__new__(cls, start + (f"{space}Hint: {_MARK.sub(lambda mark: mark[1], hint)}." if hint else ""))
        self.start, self.hint = start, hint
        return self

    @classmethod
    def of(cls, raised: BaseException) -> Self:
        """Return the sentence of an error or a warning."""
        text = raised.args[0] if len(raised.args) == 1 else None
        return text if isinstance(text, cls) else cls(str(raised))

    def rewritten(self, write: Write, verb: str, shell: Callable[[str], bool] | None = None) -> Self:
        """Rewrite marked arguments; ``verb`` replaces "set" and "pass".

        Words of the command line replace those of Python where ``shell`` allows them.

        >>> Sentence("two.", "`set all=True`, or gain=1").rewritten(lambda name, value: f"--{name}", "add")
        'two. Hint: add --all, or gain=1.'
        """

        def words(mark: re.Match[str]) -> str:
            if mark[2] is not None:
                return f"`{mark[2]}`" if shell and shell(mark[2]) else mark[0]
            argument = _ARGUMENT.fullmatch(mark[1])
            if argument is None or (written := write(argument[2], argument[3])) is None:
                return mark[0]
            return f"`{verb} {written}`" if argument[1] else f"`{written}`"

        return type(self)(self.start, _MARK.sub(words, self.hint))


def error(what: str, *, got: object = None, where: str = "", hint: str = "") -> ValueError:
    """Build an error about input; arguments that the hint names may be marked, see :class:`Sentence`.

    >>> print(error("labels must be finite", got="nan", where="row 3 (query 'a')", hint="drop or relabel the document"))
    labels must be finite: got nan at row 3 (query 'a'). Hint: drop or relabel the document.
    """
    text = what
    if got is not None:
        text += f": got {got}"
    if where:
        text += f" at {where}" if got is not None else f": {where}"
    return ValueError(Sentence(printable(f"{text}."), printable(hint)))


def unexpected(method: str, name: str, hint: str) -> TypeError:
    """Build the TypeError of an argument that a method does not have.

    >>> print(unexpected("fit", "eval_set", "pass valid="))
    fit has no argument 'eval_set'. Hint: pass valid=.
    """
    return TypeError(Sentence(printable(f"{method} has no argument {name!r}."), hint))


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
        if type(wrong) is ValueError and re.search(rf"(?:at|of|:) {re.escape(name)}(?:[,.:; ]|$)", str(wrong)):
            raise
        raise ValueError(prefixed(name, wrong)) from wrong


def prefixed(place: str, wrong: ValueError) -> Sentence:
    """Return the sentence of an error with the place that it is about before it."""
    sentence = Sentence.of(wrong)
    return Sentence(f"{place}: {printable(sentence.start)}", sentence.hint)


def placing(place: Callable[[int], str]) -> contextlib.AbstractContextManager[None]:
    """Replace the number of a row in errors of a ``with`` block by its origin, such as the line of a file."""
    return _rewriting(
        lambda sentence: Sentence(_ROW.sub(lambda row: f"at {place(int(row[1]))}", sentence.start), sentence.hint)
    )


def renaming(name: str, other: str) -> contextlib.AbstractContextManager[None]:
    """Replace a name in errors of a ``with`` block by another, such as that of a copy by that of its source."""
    return _rewriting(lambda sentence: Sentence(sentence.start.replace(name, other), sentence.hint))


def hints(write: Write, verb: str) -> contextlib.AbstractContextManager[None]:
    """Rewrite the hints of errors of a ``with`` block by :meth:`Sentence.rewritten`."""
    return _rewriting(lambda sentence: sentence.rewritten(write, verb))


def also_hint(hint: str) -> contextlib.AbstractContextManager[None]:
    """Add a hint to errors of a ``with`` block."""
    return _rewriting(lambda sentence: Sentence(sentence.start, f"{sentence.hint}; {hint}" if sentence.hint else hint))


@contextlib.contextmanager
def _rewriting(rewrite: Callable[[Sentence], Sentence]) -> Iterator[None]:
    try:
        yield
    except ValueError as wrong:
        sentence = rewrite(Sentence.of(wrong))
        if type(wrong) is not ValueError or sentence == str(wrong):
            raise
        raise ValueError(sentence) from wrong


def is_missing(value: object) -> bool:
    """Whether a Python object stands for a missing value: None, NaN, or pandas' NA and NaT."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def named_once(names: Sequence[str], where: str = "") -> None:
    """Raise if a table has two columns of one name: one would be read as the other, or as a feature."""
    if len(set(names)) < len(names):
        repeated = next(name for place, name in enumerate(names) if name in names[:place])
        raise error(_TWICE, got=f"{repeated!r} again", where=where, hint=_RENAME)


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
            raise error(_TWICE, got=got, where=where, hint=_RENAME) from None
        raise error(f"cannot read {what}", got=got, where=where, hint=hint) from broken


def suggestion(word: str, choices: Iterable[str], *, most: int = 1, arguments: bool = False) -> str:
    """Return the hint with the closest choices, up to ``most``, or with all of them if none is close.

    Close ones that are ``arguments`` are marked, see :class:`Sentence`.

    >>> suggestion("ndgc", ["ndcg", "ap"])
    "did you mean 'ndcg'?"
    >>> suggestion("xyz", ["ndcg", "ap"])
    'choose one of ndcg, ap'
    >>> suggestion("bpreff", ["bpref", "Bpref", "ap"], most=3)
    "did you mean 'bpref' or 'Bpref'?"
    """
    choices = list(choices)
    near = difflib.get_close_matches(word, choices, n=most)
    *close, last = [f"'`{name}`'" if arguments else repr(name) for name in near] or [""]
    if not last:
        return f"choose one of {', '.join(choices)}"
    return f"did you mean {', '.join(close)}{' or ' if close else ''}{last}?"
