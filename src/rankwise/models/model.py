"""What was learned, as a value: it scores, explains its scores, and is files; it knows nothing of training."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from rankwise import check
from rankwise.base.arrays import Array, Floats, Json, Offsets
from rankwise.models.schema import ModelInput, Schema

if TYPE_CHECKING:
    from rankwise.models.formats.onnx_graph import Graph

Score = Callable[[Floats, Offsets | None], Array]
"""From a matrix of features, and the offsets of its queries where they are known, to one score per document."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Contributions:
    """What each feature adds to each document's score: the numbers, and all that is needed to read them."""

    parts: Array
    """(n_docs, n_features + 1); the last column is the start, the same for every document. Rows add up to scores."""
    left: Array
    """(n_docs,) what the method itself left over of a score, and was shared out among the features in ``parts``."""
    method: str
    """How they were found, for people."""
    start: str
    """What contributions start from, for people."""
    features: Floats
    """(n_docs, n_features) values, in the order and with the codes of training."""
    schema: Schema
    """Names and categories of the columns."""


def no_shares(name: str) -> AttributeError:
    """Build the error of a model without splits, or of its ranker, that is asked for importances."""
    what = f"{name} has no feature_importances_, which are shares in the gain of splits"
    hint = "abs(ranker.explain(data))[:, :-1].mean(axis=0) says how much each feature moves scores"
    return AttributeError(check.Message(what, hint=hint))


class Model(ABC):
    """A trained model.

    ``features`` are matrices with the columns of training: :meth:`Schema.matrix <rankwise.models.schema.Schema.matrix>`
    makes one of any data. Query q has the rows ``offsets[q]`` to ``offsets[q + 1]``.
    """

    schema: Schema
    """Columns of training: names, categories, count."""
    kind: str
    """What scores, in a few words."""
    trained_by: str = "the ranker"
    """The class of rankers that learns it, for errors."""
    least_code: float = 0.0
    """The smallest code of a category that the model takes."""
    needs_lists: bool = False
    """Whether a score depends on the other documents of its query."""
    rounds: int = 1
    """How many rounds, trees or epochs, it was trained for; those of a model that it continues included."""
    parts: "Sequence[Model]" = ()
    """The models that it is made of, whose features are its own."""

    @abstractmethod
    def scores(self, features: Floats, offsets: Offsets | None = None) -> Array:
        """Return one score per document, the higher the better."""

    @abstractmethod
    def contributions(self, features: Floats, offsets: Offsets | None = None) -> Contributions:
        """Return what each feature adds to each score; raise where that is not known."""

    def matrix(self, data: ModelInput) -> Floats:
        """Return the features of a data set, a table or a matrix, with codes that the model takes."""
        features = self.schema.matrix(data)
        self.schema.check_codes(features, self.least_code)
        return features

    def serving(self) -> Score:
        """Return a function that scores one query's documents in the least time; it does not change with the model."""
        return self.scores

    def importances(self, kind: str = "gain") -> Array:
        """Return one number per feature, of trees."""
        raise no_shares(self.trained_by)

    def shares(self) -> Array:
        """Return the share of each feature in the total gain of all splits."""
        gains = self.importances("gain")
        return gains / gains.sum() if gains.any() else gains

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """Return the content of its files by their names."""

    @abstractmethod
    def description(self) -> Json:
        """Return the entries of ``rankwise.json`` that :meth:`from_files` needs beside the files."""

    @classmethod
    @abstractmethod
    def from_files(cls, description: Json, files: dict[str, bytes], schema: Schema) -> Self:
        """Read a model from what :meth:`description` and :meth:`files` returned, and verify it.

        A model that is made of others takes ``read`` too, which reads one of them from the same three.
        """


class DrawnModel(Model):
    """A model that knows itself what other systems get of it, such as a net."""

    @abstractmethod
    def onnx_graph(self) -> "Graph":
        """Return its graph of ONNX."""

    @abstractmethod
    def slopes_for(self, system: str) -> Array:
        """Return what one of each feature adds to the score, for a system of linear models; raise if it is none."""


def require_lists(model: Model, offsets: Offsets | None) -> None:
    """Raise if a model that looks at whole lists is to score documents of unknown queries."""
    if offsets is None and model.needs_lists:
        what = f"a {model.trained_by} looks at whole lists, and must know which documents belong together"
        raise check.error(what, hint="pass a RankingDataset, or a table with a column qid")
