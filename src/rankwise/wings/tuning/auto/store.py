"""The folder of a search: trained bags, the progress of each recipe, and the time that was spent."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rankwise import Metric, Ranker, RankingDataset, check, load
from rankwise.base.arrays import Json, Keywords
from rankwise.language import FILE, Workspace, user_code
from rankwise.rankers.training import code_of, fingerprint

if TYPE_CHECKING:
    from rankwise import bagged
    from rankwise.wings.tuning.auto.search import RecipeRun

_FREE = ("seed", "threads", "metrics", "progress", "checkpoint", "checkpoint_every", "device")
"""Parameters of recipes that the search sets itself, and one that makes no other model."""


def identity(data: RankingDataset, recipes: Sequence[Ranker], metric: Metric, **settings: object) -> Json:
    """Return what must be the same for a search to be resumed."""
    described = [one.recipe(_FREE) for one in recipes]
    plain = {"data": fingerprint(data), "metric": str(metric), **settings, "recipes": described}
    code = user_code.digests(metric) | {name: digest for one in recipes for name, digest in code_of(one).items()}
    return plain | ({"code": code} if code else {})


class SearchStore:
    """The files of a search, in a folder of the user's or in a temporary one."""

    def __init__(self, work: Workspace, *, lasting: bool) -> None:
        self.work, self.lasting = work.open(resume=True), lasting  # a search that is killed early is known by it
        self.spent = 0.0
        """Seconds of earlier runs."""
        self.records: dict[str, Json] = {}

    def checkpoint(self, number: int) -> Path:
        """Return the folder of a recipe's checkpoint."""
        return self.work.part(f"checkpoint-{number + 1}")

    def bag(self, number: int) -> Path:
        """Return the folder of a recipe's trained bag."""
        return self.work.part(f"recipe-{number + 1}")

    def read(self, tried: "Sequence[RecipeRun]", settings: Keywords) -> None:
        """Restore the results of earlier runs; ``settings`` are those that files hold by name."""
        state: Json = {"spent": 0.0, "recipes": {}} | self.work.state
        try:
            self.spent, self.records = float(state["spent"]), {**state["recipes"]}
            for one in tried:
                if record := self.records.get(str(one.number)):
                    bag = cast("bagged", load(self.bag(one.number))) if record["trained"] else None
                    if bag is not None:
                        own = "objective" in one.recipe.own_parameters()
                        bag.set_params(**settings, **({"objective": one.recipe.objective} if own else {}))
                    one.restore(record, bag)
        except (AttributeError, KeyError, TypeError) as wrong:
            got, hint = f"{FILE} is malformed ({type(wrong).__name__}: {wrong})", "name a new folder"
            where = str(self.work.path)
            raise check.error("the folder of a search is damaged", got=got, where=where, hint=hint) from None

    def write(self, one: "RecipeRun", spent: float) -> None:
        """Write the progress of a recipe, and its bag; remove a checkpoint that is no longer needed."""
        if self.lasting:
            if one.bag is not None:
                one.bag.save(self.bag(one.number), force=True)
            self.records[str(one.number)] = one.record()
            self.work.keep({"spent": spent, "recipes": self.records})
        if one.finished:
            shutil.rmtree(self.checkpoint(one.number), ignore_errors=True)


@contextlib.contextmanager
def open_store(folder: str | Path | None, identity: Json) -> Iterator[SearchStore]:
    """Open the folder of a search, or a temporary one."""
    with tempfile.TemporaryDirectory(prefix="rankwise-auto-") as scratch:
        yield SearchStore(workspace(scratch if folder is None else folder, identity), lasting=folder is not None)


def workspace(folder: str | Path, identity: Json) -> Workspace:
    """Return the place of a search."""
    return Workspace(Path(folder), identity, what="search", same="data and settings")
