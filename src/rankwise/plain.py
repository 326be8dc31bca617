"""Dictionaries of plain values of any type: named here, so that every other annotation can say what it holds."""

from typing import Any

Json = dict[str, Any]
"""An object of JSON or TOML: what was read from a file, or will be written to one."""

Keywords = dict[str, Any]
"""Settings by name, as they are passed on: parameters of a ranker, options of a reader or of another library."""
