"""Training on a cluster: blocks of rounds, between which the client has the model.

Workers hold whole queries and grow the same trees together, through the library's own network; gradients are ours, and
keyed by query id, so that they do not depend on where a query lies. Training goes in blocks of ``checkpoint_every``
rounds. Between blocks the client measures the validation data, writes the checkpoint, and stops.
"""

import functools
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from rankwise import RankingDataset, check
from rankwise.base.arrays import Keywords
from rankwise.objectives.base import base_score, goal_totals, level_totals
from rankwise.quality import findings, leakage
from rankwise.rankers import TreeRanker, fit_arguments
from rankwise.rankers.training import Callback, TrainingData, TrainingSettings, run
from rankwise.wings.cluster.backend import ClusterBackend
from rankwise.wings.cluster.learner import ClusterLearner, measured
from rankwise.wings.cluster.network import NETWORKS
from rankwise.wings.cluster.partitions import distribute

Tree = TypeVar("Tree", bound=TreeRanker)

# Arguments of ``fit`` on every cluster.
Data = Annotated[
    Any,
    """A Parquet file or folder that every worker can read, or a data frame of the cluster (Dask's DataFrame, Ray's
    Dataset). Queries may lie across files or partitions: they are put together, and a warning says how many were.""",
]
Valid = Annotated[
    Any,
    """Validation data, which stay with the caller: a RankingDataset, a Parquet file or folder, or a data frame of the
    cluster.""",
]
InitModel = Annotated[Any, "As in ``fit`` of the ranker, which continues that model."]
Resume = Annotated[
    bool, "Resume from the ranker's ``checkpoint``, if there is one; the number of workers may be another."
]
Timeout = Annotated[
    float,
    """Seconds for workers to start and to find each other, and to wait for one, or for the scheduler, that no longer
    answers (5 at least; Ray's start takes 60 at least). A worker that dies is noticed within seconds. Either is a
    ``LostWorkerError``.""",
]
OnRound = Annotated[
    Callback | None, "Called after every round, block by block, with its number and the history so far."
]


def check_ranker(ranker: TreeRanker, timeout: float) -> None:
    """Raise if a ranker does not train on clusters."""
    if ranker.name not in NETWORKS:
        hint = "use LightGBMRanker or XGBoostRanker"
        raise check.error("only LightGBM and XGBoost train on a cluster", got=ranker.name, hint=hint)
    if ranker.transform is not None:
        hint = "train it on one machine, or without `transform`"
        raise check.error("no transform of features is made on a cluster", got=ranker.transform, hint=hint)
    check.number("timeout", timeout, least=0.0, open_ends=True)


def train(
    backend: ClusterBackend,
    ranker: Tree,
    data: Any,
    *,
    valid: Any,
    init_model: Any,
    resume: bool,
    callback: Callback | None,
    columns: Keywords,
) -> Tree:
    """Train a ranker on the workers of a cluster, and return it trained."""
    held_out = _validation(backend, valid, columns)
    older = None if init_model is None else ranker.older(init_model)
    schema = None if older is None else older.model_.schema
    with backend.alone():
        parts = distribute(backend, data, columns, schema)
        if parts.partitions.moved_queries:
            warnings.warn(
                f"{parts.partitions}. Write whole queries to each partition to spare this", UserWarning, stacklevel=4
            )
        with leakage.checked():  # features stay on the workers; ids are known here
            sample, held_out = fit_arguments.parts(parts.sample, held_out, valid=None, older=schema)
        if held_out is not None:
            ids = {"train": parts.query_ids, "valid": held_out.query_ids}
            by_part = {name: leakage.Queries(leakage.unless_numbers(one), None) for name, one in ids.items()}
            findings.warn(findings.shared_queries(by_part))
        if sample.feature_names != parts.sample.feature_names:
            got, hint = "the same columns in another order", "name them in the older model's order with features=[…]"
            raise check.error("a model is continued on its own columns", got=got, hint=hint)

        def make(data: TrainingData, settings: TrainingSettings) -> ClusterLearner:
            objective = settings.objective
            if objective is not None and objective.couples_queries:
                hint = "train it on one machine"
                raise check.error(f"{objective!r} needs all queries at once, and a worker has some", hint=hint)
            settings = replace(settings, metrics=(), callback=None)  # which stay with the client
            if objective is not None and objective.log_odds:
                settings = replace(settings, base_score=base_score(measured(level_totals, parts, settings, objective)))
            local = ranker.learner(data, settings)
            if refusal := local.library.refusal(local.settings, stopping=True, checkpoints=True):
                raise check.error(f"{type(ranker).__name__} cannot be trained so on a cluster", got=refusal.reason)
            return ClusterLearner(
                library=local.library,
                settings=local.settings,
                train=local.train,
                held_out=local.held_out,
                start=local.start,
                before=local.before,
                ranker=ranker.__sklearn_clone__(),
                settled=settings,
                parts=parts,
                block=check.integer("checkpoint_every", settings.checkpoint_every, least=1),
            )

        settings = TrainingSettings.of(ranker, resume=resume, callback=callback)
        training = TrainingData(
            train=sample,
            valid=held_out,
            older=older,
            digest=parts.digest,
            documents=parts.partitions.documents,
            totals=functools.partial(measured, goal_totals, parts, replace(settings, callback=None)),
        )
        run.train(ranker, training, settings, make)
    ranker.partitions_ = parts.partitions
    return ranker


def _validation(backend: ClusterBackend, valid: Any, columns: Keywords) -> RankingDataset | None:
    if isinstance(valid, str | Path):
        from rankwise import read_parquet

        return read_parquet(valid, **columns)
    frame = backend.collect(valid)
    if frame is not None:
        return RankingDataset.from_frame(frame, sort=True, **columns).without_rows()
    return None if valid is None else fit_arguments.validation(valid)
