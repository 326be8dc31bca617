"""Training on a Ray cluster: ``rw.cluster.ray.fit(ranker, data, workers=4)``."""

from typing import Annotated, Any

from rankwise import check, moved
from rankwise.check.docstrings import documented
from rankwise.wings.cluster.fit import Data, InitModel, OnRound, Resume, Timeout, Tree, Valid, check_ranker, train
from rankwise.wings.cluster.ray.actors import Actors, arrow_tables


@moved.renamed("rw.cluster.ray.fit")
@documented
def fit(
    ranker: Tree,
    data: Data,
    *,
    workers: Annotated[
        int | None,
        """The number of actors, which Ray spreads over the nodes; by default one for each node. They end with the
        training.""",
    ] = None,
    valid: Valid = None,
    init_model: InitModel = None,
    resume: Resume = False,
    timeout: Timeout = 300.0,
    callback: OnRound = None,
    **columns: Any,
) -> Tree:
    """Train a LightGBMRanker or XGBoostRanker on actors of a Ray cluster, and return it trained.

    Blocks, checkpoints, whole queries and gradients are those of ``rw.cluster.dask.fit``. The ranker's ``threads`` are
    the CPUs of each actor; by default those of the cluster, divided by the number of actors.

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
