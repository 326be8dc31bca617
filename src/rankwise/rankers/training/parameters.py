"""Parameters that several rankers have, each declared once: type, range, sentence, and option of the command line.

A ranker may add a sentence: ``seed: Annotated[training.Seed, "Folds are drawn by it, too."] = 0``.
A round is a tree, an epoch of a net, or a part of an epoch of a reranker.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from rankwise.base.threads import MOST
from rankwise.check.parameters import Above, AtLeast, OneOf, Option, Unset, Within
from rankwise.metrics import MetricLike
from rankwise.objectives.table import ObjectiveLike

_TRAINING, _RUNNING = "Training", "Running"
STOP_ON = ("first", "mean")

Objective = Annotated[
    ObjectiveLike,
    """What is optimised: an objective, its expression (``"stochastic(lambdarank, scale=0.25)"``), or a function that is
    called like one.""",
]
Rounds = Annotated[int, AtLeast(1), "Number of trees at most.", Option(metavar="N", group=_TRAINING)]
Epochs = Annotated[int, AtLeast(1), "Passes over the training data at most.", Option(metavar="N", group=_TRAINING)]
LearningRate = Annotated[float, Above(0), Option(metavar="RATE", group=_TRAINING)]
Patience = Annotated[
    int | None,
    AtLeast(1),
    """Rounds without a better metric until it stops. The metric is the first one, on the validation data, and the best
    round is kept; None trains all rounds, and still keeps the best.""",
    Option(metavar="N", group=_TRAINING),
]
MinRounds = Annotated[
    int,
    AtLeast(0),
    """Rounds before ``patience`` counts. For trainings whose first rounds improve slowly; the best round is kept,
    whichever it is.""",
    Option(metavar="N", group=_TRAINING),
]
Smoothing = Annotated[
    int,
    AtLeast(1),
    """Rounds over which the metric is averaged. Each round is compared by the mean over itself and those before it; 1
    compares single rounds, which are noise where validation data are few.""",
    Option(metavar="N", group=_TRAINING),
]
StopOn = Annotated[
    str,
    OneOf(STOP_ON, "way to stop (stop_on)"),
    'Metric that compares rounds. It is the ``"first"`` one, or the ``"mean"`` of all.',
    Option(group=_TRAINING),
]
Metrics = Annotated[
    MetricLike | Sequence[MetricLike],
    """Metrics measured after every round. They are of the validation data: expressions, or functions (see
    :class:`Metric`); larger is better.""",
    Option(short="-m", metavar="LIST", group=_TRAINING),
]
Debias = Annotated[
    bool,
    """Whether clicks weigh by inverse propensities. This holds for objectives that take ``document_weights``, and for
    validation data that have propensities.""",
    Option(group=_TRAINING),
]
Constraints = Annotated[
    Mapping[str, float] | None,
    """Goals that metrics must reach in validation. They are given by metric, ``{"ndcg(label=purchase)@10": 0.62}``, and
    reached where the lower bound of the metric (95%, one-sided) on the validation data is not below. The objective is
    also trained on these labels, as much as the goals need, and the best of the rounds that reach them is kept, or the
    nearest, with a warning.""",
    Option(name="constraint", metavar="METRIC=GOAL", group=_TRAINING),
]
Seed = Annotated[int, AtLeast(0), "Seed of every draw.", Option(metavar="N", group=_RUNNING)]
Threads = Annotated[
    int | None,
    Within(1, MOST),
    Unset("RANKWISE_THREADS, or every core"),
    "Number of threads. Models repeat exactly for the same number.",
    Option(metavar="N", group=_RUNNING),
]
Checkpoint = Annotated[
    str | Path | None,
    """Folder of the checkpoint. It is written every ``checkpoint_every`` rounds, and ``fit(…, resume=True)`` resumes
    from it.""",
    Option(metavar="DIR", group=_RUNNING),
]
CheckpointEvery = Annotated[
    int, AtLeast(1), "Number of rounds between checkpoints.", Option(metavar="N", group=_RUNNING)
]
Progress = Annotated[
    bool | None,
    Unset("on terminals"),
    "Whether to show a bar with the time left and the metric; None shows it on terminals only.",
    Option(group=_RUNNING),
]
Device = Annotated[
    str,
    """Device of torch. ``"auto"`` is a GPU if there is one; others are ``"cpu"``, ``"cuda"`` and whatever torch
    knows.""",
    Option(metavar="DEVICE", group=_RUNNING),
]
Folds = Annotated[
    int,
    AtLeast(2),
    """Number of parts into which queries fall, by their ids and the seed: those of :func:`rw.cross_validate
    <rankwise.model_selection.cross_validate.cross_validate>`.""",
    Option(metavar="N", group=_TRAINING),
]
Repeats = Annotated[
    int,
    AtLeast(1),
    "How often queries are split into folds, with other folds each time; there are ``folds × repeats`` members.",
    Option(metavar="N", group=_TRAINING),
]
Processes = Annotated[
    int, AtLeast(1), "Processes that train members side by side.", Option(metavar="N", group=_RUNNING)
]
Dask = Annotated[
    str | None, "Address of a Dask cluster that trains members.", Option(metavar="ADDRESS", group=_RUNNING)
]
