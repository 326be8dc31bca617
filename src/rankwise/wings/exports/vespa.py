"""Vespa: the JSON that its importers of XGBoost and LightGBM read, from the folder ``models/`` of an application.

Trees with categories, and all trees of LightGBM, are written as LightGBM dumps them, ``lightgbm("FILE")`` in a rank
profile; the others as XGBoost does, ``xgboost("FILE")``. Features are rank features by their names.

Categories are texts, which all versions of the importer read: numbers are ``"null"`` to those before 2025. A document
without a value has the empty text there, and never NaN.

A linear model is an expression of its own, ``file:NAME`` in a rank profile.
"""

import re
from collections.abc import Sequence

from rankwise import check
from rankwise.models import LinearModel
from rankwise.wings.exports.export_source import ExportedFile, ExportSource
from rankwise.wings.exports.tree_json import lightgbm_model, xgboost_trees

_RANK_FEATURE = re.compile(r"[A-Za-z_][\w.]*(\([^()]*\)(\.[\w.]+)?)?")


def write(source: ExportSource) -> ExportedFile:
    """Return the file."""
    names = source.known_names("Vespa")
    for name in names:
        if not _RANK_FEATURE.fullmatch(name):
            raise check.error(
                "the name of a feature must be a rank feature or a function of Vespa",
                got=repr(name),
                hint="name it as in attribute(price), fieldMatch(title).completeness or my_function",
            )
    if (linear := source.plain("Vespa")) is not None:
        load = f"put it beside the schema, and write expression: file:{source.path.name} in a rank profile"
        return ExportedFile(_expression(linear, names).encode(), load)
    nodes = source.trees("Vespa")
    like_lightgbm = getattr(source.forest, "library", "") == "lightgbm" or nodes.categories
    columns = sorted({int(nodes.feature[node]) for node in nodes.categories})
    texts = _categories(source, columns)
    content = lightgbm_model(nodes, names, texts) if like_lightgbm else xgboost_trees(nodes, names)
    call = f'{"lightgbm" if like_lightgbm else "xgboost"}("{source.path.name}")'
    load = f"put it into models/ of the application, and write {call} in a rank profile"
    if columns:
        load += f"; of type string there: {', '.join(names[column] for column in columns)}"
    return ExportedFile(content.encode(), load)


def _expression(model: LinearModel, names: Sequence[str]) -> str:
    """Return the ranking expression of a linear model; a missing value is NaN."""
    transform, terms = model.transform, [repr(float(model.intercept))]
    for name, weight, center, scale in zip(names, model.weights, transform.center, transform.scale, strict=True):
        value = f"({name} - {float(center)!r}) / {float(scale)!r}"
        terms += [f"{float(weight)!r} * if (isNan({name}) == 1, 0.0, {value})"] if weight else []
    return " +\n".join(terms) + "\n"


def _categories(source: ExportSource, columns: list[int]) -> dict[int, tuple[str, ...]]:
    """The texts of categories; an error about those that an expression of Vespa, which escapes nothing, cannot hold."""
    known = source.model.schema.categories
    listed = {column: tuple(map(str, known[column])) for column in columns if column in known}
    for column, texts in listed.items():
        for text in texts:
            if not text or not text.isprintable() or set(text) & set('"\\'):
                raise check.error(
                    "categories for Vespa must be printable texts without quotes and backslashes, and not empty, "
                    "which is a missing value there",
                    got=repr(text),
                    where=source.model.schema.name(column),
                    hint="rename the category and train again, or export to onnx",
                )
    return listed
