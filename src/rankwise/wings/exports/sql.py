"""SQL: one query from a table of features to scores, of linear models with their transforms, trees, and sums of them.

It is standard SQL of SQLite 3.35, PostgreSQL, DuckDB and their like, and adds up in double precision. A missing value
is NULL, or NaN where the database has it. A tree is a CASE in a CASE. SQLite's parser has room for eighteen of them, so
that deeper parts of a tree are terms of their own: a value where a document comes to them, else 0. Thresholds are those
of float32, also for columns of doubles, which rankwise rounds to float32.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Floats
from rankwise.models import LEAF, LinearModel, LinearTransform, Model, Nodes, QueryForest, Schema, SumModel
from rankwise.wings.exports.export_source import ExportedFile, ExportSource

MOST = 1_000_000
"""Bytes of a query: the limit of SQLite as it is often compiled."""
_COLUMNS = 1_600
"""Of a step of the query: PostgreSQL has 1,664 and SQLite 2,000."""
_KEYS = ("qid", "document")
_LEVELS = 8  # splits of a CASE that are inside one another
_TOGETHER = 64  # terms of a sum without parentheses: databases limit the depth of an expression
_LARGEST = float(np.finfo(np.float64).max)
_BEYOND = np.float64(2.0**128)  # where doubles begin that are infinite as float32


def write(source: ExportSource) -> ExportedFile:
    """Return the query."""
    names = source.known_names("SQL")
    if source.drawn is not None:
        hint = "train trees or a LinearRanker, or export to onnx"
        raise check.error("a query in SQL is written of linear models, trees and sums of them", got="a net", hint=hint)
    if reserved := [name for name in names if name.lower() in _KEYS]:
        hint = "rename the feature, with `names=[…]`"
        raise check.error("qid and document name queries and documents there", got=repr(reserved[0]), hint=hint)
    about = f"{source.notes['ranker']} of rankwise, {source.notes['objective']}".replace("\n", " ")
    table = "documents: a row for each, with the columns qid, document and the features, NULL where missing"
    content = f"-- {about}\n-- {table}\n{query(source.model, names)}".encode()
    if len(content) > MOST:
        what, got = f"a query must have at most {MOST:,} bytes, which all databases read", f"{len(content):,} bytes"
        hint = (
            "train fewer or smaller trees, `rounds=…` and `leaves=…`, a LinearRanker with `transform='standard'`, "
            "distil it into such, or export to onnx"
        )
        raise check.error(what, got=got, hint=hint)
    return ExportedFile(content, f"read it in the database, where a table or view documents is: {source.path}")


class SqlSteps:
    """The steps of a query, which are common table expressions: each has the columns of the one before, and more."""

    def __init__(self, columns: Iterable[str], table: str = "documents") -> None:
        self.last, selected = "features", ["qid", "document", *columns]
        self._count = len(selected)
        self._texts = [f"features AS (\nSELECT {', '.join(selected)} FROM {table}\n)"]

    def add(self, columns: Iterable[str]) -> None:
        """Add a step that computes columns: texts such as ``f1 * 2 AS twice``."""
        before, self.last, new = self.last, f"step{len(self._texts)}", [*columns]
        self._count += len(new)
        self._texts.append(f"{self.last} AS (\nSELECT {before}.*, {', '.join(new)} FROM {before}\n)")

    def select(self, score: str) -> str:
        """Return the query whose score is an expression of the columns of the last step."""
        if self._count > _COLUMNS:
            what, got = f"a query must have at most {_COLUMNS:,} columns, which all databases read", f"{self._count:,}"
            hint = "train on fewer features, or without values within the query, or export to onnx"
            raise check.error(what, got=got, hint=hint)
        return f"WITH {', '.join(self._texts)}\nSELECT qid, document, {score} AS score FROM {self.last};\n"


def query(model: Model, names: Sequence[str]) -> str:
    """Return the query, which selects ``qid``, ``document`` and ``score``."""
    columns = {number: f"f{number}" for number in sorted(_used(model))}
    steps = SqlSteps(f"{_present(quoted(names[n]), model.schema, n)} AS {name}" for n, name in columns.items())
    return steps.select(score(model, columns, steps, model.schema))


def score(model: Model, columns: Mapping[int, str], steps: SqlSteps, schema: Schema) -> str:
    """Return the expression of a model's score; what else it needs goes to ``steps``.

    ``columns`` names the features by their numbers, whichever step they come from; ``schema`` lists their categories.
    """
    if isinstance(model, SumModel):
        factors = model.factors or [1.0 / len(model.models)] * len(model.models)
        parts = zip(factors, model.models, strict=True)
        return _sum([f"{number(factor)} * {score(part, columns, steps, schema)}" for factor, part in parts])
    if isinstance(model, LinearModel):
        return _linear(model, columns, steps)
    if isinstance(model, QueryForest):
        split = {feature - schema.count for feature in _split(model.forest) if feature >= schema.count}
        inside = _within({place: columns[place] for place in sorted(split)}, steps)
        columns = {**columns, **{schema.count + place: name for place, name in inside.items()}}
        return _trees(model.forest.nodes(), columns, schema)
    return _trees(model.nodes(), columns, schema)  # type: ignore[attr-defined]


def quoted(name: str, mark: str = '"') -> str:
    """Return the name of a column in double quotes, or a text in single ones.

    >>> quoted('the "net" price')
    '"the ""net"" price"'
    """
    return mark + name.replace(mark, 2 * mark) + mark


def number(value: float) -> str:
    """Write a number as a double: DuckDB reads decimals without an exponent as fixed-point ones.

    >>> number(0.5), number(-1e-7)
    ('0.5e0', '-1e-07')
    """
    text = repr(min(max(float(value), -_LARGEST), _LARGEST))
    return text if "e" in text else f"{text}e0"


def halfway(thresholds: Floats) -> Array:
    """Return the greatest doubles that round to at most these float32 thresholds.

    >>> end = halfway(np.array([0.1], np.float32))
    >>> (np.array([end, np.nextafter(end, 1.0)]).astype(np.float32) <= np.float32(0.1)).tolist()
    [[True], [False]]
    """
    with np.errstate(over="ignore"):
        following = np.nextafter(thresholds, np.float32(np.inf))
        middle = (np.clip(thresholds, -_BEYOND, _BEYOND) + np.clip(following, -_BEYOND, _BEYOND)) / 2.0
        rounded = middle.astype(np.float32)
    return np.asarray(np.where(rounded > thresholds, np.nextafter(middle, -np.inf), middle))


def _used(model: Model) -> set[int]:
    """Return the numbers of the features that a model asks for."""
    if isinstance(model, SumModel):
        return set().union(*map(_used, model.models))
    if isinstance(model, LinearModel):
        return set(np.flatnonzero(model.weights.reshape(-1, model.schema.count).any(axis=0)).tolist())
    if isinstance(model, QueryForest):
        return {feature % model.schema.count for feature in _split(model.forest)}
    return _split(model)


def _split(forest: Model) -> set[int]:
    """Return the columns that trees split."""
    feature = forest.nodes().feature  # type: ignore[attr-defined]
    return set(feature[feature != LEAF].tolist())


def _present(name: str, schema: Schema, column: int) -> str:
    """Return a value, and NULL of NaN: databases take it for greater than infinity, of which one over it is 0."""
    if isinstance(next(iter(schema.categories.get(column, ())), 0), str):
        return name
    return f"CASE WHEN {name} <= {number(_LARGEST)} THEN {name} WHEN 1e0 / {name} = 0e0 THEN {name} END"


def _sum(terms: Sequence[str]) -> str:
    """Return the sum of sums of so many terms."""
    while len(terms) > 1:
        groups = [terms[start : start + _TOGETHER] for start in range(0, len(terms), _TOGETHER)]
        terms = [f"({' + '.join(group)})" for group in groups]
    return terms[0]


def _linear(model: LinearModel, columns: Mapping[int, str], steps: SqlSteps) -> str:
    """Return the score of a linear model."""
    transform, count, me = model.transform, model.schema.count, steps.last
    own = model.weights[:count]
    inside = model.weights[count:] if transform.query else np.zeros(count)
    used = [place for place in range(count) if own[place] or inside[place]]
    terms = [number(model.intercept)]
    if used:
        steps.add(f"{_value(transform, place, columns[place])} AS {me}_v{place}" for place in used)
        terms += [f"{number(own[n])} * COALESCE({me}_v{n}, {number(transform.fill[n])})" for n in used if own[n]]
    inner = _within({place: f"{me}_v{place}" for place in used if inside[place]}, steps)
    return _sum(terms + [f"{number(inside[place])} * {name}" for place, name in inner.items()])


def _within(columns: Mapping[int, str], steps: SqlSteps) -> dict[int, str]:
    """Return the names of values within the query, 0 where they are missing."""
    me, each = steps.last, "OVER (PARTITION BY qid)"
    if columns:
        # Of equal values the mean may be another by a rounding: what is all the same in a query is 0.
        varied = {n: f"MIN({name}) {each} < MAX({name}) {each}" for n, name in columns.items()}
        steps.add(
            f"CASE WHEN {varied[n]} THEN {name} - AVG({name}) {each} END AS {me}_d{n}" for n, name in columns.items()
        )
        deviations = {n: f"SQRT(AVG({me}_d{n} * {me}_d{n}) {each})" for n in columns}
        steps.add(f"COALESCE({me}_d{n} / {one}, 0.0) AS {me}_z{n}" for n, one in deviations.items())
    return {n: f"{me}_z{n}" for n in columns}


def _value(transform: LinearTransform, column: int, name: str) -> str:
    """Return the expression of a transformed value; NULL of NULL."""
    if len(transform.knots):
        knots, places = np.unique(transform.knots[column], return_index=True)
        return _line(knots, transform.heights[column][places], name)
    return f"({name} - {number(transform.center[column])}) / {number(transform.scale[column])}"


def _line(knots: Floats, heights: Floats, name: str) -> str:
    """Return the broken line through points as nested halves."""
    first, last = (number(heights[end]) for end in (0, -1))
    if knots.size == 1:
        return f"CASE WHEN {name} IS NOT NULL THEN {first} END"

    def between(low: int, high: int) -> str:
        if high - low > 1:
            middle = (low + high) // 2
            left, right = between(low, middle), between(middle, high)
            return f"CASE WHEN {name} < {number(knots[middle])} THEN {left} ELSE {right} END"
        start, base = float(knots[low]), float(heights[low])
        slope = (float(heights[high]) - base) / (float(knots[high]) - start)
        return f"{number(base)} + ({name} - {number(start)}) * {number(slope)}"

    ends = f"WHEN {name} <= {number(knots[0])} THEN {first} WHEN {name} >= {number(knots[-1])} THEN {last}"
    return f"CASE {ends} WHEN {name} IS NOT NULL THEN {between(0, knots.size - 1)} END"


def _trees(nodes: Nodes, columns: Mapping[int, str], schema: Schema) -> str:
    """Return the sum of all trees, each as one term or several."""
    ends, terms = halfway(nodes.threshold), [number(nodes.base)]
    for root in nodes.roots.tolist():
        waiting: list[tuple[int, list[str]]] = [(root, [])]
        while waiting:
            node, path = waiting.pop()
            text = _case(nodes, ends, columns, schema, node, path, waiting)
            text = f"CASE WHEN {' AND '.join(path)} THEN {text} ELSE 0e0 END" if path else text
            terms.append(f"CAST({text} AS DOUBLE PRECISION)")
    return _sum(terms)


def _case(
    nodes: Nodes, ends: Array, columns: Mapping[int, str], schema: Schema,
    node: int, path: list[str], waiting: list[tuple[int, list[str]]], level: int = 0,
) -> str:  # fmt: skip
    """Return the expression of a node, 0 where it lies too deep, and then it is ``waiting`` with the path to it.

    A comparison with NULL is not true, so that a CASE asks for the way that missing values do not go.
    """
    feature = int(nodes.feature[node])
    if feature == LEAF:
        return number(nodes.value[node])
    if level == _LEVELS:
        waiting.append((node, path))
        return "0e0"
    name, missing_left = columns[feature], bool(nodes.missing_left[node])
    if node not in nodes.categories and nodes.threshold[node] == np.inf:  # only missing values may go right
        asked = "0 = 1" if missing_left else f"{name} IS NOT NULL"
    elif node not in nodes.categories:
        asked = f"{name} {'>' if missing_left else '<='} {number(ends[node])}"
    elif (known := schema.categories.get(feature)) is None:
        asked = f"{name} {'NOT IN' if missing_left else 'IN'} ({', '.join(map(str, nodes.categories[node]))})"
    else:
        left = set(nodes.categories[node])
        texts = [_literal(value) for code, value in enumerate(known) if (code in left) != missing_left]
        asked = f"{name} IN ({', '.join(texts) or 'NULL'})"
    yes, no = (nodes.left[node], nodes.right[node])[:: -1 if missing_left else 1]
    parts = [
        _case(nodes, ends, columns, schema, int(child), [*path, step], waiting, level + 1)
        for child, step in ((yes, asked), (no, f"({asked}) IS NOT TRUE"))
    ]
    return f"CASE WHEN {asked} THEN {parts[0]} ELSE {parts[1]} END"


def _literal(value: str | float) -> str:
    """Write a category."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str) and "\0" in value:
        raise check.error("a category in SQL has no character 0", got=repr(value), hint="rename it and train again")
    return quoted(value, "'") if isinstance(value, str) else repr(value)
