"""Digests of users' code, by which kept work recognises a function that has been edited.

A checkpoint, a search or an experiment is resumed with the same objective and metric. The name of a user's function or
class does not suffice, as it stays when the function is edited. The digest covers the compiled code, its constants,
defaults and closures, and the user's functions and values that it refers to. It does not depend on comments, names of
variables and line numbers, but on the version of Python.
"""

import contextlib
import functools
import hashlib
import inspect
import pickle
import sys
import sysconfig
import types
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

_OURS = __name__.partition(".")[0]
_PLAIN = (str, bytes, int, float, complex, bool, type(None), type(Ellipsis))
# Positions in the source, documentation, and attributes that Python, abc or pickle set on a class.
_NOT_CODE = {
    *("__doc__", "__module__", "__qualname__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__"),
    "__slotnames__",
    *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__parameters__"),
    "name",  # which rw.register sets
    *("__abstractmethods__", "_abc_impl", "__dataclass_fields__", "__dataclass_params__", "__match_args__"),
}


def digests(*values: object) -> dict[str, str]:
    """Return the digests of the user's functions and classes in ``values``, by name; ours are left out.

    ``values`` are objectives, metrics, functions, classes, or lists of them.
    """
    collected: dict[str, str] = {}
    for thing in _roots(values):
        digest = hashlib.blake2b(digest_size=16)
        _Walk(digest, _root(thing)).add(thing)
        name = str(getattr(thing, "__name__", type(thing).__name__))
        # Several of one name, such as lambdas, are distinguished by their order.
        collected[name] = collected.get(name, "") + digest.hexdigest()
    return collected


def _roots(value: object) -> Iterable[object]:
    """Yield the outermost functions and classes of users in a value."""
    if isinstance(value, (*_PLAIN, np.ndarray, np.generic)):
        return
    if isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _roots(item)
    elif isinstance(value, Mapping):
        yield from _roots(list(value.values()))
    elif _root(value) != _OURS:
        if callable(value):
            yield value
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _roots([getattr(value, item.name) for item in fields(value)])


class _Walk:
    """One digest, and the objects in it so far: code may refer to itself."""

    def __init__(self, digest: Any, root: str) -> None:
        self.digest, self.root = digest, root
        self.seen: dict[int, object] = {}  # holds the objects too: ids of deleted ones are reused

    def add(self, value: object) -> None:
        if isinstance(value, _PLAIN):
            self._text(f"{type(value).__name__} {value!r}")
        elif isinstance(value, types.CodeType):
            self._code(value)
        elif isinstance(value, tuple):
            self._items("tuple", value)
        elif isinstance(value, set | frozenset):
            self._items("set", sorted(value, key=repr))  # the order of a set changes from process to process
        elif id(value) in self.seen:  # not for constants: which of them are one object may change
            self._text("seen")
        else:
            self.seen[id(value)] = value
            self._add_once(value)

    def _add_once(self, value: object) -> None:
        if isinstance(value, list):
            self._items("list", value)
        elif isinstance(value, Mapping):
            self._items("mapping", [part for item in value.items() for part in item])
        elif isinstance(value, np.ndarray) and value.dtype != object:
            self._text(f"array {value.dtype} {value.shape}")
            self.digest.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, types.ModuleType):
            self._text(f"module {value.__name__}")
        elif isinstance(value, property):
            self._items("property", [value.fget, value.fset, value.fdel])
        elif isinstance(value, functools.partial):
            self._items("partial", [value.func, value.args, value.keywords])
        elif isinstance(value, types.MethodType):
            self._items("method", [value.__func__, value.__self__])
        elif (inner := _inside(value)) is not None:
            self.add(inner)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        else:
            self._object(value)

    def _text(self, text: str) -> None:
        content = text.encode("utf-8", "surrogatepass")
        self.digest.update(len(content).to_bytes(8, "little") + content)

    def _items(self, kind: str, items: Iterable[object]) -> None:
        self._text(kind)
        for item in items:
            self.add(item)
        self._text("end")

    def _code(self, code: types.CodeType) -> None:
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        self._items("code", [code.co_code, *arguments, *counts, *code.co_names, *code.co_consts])

    def _function(self, function: types.FunctionType) -> None:
        if not self._followed(function):
            self._text(f"{function.__module__} {function.__qualname__}")
            return
        code = function.__code__
        if function.__doc__ is not None and code.co_consts[:1] == (function.__doc__,):
            code = code.replace(co_consts=(None, *code.co_consts[1:]))
        cells = []
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # an empty cell
                cells.append(cell.cell_contents)
        self._items("function", [code, function.__defaults__, function.__kwdefaults__, *cells])
        for name in sorted(_names(code)):
            if name in function.__globals__:
                self._items(f"global {name}", [function.__globals__[name]])

    def _class(self, cls: type) -> None:
        self._text(f"class {cls.__qualname__}")
        if self._followed(cls):
            self._items("bases", cls.__bases__)
            members = {name: part for name, part in vars(cls).items() if name not in _NOT_CODE}
            self._items("members", [part for item in sorted(members.items()) for part in item])
        else:
            self._text(cls.__module__)

    def _object(self, value: object) -> None:
        """Add a value of any other type: of a user's class by class and settings, of others as they pickle."""
        self.add(type(value))
        if self._followed(type(value)) or is_dataclass(value):
            # Private attributes, lists and dictionaries may be state between calls.
            settings = sorted(item for item in getattr(value, "__dict__", {}).items() if not item[0].startswith("_"))
            self.add(tuple(item for item in settings if not isinstance(item[1], list | dict | set)))
            return
        try:
            self.digest.update(pickle.dumps(value, protocol=5))
        except Exception:  # pickling may raise anything; then the type must do
            self._text("opaque")

    def _followed(self, thing: Any) -> bool:
        """Whether the code is part of the digest: the user's, not that of installed packages."""
        root = _root(thing)
        if root in (_OURS, "builtins") or root in sys.stdlib_module_names - {"__main__"}:
            return False
        return root == self.root or not _is_installed(thing)


def _root(thing: Any) -> str:
    """Return the package of a function, a class or the class of an object."""
    module = getattr(thing, "__module__", None) or getattr(type(thing), "__module__", None) or ""
    return str(module).partition(".")[0]


def _inside(value: Any) -> object:
    """Return the function inside a static, class or cached method, or a function compiled by Numba."""
    if isinstance(value, staticmethod | classmethod):
        return value.__func__
    if isinstance(value, type) or not callable(value):
        return getattr(value, "func", None) if isinstance(value, functools.cached_property) else None
    wrapped = getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)
    return wrapped if isinstance(wrapped, types.FunctionType) and wrapped is not value else None


def _names(code: types.CodeType) -> set[str]:
    """Return every name that code, and code inside it, may look up among globals."""
    inside = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inside)


def _is_installed(thing: Any) -> bool:
    """Whether code is part of an installed package, which changes with its version and not by the user's edits."""
    try:
        file = Path(inspect.getfile(thing)).resolve()
    except (TypeError, OSError):
        return False
    folders = (sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib"))
    return any(file.is_relative_to(Path(folder).resolve()) for folder in folders)
