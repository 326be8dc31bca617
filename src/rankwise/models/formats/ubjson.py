"""Universal Binary JSON, as far as XGBoost writes it: read strictly, within the bytes that there are."""

from typing import Any

import numpy as np

from rankwise.base.arrays import Json
from rankwise.models.storage import InvalidModelError

_KINDS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_WORDS = {"T": True, "F": False, "Z": None}
_DEPTH = 24


def decode(content: bytes) -> Any:
    r"""Read a document; lists of numbers come as arrays.

    >>> decode(b"{L" + bytes(7) + b"\1a[$l#L" + bytes(7) + b"\1" + bytes(3) + b"\5}")
    {'a': array([5], dtype=int32)}
    """
    reader = _UBJSONReader(content)
    document = reader.value(reader.letter(), 0)
    if reader.at != len(content):
        raise InvalidModelError(f"{len(content) - reader.at} bytes after the end of the document")
    return document


class _UBJSONReader:
    """What is left of a document."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def letter(self) -> str:
        return chr(self.take(1)[0])

    def take(self, count: int) -> bytes:
        """Read bytes; there must be as many."""
        if not 0 <= count <= len(self.content) - self.at:
            raise InvalidModelError(f"a length of {count:,}", f"byte {self.at:,} of {len(self.content):,}")
        self.at += count
        return self.content[self.at - count : self.at]

    def length(self) -> int:
        """Read the length of a text or a list, of which XGBoost writes one kind."""
        if self.letter() != "L":
            raise self.strange("a length")
        return int.from_bytes(self.take(8), "big", signed=True)

    def text(self) -> str:
        try:
            return self.take(self.length()).decode()
        except UnicodeDecodeError:
            raise self.strange("a text") from None

    def value(self, kind: str, depth: int) -> Any:
        """Read a value of the kind that its letter says."""
        if depth > _DEPTH:
            raise InvalidModelError(f"more than {_DEPTH} lists inside each other", f"byte {self.at:,}")
        if kind == "{":
            return self._object(depth)
        if kind == "[":
            return self._list(depth)
        if kind == "S":
            return self.text()
        if kind in _WORDS:
            return _WORDS[kind]
        if kind in _KINDS:
            return self._numbers(kind, 1)[0].item()
        raise self.strange("a value")

    def _object(self, depth: int) -> Json:
        fields: Json = {}
        while self.content[self.at : self.at + 1] != b"}":
            name = self.text()
            if name in fields:
                raise InvalidModelError(f"{name!r} twice", f"byte {self.at:,}")
            fields[name] = self.value(self.letter(), depth + 1)
        self.at += 1
        return fields

    def _list(self, depth: int) -> Any:
        """Read a list of known length: of numbers, or of anything."""
        letter = self.letter()
        kind = self.letter() if letter == "$" else ""
        if (self.letter() if kind else letter) != "#":
            raise self.strange("a list")
        count = self.length()
        if kind:
            return self._numbers(kind, count)
        if not 0 <= count <= len(self.content):
            raise InvalidModelError(f"a list of {count:,}", f"byte {self.at:,} of {len(self.content):,}")
        return [self.value(self.letter(), depth + 1) for _ in range(count)]

    def _numbers(self, kind: str, count: int) -> Any:
        if kind not in _KINDS:
            raise self.strange("a list of numbers")
        shape = np.dtype(_KINDS[kind])
        return np.frombuffer(self.take(count * shape.itemsize), shape).astype(shape.newbyteorder("="))

    def strange(self, what: str) -> InvalidModelError:
        return InvalidModelError(f"something else where {what} must be", f"byte {self.at:,}")
