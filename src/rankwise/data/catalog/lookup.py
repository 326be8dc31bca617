"""Data sets looked up by name or alias, and listed."""

import re

from rankwise import check
from rankwise.data.catalog.entry import Entry
from rankwise.data.catalog.sets import ENTRIES


class Catalog(tuple[Entry, ...]):
    """Entries that print as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        rows: list[tuple[str, ...]] = [("name", "queries", "documents", "features", "labels", "folds", "download")]
        rows += [
            (
                entry.name,
                *(
                    "" if number is None else f"{number:,}"
                    for number in (entry.n_queries, entry.n_docs, entry.n_features)
                ),
                entry.grades,
                str(entry.folds or "-"),
                "yes" if entry.archive else "by hand",
            )
            for entry in self
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join(lines)


def datasets() -> Catalog:
    """List the data sets that :func:`rankwise.load_dataset` knows by name.

    For MovieLens, users stand in the column of queries and ratings in that of documents.

    >>> print(*(entry.name for entry in datasets()))
    mslr-web10k mslr-web30k yahoo-set1 yahoo-set2 istella istella-s istella22 mq2007 mq2008 ohsumed
    movielens-latest-small movielens-100k movielens-1m
    """
    return Catalog(ENTRIES)


def entry(name: str) -> Entry:
    """Look a data set up by its name or an alias; case, spaces, ``-`` and ``_`` do not matter.

    >>> entry("MSLR WEB10K").title
    'MSLR-WEB10K'
    >>> entry("mq2009")
    Traceback (most recent call last):
    ValueError: unknown data set: got 'mq2009'. Hint: did you mean 'mq2008', of those ...
    """
    found = _BY_NAME.get(_plain(name))
    if found is not None:
        return found
    near = check.suggestion(name.lower(), (one.name for one in ENTRIES)).rstrip("?")
    raise check.error(
        "unknown data set",
        got=repr(name),
        hint=f"{near}, of those that 'rankwise data list' lists; a file of yours has an ending, or / in its name",
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_BY_NAME = {_plain(word): one for one in ENTRIES for word in (one.name, *one.aliases)}
