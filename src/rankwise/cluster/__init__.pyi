from rankwise.cluster.backend import LostWorkerError as LostWorkerError

from . import dask as dask
from . import ray as ray
from . import spark as spark
