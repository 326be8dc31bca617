"""Arguments that hints name, in the words of the place where the user is: Python, the command line, a TOML file."""

import contextlib
import re
from collections.abc import Callable, Iterator

Write = Callable[[str, str], str | None]
"""From an argument's name and value, either of which is as Python has it, to other words; None leaves it as it is."""

_ARGUMENT = re.compile(
    r"""(?:(?<!-)\b(?P<verb>set|pass|allow\ it\ with|with)\ )?
        \b(?P<name>[a-z_]+)=
        (?P<value>'[^']*'|"[^"]*"|\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|…|[\w.+-]*\w)?""",
    re.VERBOSE,
)
_OPTION = re.compile(r"--[a-z-]+ '?$")


def translated(sentence: str, write: Write, verb: str) -> str:
    """Write the arguments that a hint names in other words; what is before the hint stays as it is.

    Those inside of a call or an expression are its own, and so are those of an option. ``verb`` takes the place of
    "set" and "pass".

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


@contextlib.contextmanager
def hints(write: Write, verb: str) -> Iterator[None]:
    """Translate the hints of errors about input."""
    try:
        yield
    except ValueError as wrong:
        text = str(wrong)
        if type(wrong) is not ValueError or translated(text, write, verb) == text:
            raise
        raise ValueError(translated(text, write, verb)) from wrong


def _depths(text: str) -> list[int]:
    """How many brackets of a call are open at each letter.

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
