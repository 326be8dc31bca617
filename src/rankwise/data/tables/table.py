"""What a table is to those who take one, whichever library made it: a type, without that library."""

from typing import Protocol


class ArrowTable(Protocol):
    """A table of polars, pandas, pyarrow, or of anything else that gives Arrow data."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give the table as a stream of Arrow data."""
        ...


class LazyTable(Protocol):
    """A polars LazyFrame."""

    def collect_schema(self) -> object:
        """Give names and types of the columns."""
        ...


Table = ArrowTable | LazyTable
