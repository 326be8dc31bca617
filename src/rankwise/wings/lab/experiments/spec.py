"""An experiment as one flat description: read from TOML, checked at once, with a digest of what changes results."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Annotated, Any, ClassVar

import rankwise as rw
from rankwise import check
from rankwise.base.arrays import Json, Keywords
from rankwise.check.docstrings import PlainSignature
from rankwise.check.parameters import AtLeast, OneOf, Parameter, Within, declared
from rankwise.language import SettingsFile, settings_files, user_code
from rankwise.metrics import MetricLike, expression, metric
from rankwise.metrics import metrics as find_metrics
from rankwise.rankers import RankerExpression, expressions, table
from rankwise.wings.lab.experiments.running.protocols import PROTOCOLS, TREATMENTS

FORMAT = 1
MOST_CELLS = 1_000_000
_WHAT = "the description of an experiment"
_CHANGE_RESULTS = (
    *("queries", "protocol", "split", "seed", "treatment", "treat_valid", "relevant", "metrics", "ratios", "decide"),
    *("early_stopping", "curves", "tune_trials", "tune_minutes", "tune_space"),
)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One experiment: methods, compared on data sets, over trials and levels of a treatment.

    Every field is a key of the TOML file.
    """

    __signature__: ClassVar[object] = PlainSignature()
    name: str
    title: str = ""
    paper: str = ""
    claim: str = ""
    """What the experiment is to show, in a sentence."""
    cost: str = ""
    """How long the full form takes, in words."""
    published: str = ""
    """Which published figures to put beside ours: ``bruch2019.table1``; several between blanks."""

    paper_data: tuple[str, ...] = ()
    """The data sets that the paper used."""
    data: tuple[str, ...] = ("synthetic",)
    """Names of the catalog, files, or ``synthetic(n_queries=500)``."""
    columns: Keywords = field(default_factory=dict)
    """How plain files are read, as :func:`rankwise.read_data` has it: ``query``, ``label``, ``features`` …."""
    queries: Annotated[int | None, AtLeast(3)] = None
    """Use at most so many queries of each data set."""
    protocol: Annotated[str, OneOf(PROTOCOLS)] = "trials"
    trials: Annotated[int, AtLeast(1)] = 5
    split: tuple[float, ...] = (0.6, 0.2, 0.2)
    seed: Annotated[int, AtLeast(0)] = 0

    treatment: Annotated[str, OneOf(TREATMENTS)] = "none"
    levels: tuple[float, ...] = (0.0,)
    treat_valid: bool = False
    """Whether noise also goes into the validation data."""
    relevant: Annotated[float, Within(open=True)] = 1.0
    """Labels from this on are relevant, where labels are made binary and where relevant documents are counted."""

    methods: dict[str, str] = field(default_factory=dict)
    """Name -> expression: ``lightgbm(xendcg)``."""
    baseline: str | dict[str, str] = ""
    """What methods are held against in reports: one of them, or a table from method to method. By default that which a
    method wraps, or else the first."""
    settings: Keywords = field(default_factory=dict)
    """Parameters of every method."""
    settings_for: dict[str, Keywords] = field(default_factory=dict)
    """Parameters by data set, ranker or level, all words of the key: ``yahoo-set1``, ``mslr-web30k lightgbm``, ``@1``.
    Later ones replace earlier ones; what a method's own expression sets stands above all."""
    metrics: tuple[MetricLike, ...] = ("ndcg@5", "ndcg@10")
    """Metrics of the test queries; in Python also functions of one's own."""
    ratios: tuple[str, ...] = ()
    """Metrics, such as dcg@5, of which the mean over the mean of the best possible is reported too."""
    decide: MetricLike = "ndcg@5"
    """The metric of early stopping and of tuning, and the first in tables."""
    early_stopping: bool = True
    """Keep the round that is best on the validation data; without, every round is trained and kept."""
    curves: tuple[str, ...] = ("valid",)
    """Learning curves to keep: ``train``, ``valid``, ``test`` and ``bound`` (what losses guarantee about the test
    metric)."""

    tune_trials: Annotated[int, AtLeast(0)] = 0
    """Search each method's parameters with so many trials, in every trial anew; 0 for none."""
    tune_minutes: Annotated[float, AtLeast(0.0)] = 0.0
    """Search for so many minutes each: the same budget for all."""
    tune_space: str = "default"

    test: Annotated[str, OneOf(("t", "corrected_t", "fisher", "wilcoxon"), "test of significance")] = "t"
    """The test between methods, paired by trial."""
    alpha: Annotated[float, Within(0.0, 1.0, open=True)] = 0.05
    quick: Keywords = field(default_factory=dict)
    """What ``--quick`` changes: keys of this description; its ``settings`` are added to the others."""

    def __post_init__(self) -> None:
        for name, key in declared(Spec).items():
            object.__setattr__(self, name, checked(key, getattr(self, name)))
        if not self.methods or not self.data or not self.levels:
            raise check.error("an experiment needs methods, data and at least one level", where=self.name)
        named = {self.baseline: self.baseline} if isinstance(self.baseline, str) else self.baseline
        for one in filter(None, {*named, *named.values()}):
            check.choice("baseline", one, self.methods)
        cells = self.trials * len(self.methods) * len(self.levels) * len(self.data)
        if cells > MOST_CELLS:
            what = f"an experiment may have {MOST_CELLS} trainings at most: trials by methods, levels and data sets"
            raise check.error(what, got=str(cells), hint="set trials to a smaller number")
        if not self.early_stopping and any(one.members for one in self.parsed().values()):
            what = "a bag keeps the round that is best out of fold"
            raise check.error(what, got="early_stopping = false", hint="leave early_stopping out, or the bag")
        if (self.tune_trials or self.tune_minutes) and any(
            one.members and not one.is_bag for one in self.parsed().values()
        ):
            hint = "leave tune_trials and tune_minutes out, or the blend"
            raise check.error("parameters of a blend are not tuned", got="a method that is blended", hint=hint)
        if self.decide not in self.metrics:
            object.__setattr__(self, "metrics", (self.decide, *self.metrics))

    def parsed(self) -> dict[str, RankerExpression]:
        """Parse the expressions of the methods."""
        return {name: method(text) for name, text in self.methods.items()}

    def ranker_of(self, name: str, data: str, level: float) -> RankerExpression:
        """Return the ranker of a method on a data set at a level, with all settings of each ranker in it."""

        def settings(single: RankerExpression) -> Keywords:
            combined = dict(self.settings)
            words = {data, single.name, f"@{level:g}"}
            for key, changes in self.settings_for.items():
                if set(key.split()) <= words:
                    combined |= changes
            combined |= single.settings
            return {key: None if value == "none" else value for key, value in combined.items()}

        return self.parsed()[name].map(settings)

    def settings_of(self, name: str, data: str, level: float) -> Keywords:
        """Return all settings of a method on a data set at a level; of a blend ``rankers`` lists its members'."""
        return _listed(self.ranker_of(name, data, level))

    def digest(self, name: str, data: str, level: float, fingerprint: str) -> str:
        """A digest of everything that changes a trial's numbers; not of the number of trials, titles and the like."""
        ranker = self.ranker_of(name, data, level)
        single = ranker.singles()[0] if ranker.is_bag else ranker
        content = {
            "format": FORMAT,
            "data": fingerprint,
            "level": level,
            "ranker": single.name,
            "objective": single.objective or (single.title() if single.members else ""),
            "settings": _listed(ranker),
        } | {key: getattr(self, key) for key in _CHANGE_RESULTS}
        if ranker.members:
            content["bag"] = {"folds": 5, "repeats": 1} | dict(ranker.settings)
        if ranker.made_of is not None and ranker.made_of.ordered:
            content["expression"] = repr(ranker)
        if code := ranker.code() | user_code.digests(find_metrics(self.metrics)):
            content["code"] = code
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def changed(self, changes: Mapping[str, object]) -> "Spec":
        """Return the experiment with some keys replaced; ``settings.rounds`` and ``settings`` override all others.

        >>> spec = Spec(name="x", methods={"a": "lightgbm(xendcg)"}, settings={"rounds": 500})
        >>> spec.changed({"trials": 2, "settings.rounds": 5}).settings_of("a", "synthetic", 0.0)
        {'rounds': 5}
        """
        plain: Json = {}
        common = dict(checked(declared(Spec)["settings"], changes.get("settings", {})))
        for key, value in changes.items():
            if key.startswith("settings."):
                common[key.removeprefix("settings.")] = value
            elif key != "settings":
                plain[key] = value
        _known(plain, lambda _: "the changes")
        if common:
            everywhere = self.settings_for.get("", {}) | common
            specific = {key: value for key, value in self.settings_for.items() if key}
            plain["settings_for"] = specific | plain.get("settings_for", {}) | {"": everywhere}
        return dataclasses.replace(self, **plain)

    def quickly(self) -> "Spec":
        """Return the small form."""
        return self.changed(self.quick)

    def plain(self) -> Json:
        """Return the experiment as plain data."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        plain: Json = json.loads(json.dumps(values, default=str))
        return plain


def _listed(ranker: RankerExpression) -> Keywords:
    """Return the settings of a ranker, or of the one in a bag; of other ensembles ``rankers`` lists each member's."""
    if not ranker.members:
        return dict(ranker.settings)
    members = [_listed(one) if isinstance(one, RankerExpression) else {} for one in ranker.members]
    return members[0] if ranker.is_bag else {"rankers": members}


