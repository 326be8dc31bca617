"""Errors of rankwise that users catch."""

from rankwise.check.errors import InputError
from rankwise.check.settings import MissingExtraError

__all__ = ["InputError", "MissingExtraError"]
