"""Declared parameters in the reference: docstrings with the generated section, and signatures with plain types."""

import importlib
import inspect
from typing import Any

import griffe


class DeclaredParameters(griffe.Extension):
    """Reads classes and functions with the decorator ``documented`` as they are when the package is imported."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Take over the docstring and the types of parameters."""
        if any(str(one.value) == "documented" for one in getattr(obj, "decorators", ())) and obj.docstring is not None:
            target = getattr(importlib.import_module(obj.module.canonical_path), obj.name)
            obj.docstring.value = inspect.cleandoc(target.__doc__)
            function: Any = obj.members.get("__init__") if isinstance(obj, griffe.Class) else obj
            for parameter in getattr(function, "parameters", ()):
                parameter.annotation = _plain(parameter.annotation, obj.modules_collection)


def _plain(annotation: Any, modules: griffe.ModulesCollection) -> Any:
    """Return a type without the notes of ``Annotated[…]``, also behind names and in unions."""
    if isinstance(annotation, griffe.ExprSubscript) and str(annotation.left) == "Annotated":
        return _plain(annotation.slice.elements[0], modules)
    if isinstance(annotation, griffe.ExprBinOp):
        return griffe.ExprBinOp(_plain(annotation.left, modules), "|", _plain(annotation.right, modules))
    if isinstance(annotation, griffe.ExprName | griffe.ExprAttribute):
        try:
            value = getattr(modules[annotation.canonical_path], "value", None)
        except (KeyError, griffe.AliasResolutionError):
            return annotation
        return _plain(value, modules) if str(value).startswith("Annotated[") else annotation
    return annotation
