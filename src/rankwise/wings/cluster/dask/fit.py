"""Training on a Dask cluster: ``rw.cluster.dask.fit(ranker, data, client=client)``."""

from typing import Annotated, Any

from rankwise import check, moved
from rankwise.check.docstrings import documented
from rankwise.wings.cluster.dask.workers import Client, Workers
from rankwise.wings.cluster.fit import Data, InitModel, OnRound, Resume, Timeout, Tree, Valid, check_ranker, train


@moved.renamed("rw.cluster.dask.fit")
@documented
def fit(
    ranker: Tree,
    data: Data,
    *,
    client: Annotated[Client | None, "The ``distributed.Client``; by default the current one."] = None,
    valid: Valid = None,
    init_model: InitModel = None,
    resume: Resume = False,
    timeout: Timeout = 300.0,
    callback: OnRound = None,
    **columns: Any,
) -> Tree:
    """Train a LightGBMRanker or XGBoostRanker on the workers of a Dask cluster, and return it trained.

    Any objective will do. The ranker's ``checkpoint_every`` says how many rounds are a block: after each the validation
    data are measured and the ``checkpoint``, if there is one, is written. ``threads`` are those of each worker; by
    default as many as Dask gave it.

    ``columns`` say which column is what, as in :meth:`RankingDataset.from_frame`: ``query="qid", label="label",
    features=…, weight=…`` ….

    ``ranker.partitions_`` says where the data were and what was moved. Everything else is as after ``ranker.fit``.
    """
    check.optional("distributed", "dask")
    check_ranker(ranker, timeout)
    crew = Workers(_client(client), timeout=timeout)
    return train(
        crew, ranker, data, valid=valid, init_model=init_model, resume=resume, callback=callback, columns=columns
    )


def _client(client: Client | None) -> Client:
    import distributed

    if client is None:
        try:
            client = distributed.get_client()
        except ValueError:
            raise check.error(
                "there is no Dask cluster", hint="make a client: client = distributed.Client(address)"
            ) from None
    if not isinstance(client, distributed.Client) or client.asynchronous:
        got = type(client).__name__ + (" that is asynchronous" if isinstance(client, distributed.Client) else "")
        raise check.error("client must be a distributed.Client", got=got)
    return client
