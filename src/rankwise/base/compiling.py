"""How Numba functions are compiled: one set of options, and a cache that knows what a kernel calls.

A kernel is a module-level function, so that Numba keeps its machine code between processes, and it releases the
interpreter's lock, so that plain threads run it side by side. Division by zero gives infinity, since a check for it
would stand in every loop.

A function that only kernels call is compiled as a part of them. Numba would give it machine code and a Python entry of
its own, and optimise it again in every caller: a third of the time that compiling takes.
"""

import functools
import gc
import hashlib
import os
import pickle
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np
from numba.core import types
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps

from rankwise.base import ahead, caches
from rankwise.base.arrays import Keywords
from rankwise.base.files import replacing

FUSED: Final = frozenset({"contract"})
"""Fast-math flags that allow fused multiply-add; a function without flags takes its caller's."""
REORDERED: Final = frozenset({"contract", "nnan", "nsz", "reassoc"})
"""Fast-math flags that also allow sums in vector order, which is the same in every run; no input is NaN."""

# Kernels are linked with Numba's internals (`Kernel` below), which were tested for these versions.
_TESTED = ((0, 61), (0, 68))

_VERSIONS = 8
"""How many versions of a kernel are kept."""
_FOREIGN = ("numpy", "math", "numba", "llvmlite")
"""Libraries whose versions are known otherwise, or do not change."""

_folder = caches.kernel_folder()
if _folder is not None and not caches.has_user_cache("numba"):
    numba.config.CACHE_DIR = str(_folder.parent)  # type: ignore[attr-defined]
    os.environ["NUMBA_CACHE_DIR"] = str(_folder.parent)  # for child processes
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
        dispatcher._cache = _KernelCache(dispatcher)
        return dispatcher

    return compiled if function is None else compiled(function)


class _KernelCache(NullCache):
    """Machine code of one kernel by its content: what it, its callees and their constants say, wherever they stand.

    Numba's own cache goes by path, line and time of the source file, which every upgrade changes, and looks at the
    kernel's file alone. It also raises whatever a damaged file raises, at every call.
    """

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    @property
    def cache_path(self) -> str:
        return str(_folder)

    @functools.cached_property
    def _name(self) -> str:
        function = self._dispatcher.py_func
        return f"{function.__module__}.{function.__qualname__}"

    @functools.cached_property
    def _digest(self) -> str:
        """The source's digest, taken at first use, when every callee is defined."""
        return _short(f"{self._name} {_environment()} {source_digest(self._dispatcher)}")

    def _path(self, sig: Any, codegen: Any) -> Path | None:
        """Return the file for these types on this processor."""
        if _folder is None:
            return None
        key = _short(repr([sig, [getattr(kind, "fields", None) for kind in sig], codegen.magic_tuple()]))
        return _folder / re.sub("[<>]", "", self._name) / self._digest / f"{key}.nbc"

    def load_overload(self, sig: object, target_context: object) -> Any:
        """Return the machine code for these types, or None if they have to be compiled."""
        target_context.refresh()  # type: ignore[attr-defined]
        path = self._path(sig, target_context.codegen())  # type: ignore[attr-defined]
        if path is None:
            caches.note_compiling()
            return None
        ahead.wait_for(path)
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(path.read_bytes()))  # type: ignore[no-untyped-call]  # noqa: S301 (as Numba)
        except Exception:  # there is none, or what is no pickle, which may raise anything
            caches.note_compiling()
            if caches.is_kept():
                ahead.start(self._name, path.parents[2], _short(_environment()))
            ahead.claim(path)
            return None

    def save_overload(self, sig: object, data: Any) -> None:
        """Save the machine code for these types, if the disk allows."""
        path = self._path(sig, data.codegen)
        if path is None:
            return
        try:
            if data.library.has_dynamic_globals:
                raise ValueError(f"{self._name} refers to an address")
            path.parent.mkdir(parents=True, exist_ok=True)
            with ahead.released(path), replacing(path, force=True) as new:
                new.write_bytes(dumps(data._reduce()))  # type: ignore[no-untyped-call]
            versions = sorted(path.parent.parent.iterdir(), key=lambda folder: folder.stat().st_mtime)
            for old in versions[:-_VERSIONS]:
                shutil.rmtree(old, ignore_errors=True)
        except Exception as failed:  # as above, and whatever a disk may lack
            if not path.is_file():  # Windows does not replace what another process reads
                caches.warn_no_cache(f"compiled kernels cannot be saved ({failed})")


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def _environment() -> str:
    """Return what machine code depends on beside its source: versions, and how this module compiles."""
    ours = hashlib.sha256()
    for member in [each for kind in (Kernel, _Part, _PartCompiler, _PartLibrary) for each in vars(kind).values()]:
        function = getattr(member, "fget", None) or getattr(member, "func", member)
        if hasattr(function, "__code__"):
            _update(ours, function)
    versions = (sys.version_info[:2], getattr(sys, "abiflags", ""), numba.__version__, llvmlite.__version__)
    switches = [getattr(numba.config, name, None) for name in ("USING_SVML", "OPT", "BOUNDSCHECK")]
    return f"{versions} {np.__version__} {switches} {ours.hexdigest()}"


