"""FlatBuffers, read within the bytes that there are: tables with fields by number, vectors, texts."""

import struct
from typing import Any

import numpy as np

from rankwise.base.arrays import Column
from rankwise.models.storage import InvalidModelError


class FlatTable:
    """A table: fields are found by their number in the schema, and may be absent."""

    def __init__(self, buffer: bytes, at: int) -> None:
        self.buffer, self.at = buffer, at
        self.fields = at - self._read("<i", at)
        self.size = self._read("<H", self.fields)
        if self.size < 4 or self.size % 2:
            raise self._strange()
        self._within(self.fields, self.size)

    @classmethod
    def root(cls, buffer: bytes) -> "FlatTable":
        """Return the table that a buffer begins with."""
        if len(buffer) < 8:
            raise InvalidModelError("a table that is too short")
        return cls(buffer, int(struct.unpack_from("<I", buffer)[0]))

    def number(self, field: int, kind: str, default: object = 0) -> Any:
        """Read a number of the kind that ``struct`` calls so."""
        place = self._place(field)
        return default if place is None else self._read(f"<{kind}", place)

    def text(self, field: int) -> str:
        """Read a text; empty if absent."""
        return self.vector(field, np.uint8).tobytes().decode("utf-8", "replace")

    def vector(self, field: int, kind: Any) -> Column:
        """Read a vector of numbers or structs; empty if absent."""
        shape = np.dtype(kind).newbyteorder("<")
        place = self._follow(field)
        if place is None:
            return np.empty(0, shape)
        count = self._read("<I", place)
        self._within(place + 4, count * shape.itemsize)
        return np.frombuffer(self.buffer, shape, count, place + 4)

    def table(self, field: int) -> "FlatTable | None":
        """Read a table inside this one."""
        place = self._follow(field)
        return None if place is None else FlatTable(self.buffer, place)

    def tables(self, field: int) -> list["FlatTable"]:
        """Read a vector of tables."""
        return [FlatTable(self.buffer, place) for place in self._places(field)]

    def texts(self, field: int) -> list[str]:
        """Read a vector of texts."""
        texts = []
        for place in self._places(field):
            count = self._read("<I", place)
            self._within(place + 4, count)
            texts.append(self.buffer[place + 4 : place + 4 + count].decode("utf-8", "replace"))
        return texts

    def _places(self, field: int) -> list[int]:
        """Where the entries of a vector of tables or texts are."""
        place = self._follow(field)
        if place is None:
            return []
        steps = self.vector(field, np.uint32)
        return [place + 4 + 4 * number + int(step) for number, step in enumerate(steps)]

    def _follow(self, field: int) -> int | None:
        place = self._place(field)
        return None if place is None else place + int(self._read("<I", place))

    def _place(self, field: int) -> int | None:
        """Where a field is; None if it is absent."""
        slot = 4 + 2 * field
        step = self._read("<H", self.fields + slot) if slot < self.size else 0
        return self.at + step if step else None

    def _read(self, kind: str, at: int) -> Any:
        self._within(at, struct.calcsize(kind))
        return struct.unpack_from(kind, self.buffer, at)[0]

    def _within(self, at: int, size: int) -> None:
        if at < 0 or at + size > len(self.buffer):
            raise self._strange()

    def _strange(self) -> InvalidModelError:
        return InvalidModelError("a table that leads out of the file", f"byte {self.at:,}")
