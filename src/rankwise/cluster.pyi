from rankwise.wings.cluster import dask as dask
from rankwise.wings.cluster import ray as ray
from rankwise.wings.cluster import spark as spark
from rankwise.wings.cluster.backend import LostWorkerError as LostWorkerError
