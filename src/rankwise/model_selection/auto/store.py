"""The folder of a search: trained bags, the progress of each recipe, and the time that was spent."""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rankwise import check, files, settings_files, user_code
from rankwise.arrays import Json, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import Metric
from rankwise.rankers.base import Ranker
from rankwise.rankers.table import load
from rankwise.rankers.training.resume import check_same, fingerprint
from rankwise.rankers.training.settings import code_of

if TYPE_CHECKING:
    from rankwise.model_selection.auto.search import RecipeRun
    from rankwise.rankers.ensembles.bagged import bagged

FILE = "auto.json"
_FORMAT = 3
_MOST = 2**26  # bytes
MANAGED = ("seed", "threads", "metrics", "progress", "checkpoint", "checkpoint_every")
"""Parameters of recipes that the search sets itself."""
_FREE = (*MANAGED, "device")


def identity(data: RankingDataset, recipes: Sequence[Ranker], metric: Metric, **settings: object) -> Json:
    """Return what must be the same for a search to be resumed."""
    described = [one.recipe(_FREE) for one in recipes]
    plain = {"data": fingerprint(data), "metric": str(metric), **settings, "recipes": described}
    code = user_code.digests(metric) | {name: digest for one in recipes for name, digest in code_of(one).items()}
    identified: Json = json.loads(json.dumps(plain | ({"code": code} if code else {})))
    return identified


class SearchStore:
    """The files of a search, in a folder of the user's or in a temporary one."""

    def __init__(self, folder: Path, identity: Json, *, lasting: bool) -> None:
        self.folder, self.identity, self.lasting = folder, identity, lasting
        self.spent = 0.0
        """Seconds of earlier runs."""
        self.records: dict[str, Json] = {}

    def checkpoint(self, number: int) -> Path:
        """Return the folder of a recipe's checkpoint."""
        return self.folder / f"checkpoint-{number + 1}"

    def bag(self, number: int) -> Path:
        """Return the folder of a recipe's trained bag."""
        return self.folder / f"recipe-{number + 1}"

    def read(self, tried: "Sequence[RecipeRun]", settings: Keywords) -> None:
        """Restore the results of earlier runs; ``settings`` are those that files hold by name."""
        if not (self.folder / FILE).is_file():
            if self.lasting:  # before the first checkpoint: a search that is killed early is known by it
                self._write(0.0)
            return
        stored = settings_files.load(self.folder / FILE, "the file of a search", as_json=True, most=_MOST).keys
        with _making_sense(self.folder):
            if stored["format"] != _FORMAT:
                raise check.error(
                    "the folder holds a search of another version",
                    got=f"format {stored['format']}, where this version has {_FORMAT}",
                    where=str(self.folder),
                    hint="name a new folder",
                )
            hint = "call it with the same data and settings, or name a new folder"
            what = "the folder holds another search"
            check_same(stored["identity"], self.identity, what, where=self.folder, hint=hint)
            self.spent, self.records = float(stored["spent"]), dict(stored["recipes"])
            for one in tried:
                if record := self.records.get(str(one.number)):
                    bag = cast("bagged", load(self.bag(one.number))) if record["trained"] else None
                    if bag is not None:
                        live = [name for name in ("objective",) if name in one.recipe.own_parameters()]
                        bag.set_params(**settings, **{name: getattr(one.recipe, name) for name in live})
                    one.restore(record, bag)

    def write(self, one: "RecipeRun", spent: float) -> None:
        """Write the progress of a recipe, and its bag; remove a checkpoint that is no longer needed."""
        if self.lasting:
            if one.bag is not None:
                one.bag.save(self.bag(one.number), force=True)
            self.records[str(one.number)] = one.record()
            self._write(spent)
        if one.finished:
            shutil.rmtree(self.checkpoint(one.number), ignore_errors=True)

    def _write(self, spent: float) -> None:
        content = {"format": _FORMAT, "identity": self.identity, "spent": spent, "recipes": self.records}
        with files.replacing(self.folder / FILE, force=True) as new:
            new.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


@contextlib.contextmanager
def opened(folder: str | Path | None, identity: Json) -> Iterator[SearchStore]:
    """Open the folder of a search, or a temporary one."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="rankwise-auto-") as scratch:
            yield SearchStore(Path(scratch), identity, lasting=False)
        return
    ready(folder)
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    yield SearchStore(path, identity, lasting=True)


def ready(folder: str | Path) -> None:
    """Raise, before the work begins, unless ``folder`` is new, empty, or of a search."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file, where a search is to be kept. Hint: name a folder.")
    if path.exists() and not (path / FILE).is_file() and not all(map(files.is_part, path.iterdir())):
        raise FileExistsError(f"{path} is not the folder of a search, and is kept. Hint: name a new folder.")
    files.check_writable_folder(path)


@contextlib.contextmanager
def _making_sense(folder: Path) -> Iterator[Any]:
    try:
        yield
    except (AttributeError, KeyError, TypeError) as wrong:
        raise check.error(
            "the folder of a search is damaged",
            got=f"{FILE} is malformed ({type(wrong).__name__}: {wrong})",
            where=str(folder),
            hint="name a new folder",
        ) from None
