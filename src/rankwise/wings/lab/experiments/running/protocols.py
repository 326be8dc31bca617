"""How a trial is cut out of the data, and what is done to the training data: two tables, a line each.

A protocol is a function ``(source, spec, trial) -> (train, valid, test)``. A treatment is a function ``(parts, draw) ->
parts``, where ``draw`` says how much and from which seed. To add one, write it and name it in its table.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from rankwise import Stream, check, split
from rankwise.base.arrays import Keywords
from rankwise.clicks import CLICK_PROBABILITIES, simulate_clicks
from rankwise.data import add_negatives, binarize, flip_labels
from rankwise.recommend import Interactions
from rankwise.wings.lab.experiments.running.sources import Source

if TYPE_CHECKING:
    from rankwise.wings.lab.experiments.spec import Spec

Triple = tuple[Any, Any, Any]
"""Training, validation and test data."""

FOLDS = 5
_LEAST_RELEVANT = 25  # then five of them are in each test


def seed_of(seed: int, trial: int) -> int:
    """Return the seed of everything that is drawn in a trial beside its split.

    >>> seed_of(0, 0) != seed_of(0, 1)
    True
    """
    return int(Stream(seed, trial).child("trial").key) >> 33


def random_trials(source: Source, spec: "Spec", trial: int) -> Triple:
    """Split all queries anew in every trial, as :func:`rankwise.data.trials` does."""
    train, valid, test = split(source.whole(), spec.split, seed=spec.seed, trial=trial)
    return train, valid, test


def folds(source: Source, spec: "Spec", trial: int) -> Triple:
    """Return one of the official folds in turn, or of five by the seed; later rounds repeat them with other draws."""
    return source.parts(1 + trial % (source.n_folds or FOLDS), seed=spec.seed)


def runs(source: Source, spec: "Spec", trial: int) -> Triple:  # noqa: ARG001
    """Return the same split for all trials, official where there is one; trials differ in what rankers draw."""
    return source.parts(1 if source.n_folds else 0, seed=spec.seed)


def ratings(source: Source, spec: "Spec", trial: int) -> Triple:
    """Divide the items of every user into five folds and take them in turn, as the thesis of Westerborg does.

    Every user's relevant items are spread evenly over the folds; users with fewer than 25 are left out. A tenth of the
    items that are left for training is held out for validation.
    """
    active = source.interactions(spec.relevant).active(_LEAST_RELEVANT)
    train, test = list(active.folds(FOLDS, seed=spec.seed))[trial % FOLDS]
    train, valid = train.split((0.9, 0.1), seed=spec.seed)
    return train, valid, test


PROTOCOLS: dict[str, Callable[[Source, "Spec", int], Triple]] = {
    "trials": random_trials,
    "folds": folds,
    "runs": runs,
    "ratings": ratings,
}


POOLED = {"folds": 1 / 3, "ratings": 0.2 / (0.8 * 0.9)}
"""Protocols whose trials are parts of one whole, and are put together before they are compared; and test/train of a
trial, by which trials share their data. LETOR's folds, and ours, train on three parts and test on one."""


class Draw(NamedTuple):
    """How a trial's data are treated."""

    level: float
    spec: "Spec"
    seed: int


def extra_negatives(parts: Triple, draw: Draw) -> Triple:
    """Make training lists longer by documents of other queries: by the level, .4 for 40%."""
    return _noisy(parts, draw, lambda data: add_negatives(data, draw.level, seed=draw.seed))


def flipped_labels(parts: Triple, draw: Draw) -> Triple:
    """Draw the labels of a share of the training documents anew."""
    grades = 1 + int(max(part.labels.max() for part in parts))
    return _noisy(parts, draw, lambda data: flip_labels(data, draw.level, grades=grades, seed=draw.seed))


def clicks(parts: Triple, draw: Draw) -> Triple:
    """Replace training and validation labels by simulated clicks; the level is the click rate of grade 0."""
    chances = (draw.level, *CLICK_PROBABILITIES[1:])
    train, valid = (simulate_clicks(part, probabilities=chances, seed=draw.seed) for part in parts[:2])
    return train, valid, parts[2]


def binary_labels(parts: Triple, draw: Draw) -> Triple:
    """Level 0 keeps graded labels, level 1 makes labels of at least ``relevant`` 1 and the others 0, everywhere."""
    if draw.level not in (0.0, 1.0):
        raise check.error("the levels of binarize are 0 (graded) and 1 (binary)", got=draw.level)
    train, valid, test = (binarize(part, draw.spec.relevant) for part in parts) if draw.level else parts
    return train, valid, test


def relevant_only(parts: Triple, draw: Draw) -> Triple:
    """Make labels of at least ``relevant`` 1 and the others 0, everywhere and at every level."""
    return binary_labels(parts, draw._replace(level=1.0))


def negative_ratio(parts: Triple, draw: Draw) -> Triple:
    """Turn ratings into lists: for every relevant item as many others as the level says, the negative sample ratio.

    Training data stay ratings, so that a factorization knows every item; it draws by the same ratio itself.
    """
    train, *held_out = _rated(parts)
    valid, test = (part.dataset(ratio_of(draw.level), seed=draw.seed) for part in held_out)
    return train, valid, test


def negative_ratio_in_training(parts: Triple, draw: Draw) -> Triple:
    """As ``negative_ratio`` in training; the lists of validation and test hold every item of their fold."""
    train, *held_out = _rated(parts)
    valid, test = (part.dataset("all", seed=draw.seed) for part in held_out)
    return train, valid, test


TREATMENTS: dict[str, Callable[[Triple, Draw], Triple]] = {
    "none": lambda parts, _: parts,
    "negatives": extra_negatives,
    "flips": flipped_labels,
    "clicks": clicks,
    "binarize": binary_labels,
    "relevant": relevant_only,
    "negative_ratio": negative_ratio,
    "negative_ratio_in_training": negative_ratio_in_training,
}

_SAMPLED = ("negative_ratio", "negative_ratio_in_training")


def ranker_settings(spec: "Spec", level: float) -> Keywords:
    """Settings that follow from the level: how many negatives, for rankers that draw them."""
    return {"negatives": ratio_of(level)} if spec.treatment in _SAMPLED else {}


def relevant_label(spec: "Spec", level: float) -> float:
    """From which label on a document is relevant in treated data: where labels were made binary, from 1 on.

    >>> from rankwise.wings.lab.experiments.spec import Spec
    >>> spec = Spec(name="x", methods={"a": "lightgbm"}, treatment="binarize", relevant=2.0)
    >>> relevant_label(spec, 0.0), relevant_label(spec, 1.0)
    (2.0, 1.0)
    """
    binary = spec.treatment in ("relevant", *_SAMPLED) or (spec.treatment == "binarize" and level == 1.0)
    return 1.0 if binary else spec.relevant


def ratio_of(level: float) -> int:
    """The level as a number of negatives for each relevant item."""
    if level != int(level) or level < 1.0:
        raise check.error("a level of a negative ratio must be a whole number of at least 1", got=f"{level:g}")
    return int(level)


def _rated(parts: Triple) -> Triple:
    if not isinstance(parts[0], Interactions):
        raise check.error(
            "a negative ratio is for ratings of items by users",
            got=type(parts[0]).__name__,
            hint="choose the protocol ratings",
        )
    return parts


def _noisy(parts: Triple, draw: Draw, change: Callable[[Any], Any]) -> Triple:
    train, valid, test = parts
    return change(train), change(valid) if draw.spec.treat_valid else valid, test
