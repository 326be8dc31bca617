"""Fuzzing of readers: valid files are damaged at random, and every reader must read them or raise one clear error.

Every case has random numbers of its own, made from the seed and the number of the case, so that one that fails is
repeated by ``RANKWISE_FUZZ_SEED`` alone. By default a tenth of the cases is run (``tests.tiers``);
``RANKWISE_FUZZ_CASES`` asks for a number of its own.
"""

import os
import random
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from rankwise import check
from tests import tiers

SEED = int(os.environ.get("RANKWISE_FUZZ_SEED", "0"))
asked: list[int] = []
"""How many cases the tests of this run asked for."""
_BYTES = (
    b"\0",
    b"\n",
    b"\r\n",
    b" ",
    b"\t",
    b'"',
    b",",
    b"\x1b[2J",
    b"\x7f",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xae",
)
_NUMBERS = (
    b"-1",
    b"1e400",
    b"-1e400",
    b"nan",
    b"inf",
    b"9" * 30,
    b"1e-400",
    b"0x10",
    b"1_0",
    b"\xd9\xa3",
    b"--5",
    b".",
)


def cases(usual: int) -> Iterator[tuple[str, random.Random]]:
    """Give the random numbers of every case, with the words that say how to repeat it."""
    return map(_case, range(_count(usual)))


def _count(usual: int) -> int:
    asked.append(int(os.environ.get("RANKWISE_FUZZ_CASES", tiers.share(usual))))
    return asked[-1]


def _case(number: int) -> tuple[str, random.Random]:
    return f"case {number} of RANKWISE_FUZZ_SEED={SEED}", random.Random(f"{SEED}/{number}")  # noqa: S311


def damaged(content: bytes, chance: random.Random, words: Sequence[bytes] = ()) -> bytes:
    """Damage a file in one to three places; ``words`` are put in besides what confuses readers in general."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        content = chance.choice(_DAMAGES)(content, chance, (*words, *_BYTES, *_NUMBERS))
    return content


def holds(
    read: Callable[[Path], object],
    samples: Sequence[bytes],
    path: Path,
    *,
    words: Sequence[bytes] = (),
    usual: int = 500,
) -> None:
    """Write damaged ``samples`` to ``path``; ``read(path)`` must take each of them as :func:`complaint` asks."""
    for number in range(_count(usual)):
        _hold(read, samples, path, words, number)


def holds_apart(
    read: Callable[[Path], object],
    samples: Sequence[bytes],
    path: Path,
    *,
    words: Sequence[bytes] = (),
    usual: int = 500,
) -> None:
    """Do so in a process of its own, which native code may end in two of a thousand cases, or of fewer."""
    note = path.with_suffix(".number")
    note.write_text("0")
    count, ended = _count(usual), 0
    while int(note.read_text()) < count:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            try:
                pool.submit(_go_on, read, samples, path, words, note, count).result()
            except BrokenProcessPool:
                ended += 1
                case, _ = _case(int(note.read_text()) - 1)
                assert ended <= 2 * max(1, count / 1000), f"the process ended in {case}, the {ended}th time"


def _go_on(
    read: Callable[[Path], object],
    samples: Sequence[bytes],
    path: Path,
    words: Sequence[bytes],
    note: Path,
    count: int,
) -> None:
    """Hold the cases from the one that is noted on; each is over for the next process as soon as it begins."""
    for number in range(int(note.read_text()), count):
        note.write_text(str(number + 1))
        _hold(read, samples, path, words, number)


def _hold(
    read: Callable[[Path], object], samples: Sequence[bytes], path: Path, words: Sequence[bytes], number: int
) -> None:
    case, chance = _case(number)
    content = damaged(chance.choice(samples), chance, words)
    path.write_bytes(content)
    wrong = complaint(read, path)
    assert wrong is None, f"{wrong}\n{case}, {len(content)} bytes: {content[:400]!r}"


def complaint(read: Callable[[Path], object], path: Path) -> str | None:
    """Say what is wrong with how a file was taken: None if it was read, or refused by an error as ours must be.

    That is an InputError, which names the file, and prints on a terminal
    as one line.
    """
    try:
        read(path)
    except Exception as raised:
        text = str(raised)
        if not isinstance(raised, check.InputError):
            return f"leaked {type(raised).__module__}.{type(raised).__name__}: {text}"
        if path.name not in text:
            return f"the error does not name {path.name}: {text}"
        unsafe = [letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
        return f"the error has the control characters {unsafe!r}: {text!r}" if unsafe else None
    except BaseException as raised:
        if isinstance(raised, KeyboardInterrupt | SystemExit):
            raise
        return f"leaked {type(raised).__name__}: {raised}"  # such as a panic of polars
    return None


# One kind of damage each: (content, random numbers, words that may be put in).


def _flip(content: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    if not content:
        return content
    at = chance.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]


def _cut(content: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    return content[: chance.randint(0, len(content))]


def _drop(content: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    at, end = _span(content, chance)
    return content[:at] + content[end:]


def _repeat(content: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    at, end = _span(content, chance)
    return content[:end] + content[at:end] * chance.choice((1, 1, 50)) + content[end:]


def _move(content: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    at, end = _span(content, chance)
    to = chance.randint(0, len(content))
    return content[:to] + content[at:end] + content[to:]


def _insert(content: bytes, chance: random.Random, words: Sequence[bytes]) -> bytes:
    at = chance.randint(0, len(content))
    return content[:at] + chance.choice((chance.choice(words), chance.randbytes(chance.randint(1, 8)))) + content[at:]


def _replace_number(content: bytes, chance: random.Random, words: Sequence[bytes]) -> bytes:
    found = list(re.finditer(rb"[-+.\deE]*\d[-+.\deE]*", content))
    if not found:
        return _insert(content, chance, words)
    at, end = chance.choice(found).span()
    return content[:at] + chance.choice(words) + content[end:]


def _span(content: bytes, chance: random.Random) -> tuple[int, int]:
    at = chance.randint(0, len(content))
    return at, min(len(content), at + chance.choice((1, 2, 8, 64)))


_DAMAGES = (_flip, _flip, _cut, _drop, _repeat, _move, _insert, _insert, _replace_number, _replace_number)
