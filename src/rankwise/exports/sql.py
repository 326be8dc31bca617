"""SQL: one query from a table of features to scores, with every transform of a linear model.

It is standard SQL of SQLite 3.35, PostgreSQL, DuckDB and their like. Broken lines of quantiles are nested CASE
expressions, values within the query are window functions, and a missing value is NULL. It adds up in double precision.
"""

from collections.abc import Sequence

import numpy as np

from rankwise import check
from rankwise.base.arrays import Floats
from rankwise.exports.export_source import ExportedFile, ExportSource
from rankwise.models.linear import LinearModel, LinearTransform

_KEYS = ("qid", "document")


def write(source: ExportSource) -> ExportedFile:
    """Return the query."""
    names = source.known_names("SQL")
    model = source.linear
    if model is None:
        hint = "train a LinearRanker, or export to onnx"
        raise check.error("a query in SQL is written of linear models", got=source.kind, hint=hint)
    if reserved := [name for name in names if name.lower() in _KEYS]:
        hint = "rename the feature, with `names=[…]`"
        raise check.error("qid and document name queries and documents there", got=repr(reserved[0]), hint=hint)
    about = f"{source.notes['ranker']} of rankwise, {source.notes['objective']}".replace("\n", " ")
    table = "documents: a row for each, with the columns qid, document and the features, NULL where missing"
    content = f"-- {about}\n-- {table}\n{query(model, names)}"
    return ExportedFile(content.encode(), f"read it in the database, where a table or view documents is: {source.path}")


def query(model: LinearModel, names: Sequence[str]) -> str:
    """Return the query, which selects ``qid``, ``document`` and ``score``."""
    transform, count = model.transform, model.schema.count
    own = model.weights[:count]
    inside = model.weights[count:] if transform.query else np.zeros(count)
    columns = [number for number in range(count) if own[number] or inside[number]]
    values = [f"{_value(transform, number, quoted(names[number]))} AS v{number}" for number in columns]
    rows = f"SELECT qid, document, {', '.join(values) or '0 AS nothing'} FROM documents"  # noqa: S608 (names are quoted)
    terms = [repr(float(model.intercept))]
    terms += [f"{float(own[n])!r} * COALESCE(v{n}, {float(transform.fill[n])!r})" for n in columns if own[n]]
    steps = [f"own AS (\n{rows}\n)"]
    within, last = [number for number in columns if inside[number]], "own"
    if within:
        each = "OVER (PARTITION BY qid)"
        # Of equal values the mean may be another by a rounding: what is all the same in a query is 0.
        varied = {n: f"MIN(v{n}) {each} < MAX(v{n}) {each}" for n in within}
        means = [f"CASE WHEN {varied[n]} THEN v{n} - AVG(v{n}) {each} END AS d{n}" for n in within]
        steps.append(f"away AS (\nSELECT own.*, {', '.join(means)} FROM own\n)")
        spreads = [f"SQRT(AVG(d{n} * d{n}) {each}) AS s{n}" for n in within]
        steps.append(f"spread AS (\nSELECT away.*, {', '.join(spreads)} FROM away\n)")
        terms += [f"{float(inside[n])!r} * COALESCE(d{n} / s{n}, 0.0)" for n in within]
        last = "spread"
    return f"WITH {', '.join(steps)}\nSELECT qid, document, {_sum(terms)} AS score FROM {last};\n"


def quoted(name: str) -> str:
    """Return the name of a column in double quotes.

    >>> quoted('the "net" price')
    '"the ""net"" price"'
    """
    return '"' + name.replace('"', '""') + '"'


def _sum(terms: Sequence[str]) -> str:
    """Return the sum in pairs of pairs: databases limit the depth of an expression."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({_sum(terms[:middle])} + {_sum(terms[middle:])})"


def _value(transform: LinearTransform, column: int, name: str) -> str:
    """Return the expression of a transformed value; NULL of NULL."""
    if len(transform.knots):
        knots, places = np.unique(transform.knots[column], return_index=True)
        return _line(knots, transform.heights[column][places], name)
    return f"({name} - {float(transform.center[column])!r}) / {float(transform.scale[column])!r}"


def _line(knots: Floats, heights: Floats, name: str) -> str:
    """Return the broken line through points as nested halves."""
    first, last = (float(heights[end]) for end in (0, -1))
    if knots.size == 1:
        return f"CASE WHEN {name} IS NOT NULL THEN {first!r} END"

    def between(low: int, high: int) -> str:
        if high - low > 1:
            middle = (low + high) // 2
            left, right = between(low, middle), between(middle, high)
            return f"CASE WHEN {name} < {float(knots[middle])!r} THEN {left} ELSE {right} END"
        start, base = float(knots[low]), float(heights[low])
        slope = (float(heights[high]) - base) / (float(knots[high]) - start)
        return f"{base!r} + ({name} - {start!r}) * {slope!r}"

    ends = f"WHEN {name} <= {float(knots[0])!r} THEN {first!r} WHEN {name} >= {float(knots[-1])!r} THEN {last!r}"
    return f"CASE {ends} WHEN {name} IS NOT NULL THEN {between(0, knots.size - 1)} END"
