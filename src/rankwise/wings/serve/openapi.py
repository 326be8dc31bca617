"""The description of the HTTP service for programs, at ``/openapi.json``."""

import re
from collections.abc import Iterable, Mapping, Sequence

from rankwise import __version__
from rankwise.base.arrays import Json
from rankwise.models import Schema
from rankwise.wings.serve.request_parsing import RequestLimits

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_STATUSES = {
    400: "not JSON, a key that is there twice, or another Host",
    404: "there is no such model",
    413: "the body is too large",
    422: "features, values or documents do not fit the model",
    504: "the request took too long",
}
_METHODS = {
    "score": "Scores and ranks of documents",
    "explain": "What features add to scores",
    "search": "Documents for words",
    "why": "Why one document of a search is above another",
}
_PATHS = {
    "/models": "Models: versions, expressions, features, categories and cards",
    "/health": "Whether the process runs",
    "/ready": "Whether it serves: status 503 once it stops",
    "/metrics": "Metrics in the text format of Prometheus",
}


def document(
    models: Iterable[tuple[str, Schema]], limits: RequestLimits, searches: Mapping[str, Sequence[str]] | None = None
) -> Json:
    """Return an OpenAPI document: paths, and what a request to each model holds.

    ``searches`` has the texts of requests by the paths of searches.

    >>> page = document([("model", Schema(2, ("colour", "size"), (0,), {0: ("red", "blue")}))], RequestLimits())
    >>> [*page["paths"]][:2], page["components"]["schemas"]["model.document"]["properties"]["size"]
    (['/score', '/explain'], {'type': ['number', 'boolean', 'null']})
    """
    schemas: Json = {"answer": _ANSWER, "error": _ERROR}
    listed = [*models]
    # Names of schemas have letters, digits and .-_ alone, which names of models need not
    names = [name if _NAME.fullmatch(name) else f"-{number}" for number, (name, _) in enumerate(listed)]
    for name, (_, schema) in zip(names, listed, strict=True):
        schemas[f"{name}.document"] = _document(schema)
        schemas[f"{name}.request"] = _request(name, schema, limits)
    one_of = {"anyOf": [_reference(f"{name}.request") for name in names]}
    named = {"name": "name", "in": "path", "required": True, "schema": {"enum": [name for name, _ in listed]}}
    paths: Json = {}
    bodies = dict.fromkeys(("score", "explain"), one_of)
    for method, keys in (searches or {}).items():
        texts: Json = {name: {"type": "string"} for name in keys}
        bodies[method] = _object(texts | {"k": {"type": "integer"}}, "k")
    for prefix, parameters in (("", []), ("/models/{name}", [named])):
        for method, body in bodies.items():
            what = _METHODS[method]
            answer = {"description": what, "content": _json(_reference("answer") if method == "score" else {})}
            failures = {str(s): {"description": t, "content": _json(_reference("error"))} for s, t in _STATUSES.items()}
            post = {"summary": what, "requestBody": {"required": True, "content": _json(body)}}
            paths[f"{prefix}/{method}"] = {"post": post | {"responses": {"200": answer, **failures}}} | (
                {"parameters": parameters} if parameters else {}
            )
    for path, what in _PATHS.items():
        paths[path] = {"get": {"summary": what, "responses": {"200": {"description": what}}}}
    info = {"title": "rankwise serve", "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _document(schema: Schema) -> Json:
    """Return the schema of one document: all features by name, null where a value is missing."""
    names = schema.names or ()
    kinds = {name: _value(schema, column) for column, name in enumerate(names)}
    return {"type": "object", "properties": kinds, "required": [*names], "additionalProperties": False}


def _value(schema: Schema, column: int) -> Json:
    texts = any(isinstance(value, str) for value in schema.categories.get(column, ()))
    return {"type": ["string", "null"] if texts else ["number", "boolean", "null"]}


def _request(name: str, schema: Schema, limits: RequestLimits) -> Json:
    """Return the schema of a request: documents or rows of one query, or several queries."""
    ids = {"type": "array", "items": {"type": ["string", "integer"]}, "uniqueItems": True}
    labels = {"type": "array", "items": {"type": ["number", "null"]}}
    shared = {"id": {"type": ["string", "integer"]}, "ids": ids, "labels": labels}
    row = {"type": "array", "minItems": schema.count, "maxItems": schema.count}
    rows = {"type": "array", "items": row, "maxItems": limits.documents}
    features = {"type": "array", "items": {"enum": [*schema.names]}, "uniqueItems": True} if schema.names else None
    forms = [_object({**shared, "rows": rows, **({"features": features} if features else {})}, *shared)]
    if schema.names:
        documents = {"type": "array", "items": _reference(f"{name}.document"), "maxItems": limits.documents}
        forms.append(_object({**shared, "documents": documents}, *shared))
    query: Json = {"oneOf": forms}
    return {"anyOf": [query, _object({"queries": {"type": "array", "items": query, "maxItems": limits.documents}})]}


def _object(properties: Json, *optional: str) -> Json:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _json(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


_TEXTS: Json = {"type": ["string", "null"]}
_ERROR = _object({"error": _object(dict.fromkeys(("message", "what", "got", "where", "hint"), _TEXTS))})
_NUMBERS: Json = {"type": "array", "items": {"type": "number"}}
_SCORED: Json = {"scores": _NUMBERS, "ranks": {"type": "array", "items": {"type": "integer"}}}
_ANSWER: Json = {
    "type": "object",
    "properties": {"model": {"type": "string"}, "version": {"type": "string"}, **_SCORED, "queries": {"type": "array"}},
    "required": ["model", "version"],
}
