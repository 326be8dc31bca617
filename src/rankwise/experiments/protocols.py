"""How a trial is cut out of the data, and what is done to the training data: two tables, a line each.

A protocol is a function ``(source, spec, trial) -> (train, valid, test)``. A treatment is a function ``(parts, draw) ->
parts``, where ``draw`` says how much and from which seed. To add one, write it and name it in its table.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from rankwise import check
from rankwise.data.clicks import CLICK_PROBABILITIES, simulate_clicks
from rankwise.data.noise import add_negatives, binarize, flip_labels
from rankwise.data.splits import split
from rankwise.experiments.sources import Source
from rankwise.stream import Stream

if TYPE_CHECKING:
    from rankwise.experiments.spec import Spec

Triple = tuple[Any, Any, Any]
"""Training, validation and test data."""


def seed_of(seed: int, trial: int) -> int:
    """Give the seed of everything that is drawn in a trial beside its split.

    >>> seed_of(0, 0) != seed_of(0, 1)
    True
    """
    return int(Stream(seed, trial).child(*b"trial").key) >> 33


def random_trials(source: Source, spec: "Spec", trial: int) -> Triple:
    """Split all queries anew in every trial, as :func:`rankwise.trials` does."""
    train, valid, test = split(source.whole(), spec.split, seed=spec.seed, trial=trial)
    return train, valid, test


def folds(source: Source, spec: "Spec", trial: int) -> Triple:
    """Take the official folds in turn, or five that the seed makes; once round, the same again with other draws."""
    return source.parts(1 + trial % (source.n_folds or 5), seed=spec.seed)


def runs(source: Source, spec: "Spec", trial: int) -> Triple:  # noqa: ARG001
    """Take one and the same split, official where there is one; trials differ in what the rankers draw."""
    return source.parts(1 if source.n_folds else 0, seed=spec.seed)


PROTOCOLS: dict[str, Callable[[Source, "Spec", int], Triple]] = {
    "trials": random_trials,
    "folds": folds,
    "runs": runs,
}


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
    """Put simulated clicks in the place of training and validation data; documents of grade 0 are clicked by level."""
    chances = (draw.level, *CLICK_PROBABILITIES[1:])
    train, valid = (simulate_clicks(part, probabilities=chances, seed=draw.seed) for part in parts[:2])
    return train, valid, parts[2]


def binary_labels(parts: Triple, draw: Draw) -> Triple:
    """Level 0 keeps graded labels, level 1 makes labels of at least ``relevant`` 1 and the others 0, everywhere."""
    if draw.level not in (0.0, 1.0):
        raise check.error("the levels of binarize are 0 (graded) and 1 (binary)", got=draw.level)
    train, valid, test = (binarize(part, draw.spec.relevant) for part in parts) if draw.level else parts
    return train, valid, test


TREATMENTS: dict[str, Callable[[Triple, Draw], Triple]] = {
    "none": lambda parts, _: parts,
    "negatives": extra_negatives,
    "flips": flipped_labels,
    "clicks": clicks,
    "binarize": binary_labels,
}


def _noisy(parts: Triple, draw: Draw, change: Callable[[Any], Any]) -> Triple:
    train, valid, test = parts
    return change(train), change(valid) if draw.spec.treat_valid else valid, test
