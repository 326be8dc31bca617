"""Checks of settings (words, numbers, proportions), of files, and of optional packages."""

import difflib
import importlib
import importlib.util
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

from rankwise.base.arrays import Array
from rankwise.check.errors import address, error, printable, suggestion
from rankwise.check.message import Message

_MOST_NUMBERS = 1e11
_LARGEST = float(np.finfo(np.float64).max)


def choice(what: str, value: object, choices: Iterable[str], *, otherwise: str = "") -> str:
    """Return ``value`` if it is one of the ``choices``; ``otherwise`` is a further hint."""
    choices = list(choices)
    if isinstance(value, str) and value in choices:
        return value
    hint = suggestion(str(value), choices) + (f"; {otherwise}" if otherwise else "")
    raise error(f"unknown {what}", got=repr(value), hint=hint)


def integer(what: str, value: object, *, least: int) -> int:
    """Return ``value`` as an int of at least ``least`` that fits into 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise error(f"{what} must be a whole number of at least {least}", got=repr(value))
    if value >= 2**63:
        raise error(f"{what} must be below 2^63", got=f"a number of {int(value).bit_length()} bits")
    return int(value)


def number(what: str, value: object, *, least: float = -np.inf, most: float = np.inf, open_ends: bool = False) -> float:
    """Return ``value`` as a finite float inside the interval (without its ends if ``open_ends``)."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        inside = least < value < most if open_ends else least <= value <= most
        if inside and -_LARGEST <= value <= _LARGEST:
            return float(value)
    left = "(" if open_ends or least == -np.inf else "["
    right = ")" if open_ends or most == np.inf else "]"
    raise error(f"{what} must be a number in {left}{least:g}, {most:g}{right}", got=repr(value))


def affordable(what: str, numbers: float, *, hint: str) -> None:
    """Raise if an array would have more numbers than a machine can hold."""
    if numbers > _MOST_NUMBERS:
        raise error(f"{what} may have {_MOST_NUMBERS:.0e} numbers at most", got=f"{numbers:.0e}", hint=hint)


def fractions(values: Sequence[float]) -> tuple[float, ...]:
    """Check proportions of a split: not negative, with a sum of one."""
    return tuple(distribution("proportions of a split", values).tolist())


def probabilities(what: str, values: Sequence[float]) -> Array:
    """Check a list of probabilities, at least one."""
    chances = np.array([number(f"each of the {what}", value, least=0.0, most=1.0) for value in values])
    if not chances.size:
        raise error(f"there must be at least one of the {what}", got=repr(values))
    return chances


def distribution(what: str, values: Sequence[float]) -> Array:
    """Check probabilities with a sum of one."""
    chances = probabilities(what, values)
    if abs(chances.sum() - 1.0) > 1e-9:
        raise error(f"the {what} must add up to 1", got=f"{tuple(values)} with a sum of {chances.sum():g}")
    return chances


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message names the extra that contains it."""


def optional(module: str, extra_name: str) -> ModuleType:
    """Import an optional dependency, or raise an error with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise _not_installed(module, extra_name, missing) from missing


def installed(module: str, extra_name: str) -> None:
    """Raise if an optional dependency is not installed, without importing it."""
    if module in sys.modules:
        available = sys.modules[module] is not None  # None marks a module that must not be imported
    else:
        try:
            available = importlib.util.find_spec(module) is not None
        except ImportError:
            available = False
    if not available:
        raise _not_installed(module, extra_name)


def _not_installed(module: str, extra_name: str, missing: ImportError | None = None) -> MissingExtraError:
    another = missing is not None and missing.name and missing.name.partition(".")[0] != module.partition(".")[0]
    why = f"cannot be imported: {missing}" if another else "is not installed"
    return MissingExtraError(f"{module} {why}. Install it with: pip install 'rankwise[{extra_name}]'")


def free_path(path: str | Path, *, force: bool = False) -> Path:
    """Return ``path`` if nothing exists there, or if ``force`` allows to replace it."""
    path = Path(path)
    if path.exists() and not force:
        hint = "choose another name, or allow it with `force`"
        raise FileExistsError(Message(f"{path} exists already and is kept", hint=hint))
    return path


def readable(path: str | Path, *, pipe: bool = False) -> Path:
    """Return ``path`` if it is an existing file; or, with ``pipe``, a stream that can be read once."""
    path = Path(path)
    kind = stat.S_IFMT(path.stat().st_mode) if path.exists() else None
    if kind == stat.S_IFREG or (pipe and kind in (stat.S_IFIFO, stat.S_IFCHR)):
        return path
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(f"{path} is a folder, and a file is needed here.")
    if kind is not None:
        raise error("a file that can be read again is needed", got=str(path), hint="write what it gives to a file")
    beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1)
    also = f" Did you mean {path.parent / near[0]}?" if near else ""
    raise FileNotFoundError(f"there is no file {printable(address(str(path)))}.{also}")
