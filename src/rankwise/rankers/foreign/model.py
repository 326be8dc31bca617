"""What is read from a model that another library trained."""

from typing import NamedTuple

from rankwise import check
from rankwise.rankers.schema import Schema


class ForeignModel(NamedTuple):
    """A trained model in the form in which the ranker of its library keeps it."""

    ranker: str
    """Which ranker takes it, by its name in the table of rankers."""
    content: bytes
    """The file of the library; its scores are plain sums of leaves."""
    schema: Schema
    objective: str
    """What it was trained with, as the library calls it."""


def refused(kind: str, *, why: str, hint: str) -> ValueError:
    """Say that a model cannot be wrapped."""
    return check.error(f"{kind} cannot be wrapped as a ranker", got=why, hint=hint)


def untrained(kind: str) -> ValueError:
    """Say that a model has nothing to score with."""
    return check.error(f"this {kind} is not trained yet, or has no trees", hint="call its fit first")


ONE_SCORE = "train it with one score per document, such as a ranking, regression or binary objective"
FUNCTION = "evaluate it through a function of features, rw.evaluate(lambda features: …, data)"
