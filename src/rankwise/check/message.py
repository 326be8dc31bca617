"""What an error or a warning says, as a value: what is wrong, what was found, where it is, and a hint."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

Write = Callable[[str, str | None], str | None]
"""From an argument and its value, None where it is only named, to other words; None leaves it as it is in Python."""

_MARK = re.compile(r"""`((?:'[^']*'|"[^"]*"|[^`'"|])*)(?:\|([^`]*))?`""")  # as in Python, and in the shell
_ARGUMENT = re.compile(r"(set |pass )?([a-z_]+)(?:=(.*))?")


class Row(NamedTuple):
    """The place of a row by its number, which a reader of a file replaces by its line.

    >>> print(Row(3, " (query 'a')"))
    row 3 (query 'a')
    """

    number: int
    rest: str = ""

    def __str__(self) -> str:
        return f"row {self.number}{self.rest}"

    def placed(self, place: "Callable[[int], str | Row]") -> "str | Row":
        """Return the place by the origin of its row."""
        origin = place(self.number)
        return Row(origin.number, self.rest) if isinstance(origin, Row) else f"{origin}{self.rest}"


@dataclass(frozen=True, repr=False)
class Message:
    """The parts of a sentence, which is built by ``str``. It is the argument of an error.

    A hint may mark the arguments that it names. The command line writes marked arguments as options, and descriptions
    of data sets as keys. A mark is an argument, after "set" or "pass" if the hint says that, or the words of Python and
    of the command line, which may be empty.

    >>> print(Message("no labels", hint="`set label=…`, or judge them` (rw.trec.join)|`"))
    no labels. Hint: set label=…, or judge them (rw.trec.join).
    """

    what: str
    got: str | None = None
    where: str | Row = ""
    hint: str = ""
    """The hint with its marks."""
    about: str = ""
    """The file or the part that the sentence begins with."""
    end: str = "."

    @classmethod
    def of(cls, raised: BaseException) -> Self:
        """Return the message of an error or a warning; of one of another library, its text."""
        messages = (vars(raised).get("message"), *raised.args)
        return next((one for one in messages if isinstance(one, cls)), cls(str(raised), end=""))

    @property
    def plain(self) -> str:
        """The hint in the words of Python, without marks."""
        return _MARK.sub(lambda mark: mark[1], self.hint)

    @property
    def problem(self) -> str:
        """The sentence without the hint."""
        text = f"{self.about}: {self.what}" if self.about else self.what
        if self.got is not None:
            text += f": got {self.got}"
        if self.where:
            text += f" at {self.where}" if self.got is not None else f": {self.where}"
        return text + self.end

    def __repr__(self) -> str:
        return repr(str(self))  # of an error, then, as if it had a text

    def __str__(self) -> str:
        problem = self.problem
        if not self.hint:
            return problem
        return f"{problem}{'' if problem.endswith(chr(10)) else ' '}Hint: {self.plain}."

    def names(self, place: str) -> bool:
        """Whether the message says already that it is about a file or a part.

        >>> Message("wrong", where="a.csv, line 3").names("a.csv"), Message("wrong", where="a.csv.gz").names("a.csv")
        (True, False)
        """
        return any(f" {place}{mark}" in f" {self.where} " for mark in ",:; ")

    def changed(self, change: Callable[[str], str]) -> Self:
        """Return the message with other words in all parts but the hint."""
        where = self.where if isinstance(self.where, Row) else change(self.where)
        got = None if self.got is None else change(self.got)
        return replace(self, what=change(self.what), got=got, where=where, about=change(self.about))

    def rewritten(self, write: Write, verb: str, shell: Callable[[str], bool] | None = None) -> Self:
        """Rewrite marked arguments of the hint; ``verb`` replaces "set" and "pass".

        Words of the command line replace those of Python where ``shell`` allows them.

        >>> print(Message("two", hint="`set all=True`, or gain=1").rewritten(lambda name, value: f"--{name}", "add"))
        two. Hint: add --all, or gain=1.
        """

        def words(mark: re.Match[str]) -> str:
            if mark[2] is not None:
                return f"`{mark[2]}`" if shell and shell(mark[2]) else mark[0]
            argument = _ARGUMENT.fullmatch(mark[1])
            if argument is None or (written := write(argument[2], argument[3])) is None:
                return mark[0]
            return f"`{verb} {written}`" if argument[1] else f"`{written}`"

        return replace(self, hint=_MARK.sub(words, self.hint))
