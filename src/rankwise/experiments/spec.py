"""An experiment as one flat description: read from TOML, checked at once, with a digest of what changes results."""

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from rankwise import check
from rankwise.experiments.methods import Method, method
from rankwise.experiments.protocols import PROTOCOLS, TREATMENTS
from rankwise.metrics import metric

FORMAT = 1
CURVES = ("valid", "test", "bound")
_TESTS = ("t", "corrected_t", "fisher", "wilcoxon")
_CHANGE_RESULTS = (
    *("queries", "protocol", "split", "seed", "treatment", "treat_valid", "relevant", "metrics", "ratios", "decide"),
    *("early_stopping", "curves", "tune_trials", "tune_minutes", "tune_space"),
)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One experiment: methods, compared on data sets, over trials and levels of a treatment.

    Every field is a key of the TOML file.
    """

    name: str
    title: str = ""
    paper: str = ""
    claim: str = ""
    """What the experiment is to show, in a sentence."""
    cost: str = ""
    """How long the full form takes, in words."""
    published: str = ""
    """Which printed figures to put beside ours: ``bruch2019.table1``; several between blanks."""

    paper_data: tuple[str, ...] = ()
    """The data sets that the paper used."""
    data: tuple[str, ...] = ("synthetic",)
    """Names of the catalog, files, or ``synthetic(n_queries=500)``."""
    queries: int | None = None
    """Use at most so many queries of each data set."""
    protocol: str = "trials"
    trials: int = 5
    split: tuple[float, ...] = (0.6, 0.2, 0.2)
    seed: int = 0

    treatment: str = "none"
    levels: tuple[float, ...] = (0.0,)
    treat_valid: bool = False
    """Whether noise also goes into the validation data."""
    relevant: float = 1.0
    """Labels from this on are relevant, where labels are made binary and where relevant documents are counted."""

    methods: dict[str, str] = field(default_factory=dict)
    """Name -> text: ``lightgbm(xendcg)``."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Parameters of every method."""
    settings_for: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Parameters by data set, ranker or level, all words of the key: ``yahoo-set1``, ``mslr-web30k lightgbm``, ``@1``.
    Later ones replace earlier ones; what a method's own text says stands above all."""
    metrics: tuple[str, ...] = ("ndcg@5", "ndcg@10")
    ratios: tuple[str, ...] = ()
    """Metrics, such as dcg@5, of which the mean over the mean of the best possible is reported too."""
    decide: str = "ndcg@5"
    """The metric of early stopping and of tuning, and the first in tables."""
    early_stopping: bool = True
    """Keep the round that is best on the validation data; without, every round is trained and kept."""
    curves: tuple[str, ...] = ("valid",)
    """Learning curves to keep: ``valid``, ``test`` and ``bound`` (what losses guarantee about the test metric)."""

    tune_trials: int = 0
    """Search each method's parameters with so many trials, in every trial anew; 0 for none."""
    tune_minutes: float = 0.0
    """Search for so many minutes each: the same budget for all."""
    tune_space: str = "default"

    test: str = "t"
    """The test between methods, paired by trial."""
    alpha: float = 0.05
    quick: dict[str, Any] = field(default_factory=dict)
    """What ``--quick`` changes: keys of this description; its ``settings`` are added to the others."""

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, list):
                object.__setattr__(self, item.name, tuple(value))
        check.choice("protocol", self.protocol, PROTOCOLS)
        check.choice("treatment", self.treatment, TREATMENTS)
        check.choice("test of significance", self.test, _TESTS)
        check.integer("trials", self.trials, least=1)
        check.integer("seed", self.seed, least=0)
        check.fractions(self.split)
        for one in self.curves:
            check.choice("curve", one, CURVES)
        if self.queries is not None:
            check.integer("queries", self.queries, least=3)
        object.__setattr__(self, "levels", tuple(check.number("a level", one, least=0.0) for one in self.levels))
        if not self.methods or not self.data or not self.levels:
            raise check.error("an experiment needs methods, data and at least one level", where=self.name)
        for name in ("metrics", "ratios"):
            object.__setattr__(self, name, tuple(str(metric(one)) for one in getattr(self, name)))
        object.__setattr__(self, "decide", str(metric(self.decide)))
        if self.decide not in self.metrics:
            object.__setattr__(self, "metrics", (self.decide, *self.metrics))
        self.parsed()

    def parsed(self) -> dict[str, Method]:
        """Read the texts of the methods."""
        return {name: method(text) for name, text in self.methods.items()}

    def settings_of(self, name: str, data: str, level: float) -> dict[str, Any]:
        """All settings of a method on a data set at a level."""
        chosen = self.parsed()[name]
        found = dict(self.settings)
        words = {data, chosen.ranker, f"@{level:g}"}
        for key, own in self.settings_for.items():
            if set(key.split()) <= words:
                found |= own
        found |= chosen.settings
        return {key: None if value == "none" else value for key, value in found.items()}

    def digest(self, name: str, data: str, level: float, fingerprint: str) -> str:
        """A digest of everything that changes a trial's numbers; not of the number of trials, titles and the like."""
        chosen = self.parsed()[name]
        content = {
            "format": FORMAT,
            "data": fingerprint,
            "level": level,
            "ranker": chosen.ranker,
            "objective": chosen.objective,
            "settings": self.settings_of(name, data, level),
        } | {key: getattr(self, key) for key in _CHANGE_RESULTS}
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def changed(self, changes: Mapping[str, Any]) -> "Spec":
        """Give the experiment with some keys replaced; ``settings.rounds`` and ``settings`` win over all others.

        >>> spec = Spec(name="x", methods={"a": "lightgbm(xendcg)"}, settings={"rounds": 500})
        >>> spec.changed({"trials": 2, "settings.rounds": 5}).settings_of("a", "synthetic", 0.0)
        {'rounds': 5}
        """
        plain: dict[str, Any] = {}
        own = dict(changes.get("settings", {}))
        for key, value in changes.items():
            if key.startswith("settings."):
                own[key.removeprefix("settings.")] = value
            elif key != "settings":
                plain[key] = value
        _known(plain, where="the changes")
        if own:
            everywhere = self.settings_for.get("", {}) | own
            others = {key: value for key, value in self.settings_for.items() if key}
            plain["settings_for"] = others | plain.get("settings_for", {}) | {"": everywhere}
        return dataclasses.replace(self, **plain)

    def quickly(self) -> "Spec":
        """Give the small form."""
        return self.changed(self.quick)

    def plain(self) -> dict[str, Any]:
        """Give the experiment as plain data."""
        found: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return found