def _known(keys: Iterable[str], place: Callable[[str], str]) -> None:
    settings_files.check_keys(keys, declared(Spec), _WHAT, place)


def read_spec(text: str, *, where: str, name: str) -> Spec:
    """Read the TOML of an experiment.

    >>> read_spec('methdos = {a = "lightgbm"}', where="mine.toml", name="mine")
    Traceback (most recent call last):
    rankwise.errors.InputError: unknown key in the description of an experiment: got 'methdos' at line 1 of mine.toml.
    Hint: did you mean 'methods'.
    """
    return _made(settings_files.read(text, _WHAT, where), name)


def _made(file: SettingsFile, name: str) -> Spec:
    _known(file.keys, file.place)
    _check(file.keys, file)
    quick = {key: value for key, value in file.keys.get("quick", {}).items() if not key.startswith("settings.")}
    _known(quick, lambda key: file.place("quick", key))
    _check(quick, file, "quick")
    with check.naming(file.file):
        spec = Spec(**{"name": name, **file.keys})
        spec.quickly()  # an error in there is found now
    tables = {("settings",): spec.settings} | {("settings_for", key): one for key, one in spec.settings_for.items()}
    tables |= {("quick", "settings"): spec.quick.get("settings", {})}
    for path, settings in tables.items():
        for key, value in settings.items():
            with check.naming(file.place(*path, key)):
                _check_setting(spec, path[-1].split(), key, value)
    return spec


