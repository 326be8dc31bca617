"""The problem of a search: ranker, objective, ranges and fixed parameters, checked before the first trial."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from rankwise import Metric, Objective, RankingDataset, check
from rankwise import metric as find_metric
from rankwise import objective as find_objective
from rankwise.base.arrays import Json, Keywords
from rankwise.check.parameters import declared
from rankwise.language import user_code
from rankwise.metrics import MetricLike, expression
from rankwise.objectives import stochastic
from rankwise.objectives.table import ObjectiveLike, native
from rankwise.rankers import IterativeRanker
from rankwise.rankers.table import ranker_class
from rankwise.rankers.training import fingerprint, validation
from rankwise.wings.tuning import spaces
from rankwise.wings.tuning.result import build

DEFAULT = "lambdarank"
"""The objective of a search unless another one is named."""
_CHOSEN = {name: name for name in ("objective", "seed", "threads", "progress")} | {"metrics": "metric"}


@dataclass(frozen=True, kw_only=True)
class SearchProblem:
    """Ranker, objective, ranges and data of a search."""

    train: RankingDataset
    valid: RankingDataset | None
    objective: Objective | str | None
    """An objective, the expression of a ``native:`` one, or None for a ranker without one."""
    ranker: str
    metric: Metric
    ranges: dict[str, spaces.Dimension]
    fixed: Keywords
    seed: int
    threads: int | None
    folds: int | None = None
    """The number of folds of a trial's bag; None trains single rankers."""
    replaced: frozenset[str] = frozenset()
    """The parameters whose ranges are not those of the space."""

    @property
    def measured(self) -> str:
        """The name of the metric in the history of a trial."""
        data = self.train if self.valid is None else self.valid
        return validation.name(self.metric, data, debias=bool(self.fixed.get("debias", False)))

    def parameters(self, values: Mapping[str, object]) -> Keywords:
        """Return the ranker's arguments for values of the searched parameters."""
        inner = {spaces.WEIGHT, *(part for part, _ in spaces.parts(self.objective))}
        outer = {
            name: value for name, value in values.items() if name.partition(".")[0] not in inner or "." not in name
        }
        objective = spaces.changed(self.objective, {name: v for name, v in values.items() if name not in outer})
        shared: Keywords = {"metrics": (expression(self.metric),), "seed": self.seed}
        if objective is not None:
            shared["objective"] = _expression(objective)
        possible = ranker_class(self.ranker).own_parameters()
        shared = {name: value for name, value in shared.items() if name in possible}
        return {**shared, **self.fixed, **spaces.assembled(outer)}

    def trial_ranker(self, parameters: Keywords) -> IterativeRanker:
        """Return the ranker of a trial, or the bag."""
        return build(self.ranker, self.folds, parameters)

    def start(self) -> Keywords:
        """Return the values of the first trial: the defaults, as far as they lie in the space."""
        defaults = dict(ranker_class(self.ranker).own_parameters())
        defaults |= spaces.weights(self.objective)
        for part, node in spaces.parts(self.objective):
            defaults |= {f"{part}.{name}": getattr(node, name) for name in vars(node)}
            if isinstance(node, stochastic):
                defaults[f"{part}.scale"] = node.noise_scale
        pooled = self.train.n_docs + (0 if self.folds is None or self.valid is None else self.valid.n_docs)
        by_rule = self.trial_ranker(self.parameters({})).settings_for(pooled)
        defaults |= by_rule
        first = {}
        for name, one in self.ranges.items():
            ruled = name in by_rule and name not in self.replaced  # the start of a space is the libraries' default
            first[name] = defaults.get(name) if one.start is None or ruled else one.start
        return {name: value for name, value in first.items() if value is not None and self.ranges[name].holds(value)}

    def identity(self) -> Json:
        """Return what must be the same for a study to be resumed."""
        code = user_code.digests(ranker_class(self.ranker), self.objective, self.metric, self.fixed)
        optional = ({} if self.folds is None else {"bag": self.folds}) | ({"code": code} if code else {})
        return {
            "ranker": self.ranker,
            "objective": str(_expression(self.objective)),
            "metric": str(self.metric),
            "space": {name: str(one) for name, one in self.ranges.items()},
            "fixed": {name: str(value) for name, value in self.fixed.items()},
            "seed": self.seed,
            "train": fingerprint(self.train),
            "valid": None if self.valid is None else fingerprint(self.valid),
        } | optional


