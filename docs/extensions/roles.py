"""Sphinx roles in docstrings: links to what the reference documents, and code for the rest."""

import re
from html import escape
from typing import Any

import griffe

_FENCE = re.compile(r"(?ms)^( *)```.*?^\1```$")
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc|obj):`(~?)([^`<]*?)(?:\s*<([^`>]*)>)?`")


class Roles(griffe.Extension):
    """Rewrites docstrings once the package is loaded, when every name can be looked up."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of anything that has one."""
        if obj.docstring is not None:
            obj.docstring.value = linked(obj.docstring.value, obj)


def linked(text: str, where: griffe.Object) -> str:
    """Replace the roles outside of fences; a link whose target is on no page is shown as its text."""

    def link(role: re.Match[str]) -> str:
        short, title, target = role.groups()
        path = _path(target or title, where)
        shown = f"<code>{escape(title.rpartition('.')[2] if short else title)}</code>"
        return f'<autoref optional identifier="{path}">{shown}</autoref>' if path else shown

    done, parts = 0, []
    for fence in _FENCE.finditer(text):
        parts += [_ROLE.sub(link, text[done : fence.start()]), fence[0]]
        done = fence.end()
    return "".join(parts) + _ROLE.sub(link, text[done:])


def _path(name: str, where: griffe.Object) -> str:
    """Find where a name is defined: from its object outwards, then among the package's names."""
    name = re.sub(r"^rw\.", "rankwise.", name)
    scopes: list[str] = []
    scope: griffe.Object | None = where
    while scope is not None:
        scopes.append(scope.path)
        scope = None if scope.is_module else scope.parent
    for path in (name, *(f"{one}.{name}" for one in scopes), f"rankwise.{name}"):
        try:
            found = where.modules_collection[path]
            if found.is_module and not found.is_alias and path.rpartition(".")[2] in found.members:
                found = found.members[path.rpartition(".")[2]]  # a function in the module of its name
            return str(found.final_target.path if found.is_alias else found.path)
        except (KeyError, griffe.AliasResolutionError, griffe.CyclicAliasError):
            continue
    return ""