def _check_setting(spec: Spec, words: Collection[str], key: str, value: object) -> None:
    """Check a setting by the declarations of the rankers that it is for: those among the words, else all."""
    used = {one.name for ranker in spec.parsed().values() for one in ranker.singles()}
    classes = [table.ranker_class(name) for name in sorted(used.intersection(words) or used)]
    names = [name for cls in classes for name in declared(cls)]
    if key not in names and not any(hasattr(cls, "library") for cls in classes):  # which has more parameters
        hint = check.suggestion(key, names).rstrip("?")
        raise check.error("no ranker of the experiment has such a parameter", got=repr(key), hint=hint)
    for cls in classes:
        if key in declared(cls):
            declared(cls)[key].check(None if value == "none" else value)


def _check(keys: Keywords, file: SettingsFile, *table: str) -> None:
    """Check each key by itself, so that the line can be told; methods one by one."""
    for key, value in keys.items():
        one_by_one = key == "methods" and isinstance(value, dict)
        pieces = [((key, name), {name: one}) for name, one in value.items()] if one_by_one else [((key,), value)]
        for path, piece in pieces:
            with check.naming(file.place(*table, *path)):
                checked(declared(Spec)[key], piece)


def recipes() -> list[str]:
    """The names of the experiments that come with rankwise."""
    return sorted(one.name.removesuffix(".toml") for one in _folder().iterdir() if one.name.endswith(".toml"))


def find_spec(name: str) -> Spec:
    """Return the experiment of a name that comes with rankwise, or of a TOML file.

    >>> find_spec("2021-tabel1")
    Traceback (most recent call last):
    rankwise.errors.InputError: unknown experiment: got '2021-tabel1'. Hint: did you mean '2021-table1'.
    """
    if name.endswith(".toml"):
        path = check.readable(name)
        return _made(settings_files.load(path, _WHAT), path.stem)
    file = f"{check.choice('experiment', name, recipes())}.toml"
    return read_spec(_folder().joinpath(file).read_text("utf-8"), where=file, name=name)


def _folder() -> Traversable:
    return resources.files("rankwise.wings.lab.papers").joinpath("recipes")


CURVES = ("train", "valid", "test", "bound")
_CHECKS: dict[str, Callable[[Any], Any]] = {
    "name": lambda value: _folder_name(value),
    "curves": lambda value: tuple(check.choice("curve", one, CURVES) for one in value),
    "split": check.fractions,
    "levels": lambda value: tuple(check.number("a level", one, least=0.0) for one in value),
    "metrics": lambda value: tuple(map(expression, value)),
    "ratios": lambda value: tuple(str(metric(one)) for one in value),
    "decide": lambda value: expression(value),
    "methods": lambda value: [method(text) for text in value.values()],
    "tune_space": lambda value: value == "default" or declared(rw.tune)["space"].check(value),
}
_REWRITTEN = ("levels", "metrics", "ratios", "decide")  # others stay as they are written, also in digests


def checked(key: Parameter, value: object) -> Any:
    """Check the value of one key by its declaration, and return it in its one form: lists become tuples.

    >>> checked(Parameter("data", tuple[str, ...]), "synthetic")
    Traceback (most recent call last):
    rankwise.errors.InputError: data must be a list of strings: got 'synthetic'. Hint: write data = ["…"].
    """
    if key.kind not in (int, float):  # whose checks say what else they must be
        settings_files.check_type(key.name, value, key.kind)
        value = tuple(value) if isinstance(value, list) else value
    result = _CHECKS.get(key.name, key.check)(value)
    return result if key.name in _REWRITTEN else value


def _folder_name(name: str) -> str:
    if not name.isprintable() or set(name) & set("/\\") or not name.strip(". ") or len(name) > 100:
        hint = "write a few letters, without slashes"
        raise check.error("the name of an experiment is that of its folder", got=repr(name), hint=hint)
    return name


def method(text: str) -> RankerExpression:
    """Read a method: a ranker that learns from features, or an ensemble of such rankers."""
    ranker = expressions.read(text)
    for one in (ranker, *ranker.singles()):
        check.choice("ranker of an experiment", one.name, [*table.ranker_names(), "bagged", "blended", "distilled"])
    return ranker
