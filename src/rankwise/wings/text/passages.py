"""What is shown of a document: its title, and the passage with most words of the query, which are marked."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from rankwise.wings.text.analyzer import ENGLISH, Analyzer
from rankwise.wings.text.documents import Documents

_LETTERS = 240
_BEFORE = 50
"""Letters before the first word of a passage."""
_READ = 50_000
"""Letters of a field in which words are looked for."""
_SHORT = 30
"""Letters of a field that tells too little to be shown alone."""


def shown(pages: Documents, texts: Mapping[str, str], words: AbstractSet[str]) -> tuple[list[str], list[str]]:
    """Return the title of a document, its first field, and the best passage of the others.

    Each is a list of pieces of text, of which the second, the fourth and so on are words of the query.
    """
    words = words - ENGLISH or words
    field, *others = pages.fields
    title = pages.analyzer.plain(texts.get(field, "")) if others else ""
    first = True
    best: tuple[tuple[int, bool], list[str]] = ((-1, False), [])
    for one in others or [field]:
        if texts.get(one):
            found, pieces = _passage(pages.analyzer, texts[one], words)
            long = len(texts[one]) >= _SHORT
            first, found = first and not long, found + (first and long)  # a summary comes before the rest
            best = max(best, ((found, long), pieces), key=lambda pair: pair[0])
    return _pieces(title, _marks(pages.analyzer, title, words)) if title else [], best[1]


def _passage(analyzer: Analyzer, text: str, words: AbstractSet[str]) -> tuple[int, list[str]]:
    """Return how many distinct words of the query a passage has, and its pieces."""
    text = " ".join(analyzer.plain(text[:_READ]).split())
    marks = list(_marks(analyzer, text, words))
    most, best, stop, begin = 0, 0, 0, 0
    inside: dict[str, int] = {}
    for number, (_, end, word) in enumerate(marks):  # the first of the windows with most distinct words
        inside[word] = inside.get(word, 0) + 1
        while begin < number and end - marks[begin][0] > _LETTERS - _BEFORE:
            inside[marks[begin][2]] -= 1
            begin += 1
        if (distinct := sum(count > 0 for count in inside.values())) > most:
            most, best, stop = distinct, marks[begin][0], end
    first = 0 if stop <= _LETTERS else text.find(" ", best - _BEFORE, best) + 1 or best
    last = len(text) if len(text) <= first + _LETTERS else text.rfind(" ", first + _LETTERS // 2, first + _LETTERS)
    last = first + _LETTERS if last < 0 else last
    spans = [(start - first, end - first, word) for start, end, word in marks if start >= first and end <= last]
    pieces = _pieces(text[first:last], spans)
    pieces[0] = "… " * (first > 0) + pieces[0]
    pieces[-1] += " …" * (last < len(text))
    return most, pieces


def _marks(analyzer: Analyzer, text: str, words: AbstractSet[str]) -> Iterator[tuple[int, int, str]]:
    """Iterate over start, end and word of what the query says too."""
    for start, run in analyzer.runs(text):
        if analyzer.ngrams is None or len(run.casefold()) != len(run):
            if word := next((one for one in analyzer.terms(run) if one in words), ""):
                yield start, start + len(run), word
            continue
        end = 0  # of the pieces so far: those that overlap are one
        for place in range(max(len(run) - analyzer.ngrams, 0) + 1):
            piece = run[place : place + analyzer.ngrams].casefold()
            if piece in words:
                yield start + max(place, end), start + place + len(piece), piece
                end = place + len(piece)


def _pieces(text: str, marks: "Iterator[tuple[int, int, str]] | list[tuple[int, int, str]]") -> list[str]:
    pieces, end = [], 0
    for start, stop, _ in marks:
        pieces += [text[end:start], text[start:stop]]
        end = stop
    return [*pieces, text[end:]]
