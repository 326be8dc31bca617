"""The folder of a search: trained bags, how far each recipe is, and the time that was spent."""

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

if TYPE_CHECKING:
    from rankwise.model_selection.auto.search import Tried
    from rankwise.rankers.ensembles.bagged import bagged

FILE = "auto.json"
_FORMAT = 1
_MOST = 2**26  # bytes
MANAGED = ("seed", "threads", "metrics", "progress", "checkpoint", "checkpoint_every")
"""Parameters of recipes that the search sets itself."""
_FREE = (*MANAGED, "device")


def identity(data: RankingDataset, recipes: Sequence[Ranker], metric: Metric, **settings: object) -> Json:
    """What must be the same for a search to be resumed."""
    described = [
        {"ranker": one.name, "objective": one._objective_expression(), "parameters": one._parameters(_FREE)}
        for one in recipes
    ]
    about = {"data": fingerprint(data), "metric": str(metric), **settings, "recipes": described}
    code = user_code.digests(metric) | {name: digest for one in recipes for name, digest in one._code().items()}
    found: Json = json.loads(json.dumps(about | ({"code": code} if code else {})))
    return found


class Kept:
    """What a search keeps, in a folder of the user's or in one that ends with it."""

    def __init__(self, folder: Path, about: Json, *, lasting: bool) -> None:
        self.folder, self.about, self.lasting = folder, about, lasting
        self.spent = 0.0
        """Seconds of runs before."""
        self.records: dict[str, Json] = {}

    def checkpoint(self, number: int) -> Path:
        """Where the state of a training lies."""
        return self.folder / f"checkpoint-{number + 1}"

    def bag(self, number: int) -> Path:
        """Where the trained bag of a recipe lies."""
        return self.folder / f"recipe-{number + 1}"

    def read(self, tried: "Sequence[Tried]", settings: Keywords) -> None:
        """Take over what a run before has found; ``settings`` are those that files hold by name."""
        if not (self.folder / FILE).is_file():
            if self.lasting:  # before the first checkpoint: a search that is killed early is known by it
                self._write(0.0)
            return
        found = settings_files.load(self.folder / FILE, "the file of a search", as_json=True, most=_MOST).keys
        with _making_sense(self.folder):
            if found["format"] != _FORMAT:
                raise KeyError("format")
            hint = "call it with the same data and settings, or name a new folder"
            what = "the folder holds another search"
            check_same(found["identity"], self.about, what, where=self.folder, hint=hint)
            self.spent, self.records = float(found["spent"]), dict(found["recipes"])
            for one in tried:
                if record := self.records.get(str(one.number)):
                    one.restore(record)
                    if record["trained"]:
                        bag = cast("bagged", load(self.bag(one.number)))
                        live = [name for name in ("objective",) if name in one.recipe.own_parameters()]
                        one.bag = bag.set_params(**settings, **{name: getattr(one.recipe, name) for name in live})

    def write(self, one: "Tried", spent: float) -> None:
        """Keep how far a recipe is, and its bag; a checkpoint that nobody needs any more goes."""
        if self.lasting:
            if one.bag is not None:
                one.bag.save(self.bag(one.number), force=True)
            self.records[str(one.number)] = one.record()
            self._write(spent)
        if one.finished:
            shutil.rmtree(self.checkpoint(one.number), ignore_errors=True)

    def _write(self, spent: float) -> None:
        content = {"format": _FORMAT, "identity": self.about, "spent": spent, "recipes": self.records}
        with files.replacing(self.folder / FILE, force=True) as new:
            new.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


@contextlib.contextmanager
def opened(folder: str | Path | None, about: Json) -> Iterator[Kept]:
    """Open the folder of a search, or make one that is gone afterwards."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="rankwise-auto-") as scratch:
            yield Kept(Path(scratch), about, lasting=False)
        return
    ready(folder)
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    yield Kept(path, about, lasting=True)


def ready(folder: str | Path) -> None:
    """Check, before the work begins, that a search can be kept in ``folder``: it is new, empty, or of a search."""
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
