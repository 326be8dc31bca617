"""The formulas of features, word by word and in plain Python: slow, and written from their definitions."""

import math
from itertools import combinations, product

K1, B, MU = 1.2, 0.75, 2000.0
KINDS = ("bm25", "lm", "tfidf", "found", "found_idf", "window", "phrase", "first", "length")


class Field:
    """A field of all documents: lists of words."""

    def __init__(self, texts: list[list[str]]) -> None:
        self.texts = texts
        self.filled = [text for text in texts if text]
        self.words = [word for text in texts for word in text]

    def idf(self, word: str) -> float:
        df = sum(word in text for text in self.texts)
        return math.log(1 + (len(self.filled) - df + 0.5) / (df + 0.5))

    def mean(self) -> float:
        return len(self.words) / len(self.filled) if self.filled else 1.0

    def bm25(self, query: list[str], text: list[str]) -> float:
        norm = K1 * (1 - B + B * len(text) / self.mean())
        return sum(self.idf(w) * text.count(w) * (K1 + 1) / (text.count(w) + norm) for w in query)

    def lm(self, query: list[str], text: list[str]) -> float:
        total = 0.0
        for word in query:
            if p := self.words.count(word) / max(len(self.words), 1):
                # log of (tf + mu p) / (length + mu), less log p, which is the same for all documents
                total += math.log((text.count(word) + MU * p) / (len(text) + MU) / p)
        return total

    def tfidf(self, query: list[str], text: list[str]) -> float:
        def vector(words: list[str]) -> dict[str, float]:
            return {w: (1 + math.log(words.count(w))) * self.idf(w) for w in words}

        asked, has = vector(query), vector(text)
        length = math.hypot(*asked.values()) * math.hypot(*has.values())
        return sum(asked[w] * has.get(w, 0.0) for w in asked) / length if length else 0.0

    def found(self, query: list[str], text: list[str]) -> float:
        return sum(w in text for w in {*query}) / len({*query}) if query else 0.0

    def found_idf(self, query: list[str], text: list[str]) -> float:
        total = sum(self.idf(w) for w in {*query})
        return sum(self.idf(w) for w in {*query} if w in text) / total if total else 0.0

    def window(self, query: list[str], text: list[str]) -> float:
        wanted = {*query} & {*text}
        spans = (j - i for i, j in combinations(range(len(text) + 1), 2) if wanted <= {*text[i:j]})
        return min(spans) if wanted else math.nan

    def phrase(self, query: list[str], text: list[str], said: list[str]) -> float:
        return float(bool(said) and any(text[i : i + len(said)] == said for i in range(len(text))))

    def first(self, query: list[str], text: list[str]) -> float:
        return next((float(i) for i, word in enumerate(text) if word in query), math.nan)

    def length(self, query: list[str], text: list[str]) -> float:
        return float(len(text))


def features(fields: dict[str, list[list[str]]], said: list[str], document: int) -> dict[str, float]:
    """Return the features of a query, all that it says, with a document; fields are lists of words."""
    known = {word for texts in fields.values() for text in texts for word in text}
    query, values = [word for word in said if word in known], {}
    of = {name: Field(texts) for name, texts in fields.items()}
    for (name, field), kind in product(of.items(), KINDS):
        more = (said,) if kind == "phrase" else ()
        values[f"{kind}({name})"] = getattr(field, kind)(query, field.texts[document], *more)
    lowest = [min(field.idf(word) for field in of.values()) for word in {*query}]
    return values | {"query_words": len(lowest), "query_idf": sum(lowest), "query_idf_max": max(lowest, default=0.0)}