def source_digest(dispatcher: Any) -> str:
    """Return a digest of a kernel's code and options, of every kernel that it calls, and of the constants they read.

    Comments, docstrings, lines and paths do not count.
    """
    digest = hashlib.sha256()
    callables, seen = [dispatcher], {id(dispatcher)}
    while callables:
        current = callables.pop()
        function = _function_of(current)
        options = getattr(current, "targetoptions", {})
        digest.update(repr(sorted((k, sorted(v) if isinstance(v, set) else v) for k, v in options.items())).encode())
        _update(digest, function)
        for name, value in _read_names(function):
            if _function_of(value) is not None:
                if id(value) not in seen:
                    seen.add(id(value))
                    callables.append(value)
            elif isinstance(value, np.ndarray):
                digest.update(f"{name}={value.dtype}{value.shape}".encode() + value.tobytes())
            elif isinstance(value, type):
                digest.update(f"{name}={value.__qualname__}{getattr(value, '_fields', '')}".encode())
            elif isinstance(value, int | float | str | bytes | tuple | np.generic | np.dtype):
                digest.update(f"{name}={value!r}".encode())
    return digest.hexdigest()


def _function_of(value: object) -> Any:
    """Return the function of a kernel or an intrinsic; None for anything else."""
    return getattr(value, "py_func", None) or getattr(value, "_defn", None)


def _update(digest: Any, function: Callable[..., Any]) -> None:
    digest.update(repr(function.__defaults__).encode())
    _update_code(digest, function.__code__, function.__doc__)


def _update_code(digest: Any, code: CodeType, doc: str | None = None) -> None:
    table = getattr(code, "co_exceptiontable", b"")
    digest.update(code.co_code + table + repr((code.co_argcount, code.co_names, code.co_varnames)).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _update_code(digest, constant)
        else:
            digest.update(repr(None if constant == doc else constant).encode())


def _read_names(function: Callable[..., Any]) -> Iterator[tuple[str, object]]:
    """Yield the outer names that a function reads, and the attributes that it reads of our modules."""
    code = function.__code__
    names = sorted({*code.co_names, *(n for c in code.co_consts if isinstance(c, CodeType) for n in c.co_names)})
    scope = function.__globals__
    for name in names:
        value = scope.get(name)
        if isinstance(value, ModuleType) and value.__name__.split(".")[0] not in _FOREIGN:
            yield from ((f"{name}.{other}", getattr(value, other)) for other in names if hasattr(value, other))
        elif value is not None:
            yield name, value
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


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

    def compile(self, sig: Any) -> Any:
        """Compile, or load what is kept. Garbage is collected afterwards, which takes a tenth of the time otherwise."""
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile(sig)
        finally:
            if collects:
                gc.enable()

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
