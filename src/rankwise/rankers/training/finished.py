"""A folder of models that are trained one after the other: those that are finished are reused on resuming."""

import json
from collections.abc import Mapping
from pathlib import Path

from rankwise import check, files


def folder_of(folder: Path, file: str, identity: Mapping[str, object], *, what: str, same: str, resume: bool) -> Path:
    """Return the folder, which must belong to this work: ``file`` in it identifies the work.

    ``what`` names the work in errors, and ``same`` the things that must not change between runs.
    """
    place = folder / file
    if folder.exists() and not all(map(files.is_part, folder.iterdir())):  # a kill may have left an incomplete file
        if not resume:
            hint = "resume it with resume=True, or choose another folder"
            raise FileExistsError(f"{folder} exists already and is kept. Hint: {hint}.")
        with check.library(f"a {what}", place, hint="choose another folder"):
            before = json.loads(place.read_text(encoding="utf-8"))
        for part, now in identity.items():
            if before.get(part) != now:
                hint = f"use the same {same}, or another folder"
                raise check.error(f"the folder holds another {what} ({part})", where=str(folder), hint=hint)
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with files.replacing(place) as new:
        new.write_text(json.dumps(identity, indent=2), encoding="utf-8")
    return folder
