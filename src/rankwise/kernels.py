"""The one set of options that every Numba function is compiled with.

A kernel is a module-level function, so that Numba keeps what it compiled between processes, and lets go of the
interpreter's lock, so that plain threads run it side by side. Divisions by zero give infinities instead of exceptions,
which would be checked for in every loop. What was compiled is kept where that is possible, and compiled again where it
is not.
"""

import contextlib
import os
from collections.abc import Callable
from typing import Any, Final

import numba
from numba.core.caching import FunctionCache
from numba.core.registry import CPUDispatcher

from rankwise import caches, first_use
from rankwise.plain import Keywords

FUSED: Final = frozenset({"contract"})
"""Lets a multiplication and an addition become one instruction; a function that sets nothing takes its caller's."""
REORDERED: Final = frozenset({"contract", "nnan", "nsz", "reassoc"})
"""Also lets sums and maxima be added up in the order that vectors like, the same in every run; no input is NaN."""

APART: Final = 64
"""Elements to leave between arrays that one loop reads and writes.

Compiled loops take another path, with other rounding, where two arrays lie within a few vectors of each other. Results
must not depend on where arrays happen to lie, so working memory is this much longer than it needs to be.
"""


# Parts lean on how Numba compiles inside, known up to here; with a newer one kernels are compiled in its own way.
_KNOWN = (0, 68)
_Dispatcher: type[CPUDispatcher] = CPUDispatcher
if numba.version_info.short <= _KNOWN:
    from rankwise.linking import Kernel as _Dispatcher

_place = caches.place_for_kernels()
if _place is not None:
    numba.config.CACHE_DIR = str(_place)  # type: ignore[attr-defined]
    os.environ["NUMBA_CACHE_DIR"] = str(_place)  # for the processes that this one starts
    os.environ.setdefault("MPLCONFIGDIR", str(_place.with_name("matplotlib")))  # else it says at length what we said


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    fastmath: frozenset[str] = frozenset(),
    inline: bool = False,
    forceinline: bool = False,
) -> Any:
    """Compile a function with Numba when it is first called: ``@kernel`` or ``@kernel(fastmath=REORDERED)``.

    ``inline`` puts its text into its callers, ``forceinline`` its machine code.
    """
    options: Keywords = {
        "nopython": True,
        "nogil": True,
        "no_cfunc_wrapper": True,
        "error_model": "numpy",
        "fastmath": set(fastmath) if fastmath else False,
        "inline": "always" if inline else "never",
        "forceinline": forceinline,
    }

    def compiled(function: Callable[..., Any]) -> Any:
        if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return function
        dispatcher: Any = _Dispatcher(function, targetoptions=options)
        try:
            dispatcher._cache = _Kept(function)  # type: ignore[no-untyped-call]
        except RuntimeError:  # Numba finds no place for it
            caches.missing("kernels are compiled in every process")
        return dispatcher

    return compiled if function is None else compiled(function)


class _Kept(FunctionCache):
    """What was compiled of one function, on a disk that may be full, in files that may be damaged.

    Numba itself would raise whatever reading them raises, at every call, until somebody deletes them.
    """

    def load_overload(self, sig: object, target_context: object) -> Any:
        """Give what was compiled for these types, or None, and then they are compiled."""
        found = None
        try:
            found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception:  # what is no pickle may raise anything
            with contextlib.suppress(OSError):
                self.flush()  # type: ignore[no-untyped-call]
        if found is None:
            first_use.tell()
        return found

    def save_overload(self, sig: object, data: object) -> None:
        """Keep what was compiled for these types, if that is possible."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except Exception as failed:  # as above, and whatever a disk may lack
            caches.missing(f"what was compiled cannot be kept ({failed})")
