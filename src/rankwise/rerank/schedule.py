"""How the steps of a training are cut into epochs and their parts, and the learning rate of each."""

from dataclasses import dataclass

from rankwise import check


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The steps of a training: one for each batch of lists, counted from 0 over all epochs."""

    epochs: int
    parts: int
    """Into how many parts an epoch is cut, at most one for each of its steps."""
    batch_queries: int
    queries: int
    learning_rate: float
    warmup: float
    """The share of all steps in which the learning rate rises from 0; then it falls to 0."""

    def __post_init__(self) -> None:
        check.integer("epochs", self.epochs, least=1)
        check.integer("parts", self.parts, least=1)
        check.integer("batch_queries", self.batch_queries, least=1)
        check.number("learning_rate", self.learning_rate, least=0.0)
        check.number("warmup", self.warmup, least=0.0, most=1.0)

    @property
    def per_epoch(self) -> int:
        """Steps of an epoch."""
        return -(-self.queries // self.batch_queries)

    @property
    def rounds(self) -> int:
        """Parts of all epochs."""
        return self.epochs * self.per_part

    @property
    def per_part(self) -> int:
        """Parts that an epoch has."""
        return min(self.parts, self.per_epoch)

    @property
    def total(self) -> int:
        """Steps of the whole training."""
        return self.epochs * self.per_epoch

    def of_round(self, number: int) -> range:
        """The steps of a round, counted from the first of the training.

        >>> steps = Steps(epochs=2, parts=2, batch_queries=2, queries=5, learning_rate=1.0, warmup=0.5)
        >>> [steps.of_round(number) for number in range(steps.rounds)]
        [range(0, 1), range(1, 3), range(3, 4), range(4, 6)]
        """
        epoch, part = divmod(number, self.per_part)
        first, last = (epoch * self.per_epoch + self.per_epoch * one // self.per_part for one in (part, part + 1))
        return range(first, last)

    def rate(self, step: int) -> float:
        """The learning rate of a step.

        >>> steps = Steps(epochs=1, parts=1, batch_queries=1, queries=6, learning_rate=1.0, warmup=0.5)
        >>> [round(steps.rate(number), 2) for number in range(6)]
        [0.33, 0.67, 1.0, 1.0, 0.67, 0.33]
        """
        rising = int(self.warmup * self.total)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * (self.total - step) / max(self.total - rising, 1)