def _known(keys: Mapping[str, Any], where: str) -> None:
    known = [item.name for item in dataclasses.fields(Spec)]
    for key in keys:
        if key not in known:
            cure = check.suggestion(key, known).rstrip("?")
            raise check.error("unknown key in the description of an experiment", got=repr(key), where=where, cure=cure)


def read_spec(text: str, *, where: str, name: str) -> Spec:
    """Read the TOML of an experiment.

    >>> read_spec('methdos = {a = "lightgbm"}', where="mine.toml", name="mine")
    Traceback (most recent call last):
    ValueError: unknown key in the description of an experiment: got 'methdos' at mine.toml. Cure: did you mean
    'methods'.
    """
    try:
        keys = tomllib.loads(text)
    except ValueError as broken:
        raise check.error("cannot read the description of an experiment", got=str(broken), where=where) from None
    _known(keys, where)
    try:
        spec = Spec(**({"name": name} | keys))
        spec.quickly()  # an error in there is found now
    except (ValueError, TypeError) as wrong:
        raise ValueError(f"{where}: {wrong}") from None
    return spec


def recipes() -> list[str]:
    """The names of the experiments that come with rankwise."""
    return sorted(one.name.removesuffix(".toml") for one in _folder().iterdir() if one.name.endswith(".toml"))


def find_spec(name: str) -> Spec:
    """Give the experiment of a name that comes with rankwise, or of a TOML file.

    >>> find_spec("2021-tabel1")
    Traceback (most recent call last):
    ValueError: unknown experiment: got '2021-tabel1'. Cure: did you mean '2021-table1'.
    """
    if name.endswith(".toml"):
        path = check.readable(name)
        return read_spec(path.read_text(encoding="utf-8"), where=str(path), name=path.stem)
    file = f"{check.choice('experiment', name, recipes())}.toml"
    return read_spec(_folder().joinpath(file).read_text("utf-8"), where=file, name=name)


def _folder() -> Any:
    return resources.files("rankwise.experiments").joinpath("recipes")
