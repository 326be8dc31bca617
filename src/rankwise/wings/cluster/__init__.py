"""Training on the workers of a Dask, Ray or Spark cluster."""

from rankwise.base import hooks

hooks.register("executors of members", "dask", f"{__name__}.dask.bag", "on_cluster")
hooks.register("executor", "dask", f"{__name__}.dask.workers", "executor")
