"""What every page that we write for a browser shares: its style sheet and its words in other forms."""

from functools import cache
from importlib import resources


@cache
def shared(name: str) -> str:
    """Read ``page.css`` or ``words.js``."""
    return resources.files("rankwise.base").joinpath("page", name).read_text(encoding="utf-8")
