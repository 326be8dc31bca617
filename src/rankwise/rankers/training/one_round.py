"""The training of a ranker of the user's, which learns by ``_fit``, as one round."""

from collections.abc import Mapping, Sequence
from typing import Any

from rankwise.base.arrays import Array
from rankwise.base.stream import Stream
from rankwise.models import attributes
from rankwise.models.attributes import AttributeModel
from rankwise.models.schema import Schema
from rankwise.rankers import table
from rankwise.rankers.trained import TrainedRanker
from rankwise.rankers.training.loop import Learner, State
from rankwise.rankers.training.settings import TrainingData
from rankwise.rankers.training.stopping import NothingLearnedError, NothingLeftToLearn


class OneRound(Learner[bool]):
    """One round, in which ``_fit`` learns."""

    def __init__(self, ranker: Any, data: TrainingData) -> None:
        self.ranker, self.data = ranker, data

    def round(self, stream: Stream, weights: Sequence[float] = ()) -> None:
        """Train the ranker; there is no second round."""
        if stream.round:
            raise NothingLeftToLearn("complete", lambda: NothingLearnedError("a ranker without rounds has one"))
        self.ranker._fit(self.data.train, None if self.data.hidden else self.data.valid)
        self.ranker.model_ = self.model(1)

    def scores(self, number: int) -> Array:
        """Score a data set that is measured, by its number."""
        scores: Array = self.ranker.predict(self.data.held_out[number])
        return scores

    def snapshot(self) -> bool:
        """Keep the model as it is."""
        return True

    def restore(self, best: object) -> None:
        """Make the model what it was: it has not changed."""

    def model(self, rounds: int) -> AttributeModel:
        """Return the attributes of the ranker."""
        return attribute_model(self.ranker, Schema.of(self.data.train))

    def keep(self, ranker: Any, state: State) -> None:
        """Say that it is complete: there is no other round."""
        state.stopped = "complete" if state.stopped == ranker.unit else state.stopped
        ranker.stopped_ = state.stopped

    def files(self, best: object) -> dict[str, bytes]:
        """Return what a checkpoint holds."""
        return self.model(1).files()

    def resume(self, files: Mapping[str, bytes], state: State) -> bool:
        """Resume from a checkpoint."""
        attributes.restore(self.ranker, files, table.from_description)
        self.ranker.model_ = self.model(1)
        return True


def attribute_model(ranker: Any, schema: Schema) -> AttributeModel:
    """Return what a ranker of the user's has learned; an attribute ``model_`` of its own is kept inside."""
    known = vars(ranker)
    own = (known["model_"],) if "model_" in known else ()
    if own and isinstance(own[0], AttributeModel):  # of an earlier fit, or of the ranker that this is a copy of
        own = own[0].own
    explains = type(ranker).contributions is not TrainedRanker.contributions  # by a method of the user's
    return AttributeModel(schema, ranker, own, explains=explains)
