"""How Numba functions are compiled: one set of options, and a cache that knows what a kernel calls.

A kernel is a module-level function, so that Numba keeps its machine code between processes, and it releases the
interpreter's lock, so that plain threads run it side by side. Division by zero gives infinity, since a check for it
would stand in every loop.

A function that only kernels call is compiled as a part of them. Numba would give it machine code and a Python entry of
its own, and optimise it again in every caller: a third of the time that compiling takes.
"""

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any, Final

import numba
import numpy as np
from numba.core import types
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher

from rankwise.base import caches
from rankwise.base.arrays import Keywords

FUSED: Final = frozenset({"contract"})
"""Fast-math flags that allow fused multiply-add; a function without flags takes its caller's."""
REORDERED: Final = frozenset({"contract", "nnan", "nsz", "reassoc"})
"""Fast-math flags that also allow sums in vector order, which is the same in every run; no input is NaN."""

# Kernels are linked with Numba's internals (`Kernel` below), which were tested for these versions.
_TESTED = ((0, 61), (0, 68))

_folder = caches.kernel_folder()
if _folder is not None:
    numba.config.CACHE_DIR = str(_folder)  # type: ignore[attr-defined]
    os.environ["NUMBA_CACHE_DIR"] = str(_folder)  # for child processes
    os.environ.setdefault("MPLCONFIGDIR", str(_folder.with_name("matplotlib")))  # Matplotlib would repeat the warning


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    fastmath: frozenset[str] = frozenset(),
    inline: bool = False,
    forceinline: bool = False,
) -> Any:
    """Compile a function with Numba on its first call: ``@kernel`` or ``@kernel(fastmath=REORDERED)``.

    ``inline`` inserts its source into its callers, ``forceinline`` its machine code.
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
        tested = _TESTED[0] <= numba.version_info.short <= _TESTED[1]
        dispatcher: Any = (Kernel if tested else CPUDispatcher)(function, targetoptions=options)
        try:
            dispatcher._cache = _KernelCache(function)
        except RuntimeError:  # Numba found no writable folder
            caches.warn_no_cache("kernels are compiled in every process")
        return dispatcher

    return compiled if function is None else compiled(function)


class _KernelCache(FunctionCache):
    """Machine code of one function, valid as long as nothing that it calls has changed.

    Numba's own cache looks at the function's file alone. It also raises whatever a damaged file raises, at every call.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._function, self._stamped = function, False

    def _stamp(self) -> None:
        """Extend the stamp of the index by all that is called; at first use, when every callee is defined."""
        if not self._stamped:
            self._stamped = True
            self._cache_file._source_stamp = (self._cache_file._source_stamp, source_digest(self._function))

    def load_overload(self, sig: object, target_context: object) -> Any:
        """Return the machine code for these types, or None if they have to be compiled."""
        self._stamp()
        overload = None
        try:
            overload = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception:  # what is no pickle may raise anything
            with contextlib.suppress(OSError):
                self.flush()  # type: ignore[no-untyped-call]
        if overload is None:
            caches.note_compiling()
        return overload

    def save_overload(self, sig: object, data: object) -> None:
        """Save the machine code for these types, if the disk allows."""
        self._stamp()
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except Exception as failed:  # as above, and whatever a disk may lack
            caches.warn_no_cache(f"compiled kernels cannot be saved ({failed})")


def source_digest(function: Callable[..., Any]) -> str:
    """Return a digest of a function's code, of every kernel that it calls, and of the constants that they read."""
    digest = hashlib.sha256()
    functions, seen = [function], {id(function)}
    while functions:
        current = functions.pop()
        code = current.__code__
        _update(digest, code)
        for name, value in _globals(current, code):
            callee = getattr(value, "py_func", None)
            if callee is not None:
                if id(callee) not in seen:
                    seen.add(id(callee))
                    functions.append(callee)
            elif isinstance(value, np.ndarray):
                digest.update(f"{name}={value.dtype}{value.shape}".encode() + value.tobytes())
            elif isinstance(value, int | float | str | bytes | tuple | np.generic | np.dtype):
                digest.update(f"{name}={value!r}".encode())
    return digest.hexdigest()


def _update(digest: Any, code: CodeType) -> None:
    digest.update(code.co_code + repr(code.co_names).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _update(digest, constant)
        else:
            digest.update(repr(constant).encode())


def _globals(function: Callable[..., Any], code: CodeType) -> Iterator[tuple[str, object]]:
    """Yield the global names that a function reads, and the attributes that it reads of our modules."""
    names = sorted({*code.co_names, *(n for c in code.co_consts if isinstance(c, CodeType) for n in c.co_names)})
    scope = function.__globals__
    for name in names:
        value = scope.get(name)
        if isinstance(value, ModuleType) and value.__name__.split(".")[0] not in ("numpy", "math"):
            yield from ((f"{name}.{other}", getattr(value, other)) for other in names if hasattr(value, other))
        elif value is not None:
            yield name, value


class Kernel(CPUDispatcher):
    """A compiled function; other kernels that call it link it as a part."""

    @property
    def _numba_type_(self) -> types.Dispatcher:
        return types.Dispatcher(self.part)  # type: ignore[arg-type]

    @functools.cached_property
    def part(self) -> "_Part":
        """The same function as kernels call it."""
        options = {**self.targetoptions, "no_cpython_wrapper": True}
        return _Part(self.py_func, targetoptions=options, pipeline_class=_PartCompiler)

    def add_overload(self, cres: Any) -> None:
        """Add compiled code, and register the environments that inlined callees need to raise exceptions."""
        super().add_overload(cres)
        for environment in cres._find_referenced_environments():
            cres.library.codegen.set_env(environment.env_name, environment)


class _Part(CPUDispatcher):
    """A function as kernels call it."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile once for all numbers of a type; Numba would compile once more for every constant."""
        plain = [types.unliteral(each) for each in args]  # type: ignore[no-untyped-call]
        return super().get_call_template(plain, kws)


class _PartCompiler(Compiler):
    """Numba's compiler with another library for its result."""

    def define_pipelines(self) -> Any:
        codegen, name = self.state.targetctx.codegen(), self.state.func_id.func_qualname
        library = _PartLibrary(codegen, name)  # type: ignore[no-untyped-call]
        library.reordered = bool(self.state.flags.fastmath)
        self.state.library = library
        return super().define_pipelines()  # type: ignore[no-untyped-call]


class _PartLibrary(JITCodeLibrary):
    """Code that is linked into kernels and never runs by itself."""

    reordered = False
    """Whether it has fast-math flags of its own."""

    @property
    def codegen(self) -> "_PartLibrary":
        """Stub: environments are registered by the outer kernel."""
        return self

    def set_env(self, name: str, environment: object) -> None:
        """Do nothing, since it has no address."""

    def _optimize_final_module(self) -> None:
        """Optimise fast-math loops, which vectorise best before inlining; leave the rest to the outer kernel."""
        if self.reordered:
            super()._optimize_final_module()  # type: ignore[no-untyped-call]

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True
