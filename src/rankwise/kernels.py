"""The one set of options that every Numba function is compiled with.

A kernel is a module-level function, so that Numba keeps what it compiled between processes, and lets go of the
interpreter's lock, so that plain threads run it side by side. Divisions by zero give infinities instead of exceptions,
which would be checked for in every loop.
"""

from collections.abc import Callable
from typing import Any, Final

import numba

FUSED: Final = frozenset({"contract"})
"""Lets a multiplication and an addition become one instruction; a function that sets nothing takes its caller's."""
REORDERED: Final = frozenset({"contract", "nnan", "nsz", "reassoc"})
"""Also lets sums and maxima be added up in the order that vectors like, the same in every run; no input is NaN."""

APART: Final = 64
"""Elements to leave between arrays that one loop reads and writes.

Compiled loops take another path, with other rounding, where two arrays lie within a few vectors of each other. Results
must not depend on where arrays happen to lie, so working memory is this much longer than it needs to be.
"""


def kernel(
    function: Callable[..., Any] | None = None, *, fastmath: frozenset[str] = frozenset(), inline: bool = False
) -> Any:
    """Compile a function with Numba when it is first called: ``@kernel`` or ``@kernel(fastmath=REORDERED)``."""
    options: dict[str, Any] = {
        "cache": True,
        "nogil": True,
        "error_model": "numpy",
        "fastmath": set(fastmath) if fastmath else False,
        "inline": "always" if inline else "never",
    }
    return numba.njit(**options) if function is None else numba.njit(**options)(function)
