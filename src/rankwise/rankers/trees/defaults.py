"""What trees are grown with where nobody sets it: a rule by library and number of training documents.

``benchmarks/quality/defaults.py`` compared settings by validation on small data sets: see ``docs/quality.md``.
With fewer documents nothing was gained, and with more the small trees of the rule begin to lose within the usual 500
rounds. There trees are near those of the libraries themselves.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

FEW = 5_000
"""Training documents from which data are small and no longer tiny."""
MANY = 60_000
"""Training documents from which they are no longer small."""


class Defaults(NamedTuple):
    """Settings that go together."""

    leaves: int = 31
    min_documents: int = 20
    smoothing: int = 1
    native: Mapping[str, object] = MappingProxyType({})
    """What the library draws while it grows trees, by its own names."""


USUAL = Defaults()
SMALL = {
    "lightgbm": Defaults(leaves=7, min_documents=50, smoothing=10, native={"extra_trees": True}),
    "xgboost": Defaults(leaves=7, min_documents=50, smoothing=10, native={"subsample": 0.7, "colsample_bynode": 0.5}),
}
"""By library. Of CatBoost no settings were ahead for sure."""


def small(library: str) -> Defaults:
    """Give the settings for small data."""
    return SMALL.get(library, USUAL)


def defaults(library: str, documents: int) -> Defaults:
    """Give the settings for so many training documents.

    >>> defaults("lightgbm", 20_000)
    Defaults(leaves=7, min_documents=50, smoothing=10, native={'extra_trees': True})
    >>> defaults("lightgbm", FEW - 1) == defaults("lightgbm", MANY) == USUAL
    True
    """
    return small(library) if FEW <= documents < MANY else USUAL
