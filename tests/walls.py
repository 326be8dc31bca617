"""The walls between the wings and the house, by ``wings/CONTRACT``: a contract of import-linter.

A wing imports from the house what its part of the file names: modules, of which those with a stub ``__init__.pyi`` are
doors, whose names and modules count as the door. It imports other wings through ``rw.`` alone, and nothing in the
house imports a wing.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from importlinter import Contract, ContractCheck, output

SOURCE = Path(__file__).parents[1] / "src"
WINGS = "rankwise.wings"
CONTRACT: dict[str, dict[str, Any]] = tomllib.loads((SOURCE / "rankwise/wings/CONTRACT").read_text(encoding="utf-8"))
"""Wing -> the modules that it may import, and its most lines."""
MOST = 25


def stub(package: str) -> str:
    """Return the text of a package's stub; empty where it has none."""
    path = SOURCE.joinpath(*package.split("."), "__init__.pyi")
    return path.read_text(encoding="utf-8") if path.exists() else ""


def door(module: str) -> str:
    """Return the package at whose door a module is listed, or the module itself.

    >>> door("rankwise.models.storage"), door("rankwise.models.formats.lightgbm")
    ('rankwise.models', 'rankwise.models.formats.lightgbm')
    """
    package, _, name = module.rpartition(".")
    while package:
        inside = module.removeprefix(f"{package}.").rpartition(".")[0]
        source = f"{package}.{inside}" if inside else "."
        if re.search(rf"^from {re.escape(source)} import {name} as {name}$", stub(package), re.MULTILINE):
            return door(package)
        package = package.rpartition(".")[0]
    return module


def wing_of(module: str) -> str:
    """Return the wing that a module is in; empty for the house."""
    return module.removeprefix(f"{WINGS}.").partition(".")[0] if module.startswith(f"{WINGS}.") else ""


def imported(graph: Any) -> dict[str, dict[str, set[str]]]:
    """Return, for each wing and module or door that it imports, the importing modules."""
    found: dict[str, dict[str, set[str]]] = {name: {} for name in CONTRACT}
    for module in sorted(graph.modules):
        if wing := wing_of(module):
            for other in graph.find_modules_directly_imported_by(module):
                if wing_of(other) != wing:
                    name = door(other).removeprefix("rankwise.")
                    found.setdefault(wing, {}).setdefault(name, set()).add(module)
    return found


def broken(graph: Any) -> list[str]:
    """Return what breaks the contract, in sentences."""
    found = imported(graph)
    places = [
        f"the wing {wing} imports {module}, in {', '.join(sorted(found[wing][module]))}"
        for wing in found
        for module in sorted(found[wing].keys() - CONTRACT.get(wing, {"modules": ()})["modules"])
    ]
    places += [
        f"the wing {wing} does not import {module}, which its contract names"
        for wing, terms in CONTRACT.items()
        for module in sorted({*terms["modules"]} - found[wing].keys())
    ]
    places += [f"the contract of {wing} names more than {MOST} modules" for wing in CONTRACT if len(found[wing]) > MOST]
    return places


class WallsContract(Contract):
    """Each wing imports what ``wings/CONTRACT`` names, and names all that it imports."""

    type_name = "walls"

    def check(self, graph: Any, verbose: bool) -> ContractCheck:
        """Compare the imports with the file."""
        places = broken(graph)
        return ContractCheck(kept=not places, metadata={"places": places})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each place."""
        for place in check.metadata["places"]:
            output.print_error(place)