def checked_search(
    train: RankingDataset, valid: RankingDataset | None, objective: ObjectiveLike, ranker: object, metric: MetricLike,
    space: str, search: Mapping[str, spaces.DimensionLike], fixed: Mapping[str, object], seed: int, threads: int | None,
    folds: int | None = None,
) -> SearchProblem:  # fmt: skip
    """Check a search as far as that can be done without training."""
    if not isinstance(ranker, str):
        hint = "`set ranker='lightgbm'`, or the name that rw.register gave one of yours; `folds=5` makes bags of five"
        raise check.error("a search makes its rankers itself and takes the name of one", got=repr(ranker), hint=hint)
    if folds is not None:
        check.integer("folds", folds, least=2)
    parts: dict[str, object] = {"train": train} | ({} if valid is None and folds is not None else {"valid": valid})
    for name, part in parts.items():
        if not isinstance(part, RankingDataset):
            bags = "pass it, or `set folds=5`: members of a bag validate each other" if part is None else ""
            hint = "make lists of interactions with .dataset(negatives=…)" if hasattr(part, "dataset") else bags
            raise check.error(f"{name} must be a RankingDataset", got=type(part).__name__, hint=hint)
    base = _objective_of(ranker, objective)
    ranges, settled = spaces.named(space, ranker, base)
    if "hidden" in (*search, *fixed):  # all layers at once
        layers = spaces.layers_of(ranges)
        ranges = {name: one for name, one in ranges.items() if name not in layers}
    ranges |= {name: spaces.dimension(one) for name, one in search.items()}
    layers = spaces.layers_of(ranges)
    for name in (*search, *fixed):
        if name in _CHOSEN:
            hint = f"pass it to tune itself: `{_CHOSEN[name]}=…`"
            raise check.error(f"{name} is no parameter to search or fix", hint=hint)
        if name in fixed and "." in name:
            hint = "write it into the objective's expression"
            raise check.error("a parameter of the objective is not fixed beside it", got=repr(name), hint=hint)
    if "debias" in search:
        hint = "fix it: `fixed={'debias': True}|--set 'debias=true'`"
        raise check.error("debias is no parameter to search, since validation data are measured by it", hint=hint)
    inside = [f"{part}.{field}" for part, node in spaces.parts(base) for field in vars(node) if field != "inner"]
    names = [*inside, *spaces.weights(base)]
    for name in ranges:
        if "." in name and name not in (*layers, *names):
            hint = check.suggestion(name, names) if names else "leave it out"
            raise check.error(f"{base} has no such parameter", got=repr(name), hint=hint)
    checked = SearchProblem(
        train=train,
        valid=valid,
        objective=base,
        ranker=ranker,
        metric=find_metric(metric),
        ranges={name: one for name, one in ranges.items() if name not in fixed},
        fixed={name: value for name, value in settled.items() if name not in search} | dict(fixed),
        seed=check.integer("seed", seed, least=0),
        threads=threads,
        folds=folds,
        replaced=frozenset(search),
    )
    if not checked.ranges:
        hint = "name a space, or give ranges: `search={'leaves': …}|--search 'leaves=…'`"
        raise check.error("there is nothing to search", hint=hint)
    known = declared(ranker_class(ranker))
    possible = [(name, value) for name, one in checked.ranges.items() for value in one.ends()]
    for name, value in (*possible, *checked.fixed.items()):
        if name in known:
            known[name].check(value)
    tried = {name: [*one.ends()][-1] for name, one in checked.ranges.items()}
    checked.trial_ranker(checked.parameters(tried))  # an unknown parameter is an error now and not in a trial
    return checked


def _objective_of(ranker: str, objective: ObjectiveLike) -> Objective | str | None:
    """Return the objective of trials; a user's own ranker may have none."""
    if "objective" not in ranker_class(ranker).own_parameters():
        if objective != DEFAULT:
            hint = "leave `objective` out"
            raise check.error(f"{ranker} has no parameter objective", got=str(objective), hint=hint)
        return None
    return str(objective) if native(objective) is not None else find_objective(objective)


def _expression(objective: Objective | str | None) -> Objective | str | None:
    """Return the expression of an objective, if it reads back as the same; else the objective itself."""
    if objective is None or isinstance(objective, str):
        return objective
    with contextlib.suppress(ValueError):
        if find_objective(repr(objective)) == objective:
            return repr(objective)
    return objective
