from rankwise.check import MissingExtraError as MissingExtraError
from rankwise.check.errors import InputError as InputError
from rankwise.cluster.crew import LostWorkerError as LostWorkerError
from rankwise.rankers.training.stopping import NothingLearnedError as NothingLearnedError
