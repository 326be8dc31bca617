from .log import Log as Log
from .log import Sessions as Sessions
from .targets import Estimates as Estimates
from .targets import estimates as estimates
from .targets import targets as targets
