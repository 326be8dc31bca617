"""What a trial measures after every round, beside the validation metric that training stops by: learning curves."""

from typing import TYPE_CHECKING, Any

from rankwise.arrays import Array
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import metrics as find_metrics
from rankwise.objectives.softmax.guarantees import guarantees
from rankwise.rankers.training.validation import Measure, Validation

if TYPE_CHECKING:
    from rankwise.experiments.spec import Spec


def measures(spec: "Spec", train: Any, valid: Any, test: RankingDataset) -> dict[str, Any]:
    """Give what rankers are handed as ``measure``: the curves that a description asks for.

    Training and validation queries are measured by the metric that decides, test queries by all metrics, and scores are
    those of the model, without the noise that an objective may add to them.
    """
    found: dict[str, Any] = {}
    if "train" in spec.curves:
        found["train"] = train
    if "valid" in spec.curves and not spec.early_stopping:
        found["valid"] = valid
    if "test" in spec.curves:
        found["test"] = Measure(test, Validation(test, find_metrics(spec.metrics), debias=False))
    if "bound" in spec.curves:
        found["bound"] = Measure(test, lambda scores: _best_bounds(scores, test))
    return found


def _best_bounds(scores: Array, data: RankingDataset) -> dict[str, float]:
    """For each metric the highest of its lower bounds."""
    best: dict[str, float] = {}
    for one in guarantees(scores, data.labels, data.offsets):
        best[one.metric] = max(one.mean, best.get(one.metric, 0.0))
    return best
