from .bias import Bias as Bias
from .bias import read_bias as read_bias
from .log import Log as Log
from .log import Sessions as Sessions
from .propensities import propensities as propensities
