"""From a text to words: what documents, queries and explanations call the same word."""

import html.parser
import re
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Annotated, Any

from rankwise import check
from rankwise.check.parameters import AtLeast, Unset, check_declared

_WORD = re.compile(r"\w+")
_JOINERS = dict.fromkeys(map(ord, "\u00ad\u200c\u200d\ufe0e\ufe0f"))
"""Soft hyphens, joiners and variants, which are inside of words and are not seen."""
_MARKED = re.compile(r"<!\[(?!CDATA\[)")
"""Marked sections other than CDATA, which the parser of Python does not take."""
_STEMMING = threading.Lock()
"""Stemmers keep the word that they are at, and services search in several threads."""
_KEPT = 1 << 20
"""Distinct words whose terms are remembered."""
ENGLISH = frozenset(
    """a an and are as at be but by for if in into is it no not of on or such that the their then there these they this
    to was will with""".split()  # noqa: SIM905
)
"""Stop words of English, as search engines leave them out."""


@dataclass(frozen=True, kw_only=True)
class Analyzer:
    """Words of a text: runs of letters, digits and underscores, without case and in Unicode's compatible form.

    Marks belong to the letters before them, as vowels of Hindi and Thai; soft hyphens and joiners are nothing.

    Documents keep their analyzer, so that training and service read a text alike.

    >>> Analyzer()("Naïve Bayes: nanMedian(x_1)")
    ['naïve', 'bayes', 'nan', 'median', 'x', '1']
    >>> Analyzer(ngrams=2)("東京都")
    ['東京', '京都']
    >>> Analyzer(html=True, stop="english")("<p>The caf&eacute;</p>")
    ['café']
    """

    split: Annotated[bool, "Whether nanMedian and nan_median are two words, as in code."] = True
    stem: Annotated[str | None, "Language whose words lose their endings, such as english; needs snowballstemmer."] = (
        None
    )
    stop: Annotated[Sequence[str] | str, "Words that are left out, or english."] = ()
    ngrams: Annotated[
        int | None, AtLeast(1), Unset("whole words"), "Characters of the pieces of words, for scripts without spaces."
    ] = None
    html: Annotated[bool, "Whether tags are removed and entities decoded."] = False

    def __post_init__(self) -> None:
        """Check the values."""
        check_declared(self)
        if isinstance(self.stop, str):
            check.choice("stop", self.stop, ["english"])
        else:
            object.__setattr__(self, "stop", tuple(map(str, self.stop)))
        if self.stem is not None:
            self._stemmed  # noqa: B018 (an unknown language is refused now)

    def __call__(self, text: str) -> list[str]:
        """Return the words of a text."""
        return [term for word in self.raw(text) for term in self.terms(word)]

    def raw(self, text: str) -> list[str]:
        """Return the runs of letters in a text, as they stand: :meth:`terms` makes words of each."""
        text = self.plain(text)
        return _words_of(text).findall(text)

    def plain(self, text: str) -> str:
        """Return a text as its words are read: in Unicode's compatible form, without tags if there may be some."""
        if self.html and ("<" in text or "&" in text):
            text = _plain(text)
        return text if text.isascii() else unicodedata.normalize("NFKC", text.translate(_JOINERS))

    def runs(self, text: str) -> Iterator[tuple[int, str]]:
        """Iterate over the runs of letters in a text that :meth:`plain` returned, with their places."""
        return ((match.start(), match.group()) for match in _words_of(text).finditer(text))

    def terms(self, word: str) -> tuple[str, ...]:
        """Return the words that a run of letters stands for; none for a stop word."""
        kept = self._terms.get(word)
        if kept is None:
            kept = tuple(self._analyzed(word))
            if len(self._terms) < _KEPT:
                self._terms[word] = kept
        return kept

    @cached_property
    def _terms(self) -> dict[str, tuple[str, ...]]:
        return {}

    def _analyzed(self, word: str) -> Iterator[str]:
        for part in _parts(word) if self.split else [word]:
            lower = part.casefold()
            if lower in self._stopped:
                continue
            lower = self._stemmed(lower)
            if self.ngrams is None or len(lower) <= self.ngrams:
                yield lower
            else:
                yield from (lower[i : i + self.ngrams] for i in range(len(lower) - self.ngrams + 1))

    @cached_property
    def _stopped(self) -> frozenset[str]:
        return ENGLISH if self.stop == "english" else frozenset(self.stop)

    @cached_property
    def _stemmed(self) -> Callable[[str], str]:
        if self.stem is None:
            return str
        snowballstemmer: Any = check.optional("snowballstemmer", "text")
        check.choice("stem", self.stem, list(snowballstemmer.algorithms()))
        return partial(_stem, snowballstemmer.stemmer(self.stem).stemWord)


def _words_of(text: str) -> re.Pattern[str]:
    """Return what a word is in a text: Python counts no marks among letters, and a search with them is slower."""
    if text.isascii():
        return _WORD
    mark, word = _marks()
    return word if mark.search(text) else _WORD


@cache
def _marks() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return marks that are written with letters, and runs of letters with them."""
    marks = "".join(one for one in map(chr, range(0x300, 0x1F000)) if unicodedata.category(one) in ("Mn", "Mc"))
    return re.compile(f"[{marks}]"), re.compile(rf"\w[\w{marks}]*")


def _stem(stemmed: Callable[[str], str], word: str) -> str:
    with _STEMMING:
        return stemmed(word)


def _parts(word: str) -> list[str]:
    """Split ``nan_median`` and ``nanMedian``; ``HTTPServer`` is two words, ``float64`` is one."""
    parts = []
    for piece in word.split("_"):
        if piece.islower() or piece.isdecimal():
            parts.append(piece)
            continue
        start = 0
        for place in range(1, len(piece)):
            before, here, after = piece[place - 1], piece[place], piece[place + 1 : place + 2]
            if here.isupper() and (before.islower() or (before.isupper() and after.islower())):
                parts.append(piece[start:place])
                start = place
        parts.append(piece[start:])
    return [part for part in parts if part]


class _Text(html.parser.HTMLParser):
    """What a page shows: its text without tags, scripts and styles."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._hidden = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.pieces.append(" ")
        self._hidden = self._hidden or (tag if tag in ("script", "style") else "")

    def handle_endtag(self, tag: str) -> None:
        self.pieces.append(" ")
        self._hidden = "" if tag == self._hidden else self._hidden

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.pieces.append(data)


def _plain(text: str) -> str:
    parser = _Text()
    parser.feed(_MARKED.sub(" ", text))
    parser.close()
    return "".join(parser.pieces)
