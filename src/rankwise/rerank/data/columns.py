"""Which column of rows with texts is what: the query, its documents, their labels, and what else there may be."""

from collections.abc import Collection, Sequence
from typing import TypedDict

from rankwise import check
from rankwise.data.columns import COLUMNS

Names = str | Sequence[str] | None

_SHOWN = 20  # columns that an error lists
_USUAL = {
    column.in_text_rows[0]: column.in_text_rows
    for column in sorted(COLUMNS, key=lambda column: column.kind != "text")  # texts before what goes with them
    if column.in_text_rows
}


class Columns(TypedDict, total=False):
    """Which column of the rows is what; see :func:`rankwise.rerank.read`."""

    query: str | None
    document: str | None
    label: str | None
    query_id: str | None
    document_id: str | None
    teacher_score: str | None
    document_weight: str | None
    propensity: str | None
    weight: str | None
    positive: Names
    negative: Names
    to_score: bool


class Roles:
    """Which column plays which role, found among those that there are."""

    def __init__(
        self,
        columns: Collection[str],
        *,
        positive: Names = None,
        negative: Names = None,
        to_score: bool = False,
        **named: str | None,
    ) -> None:
        self.columns = columns
        self.named: dict[str, str] = {}
        for role in named:
            if role not in _USUAL:
                raise check.unexpected("reading lists of texts", role, check.suggestion(role, _USUAL).rstrip("?"))
        for role, usual in _USUAL.items():
            name = named.get(role)
            if name is not None:
                self.named[role] = self._present(name, role)
            elif found := next((one for one in usual if one in columns), None):
                self.named[role] = found
        self.positive, self.negative = self._several(positive, "positive"), self._several(negative, "negative")
        if self.positive or self.negative:
            self.named = {role: name for role, name in self.named.items() if role in ("query", "query_id", "weight")}
        elif "document" not in self.named:
            raise self._missing("document", "or name columns of relevant and other documents: positive=…, negative=…")
        elif "label" not in self.named and not to_score and "teacher_score" not in self.named:
            raise self._missing("label", "or set to_score=True if the documents are only to be scored")
        if "query" not in self.named:
            raise self._missing("query", "")

    @property
    def used(self) -> list[str]:
        """The columns that are read."""
        return list(dict.fromkeys((*self.named.values(), *self.positive, *self.negative)))

    def _several(self, names: Names, role: str) -> list[str]:
        return [self._present(name, role) for name in ([names] if isinstance(names, str) else names or ())]

    def _present(self, name: str, role: str) -> str:
        if name not in self.columns:
            hint = check.suggestion(name, self.columns).rstrip("?")
            raise check.error(f"there is no column for the role {role}", got=repr(name), hint=hint)
        return name

    def _missing(self, role: str, otherwise: str) -> ValueError:
        listed = ", ".join(map(repr, list(self.columns)[:_SHOWN]))
        hint = f"set {role}= to the name of a column" + (f", {otherwise}" if otherwise else "")
        return check.error(f"no column is called {role!r}", got=f"columns {listed or 'of no name'}", hint=hint)
