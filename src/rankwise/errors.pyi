from rankwise.check.errors import InputError as InputError
from rankwise.check.settings import MissingExtraError as MissingExtraError
from rankwise.rankers.training.stopping import NothingLearnedError as NothingLearnedError
from rankwise.rankers.training.stopping import StopTraining as StopTraining
from rankwise.wings.cluster.backend import LostWorkerError as LostWorkerError
