"""Notes on the conventions that metrics follow, in words."""

from collections.abc import Mapping, Sequence

from rankwise.metrics.base import Metric
from rankwise.metrics.conventions import OWN, convention_of

_OURS = (
    " Gains are 2^y − 1, ties are averaged; for trec_eval's numbers write its names, such as ndcg_cut_10 and map, or "
    "add --conventions trec_eval."
)


def by_convention(metrics: Mapping[str, Metric], conventions: str | None = None) -> dict[str, list[str]]:
    """Return the metrics, by their names, of each library whose conventions they follow, in full."""
    described: dict[str, list[str]] = {}
    for text, metric in metrics.items():
        described.setdefault(conventions or convention_of(text), []).append(str(metric))
    return described


def in_words(library: str, expressions: Sequence[str], *, chosen: bool) -> str:
    """Return a note on the conventions that these metrics follow; ``chosen`` is whether the user named the library."""
    note = f"Conventions of {library}: {', '.join(dict.fromkeys(expressions))}."
    return note if chosen or library != OWN else note + _OURS
