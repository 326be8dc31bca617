"""Training on a Ray cluster: ``rw.cluster.ray.fit(ranker, data, workers=4)``."""

from typing import Any

from rankwise import check, moved
from rankwise.rankers.training import Callback
from rankwise.wings.cluster.fit import Tree, check_ranker, train
from rankwise.wings.cluster.ray.actors import Actors, arrow_tables


@moved.renamed("rw.cluster.ray.fit")
def fit(
    ranker: Tree,
    data: Any,
    *,
    workers: int | None = None,
    valid: Any = None,
    init_model: Any = None,
    resume: bool = False,
    timeout: float = 300.0,
    callback: Callback | None = None,
    **columns: Any,
) -> Tree:
    """Train a LightGBMRanker or XGBoostRanker on actors of a Ray cluster, and return it trained.

    Blocks, checkpoints, whole queries and gradients are those of ``rw.cluster.dask.fit``.

    Args:
        ranker: With any objective. ``checkpoint_every`` says how many rounds are a block: after each the validation
            data are measured and the ``checkpoint``, if there is one, is written. ``threads`` are the CPUs of each
            actor; by default those of the cluster, divided by the number of actors.
        data: A Parquet file or folder that every node can read, or a Ray Dataset. Queries may lie across files or
            blocks: they are put together, and a warning says how many were.
        workers: The number of actors, which Ray spreads over the nodes; by default one for each node. They end with
            the training.
        valid: Validation data, which the driver holds: a RankingDataset, a Parquet file or folder, or a Ray Dataset.
        init_model: As in ``fit`` of the ranker, which continues that model.
        resume: Resume from the ranker's ``checkpoint``, if there is one; the number of workers may be another.
        timeout: Seconds for actors to start (60 at least), to find each other, and to wait for one that no longer
            answers (5 at least). An actor that dies is noticed within seconds. Either is a ``LostWorkerError``.
        callback: Called after every round, block by block, with its number and the history so far.
        **columns: Which column is what, as in :meth:`RankingDataset.from_frame`.

    ``ranker.partitions_`` says where the data were and what was moved. Everything else is as after ``ranker.fit``.
    """
    check.optional("ray", "ray")
    check_ranker(ranker, timeout)
    count = None if workers is None else check.integer("workers", workers, least=1)
    if hasattr(data, "to_arrow_refs"):
        data = arrow_tables(data)  # before actors take the CPUs
    crew = Actors(count, threads=ranker.threads, timeout=timeout)
    return train(
        crew, ranker, data, valid=valid, init_model=init_model, resume=resume, callback=callback, columns=columns
    )
