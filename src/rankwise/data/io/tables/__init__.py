"""Tables of any library, and files of them.

The type of a table is here, without the library that made it.
"""

from typing import Protocol


class ArrowTable(Protocol):
    """A table of polars, pandas, pyarrow, or of another library that exports Arrow data."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the table as a stream of Arrow data."""
        ...


class LazyTable(Protocol):
    """A polars LazyFrame."""

    def collect_schema(self) -> object:
        """Return names and types of the columns."""
        ...


Table = ArrowTable | LazyTable
