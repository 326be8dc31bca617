from .bias import Bias as Bias
from .bias import read_bias as read_bias
from .log import Log as Log
from .log import Sessions as Sessions
from .simulation import Users as Users
from .simulation import simulate as simulate
from .targets import Estimates as Estimates
from .targets import estimates as estimates
