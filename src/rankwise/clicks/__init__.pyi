from .log import Log as Log
from .log import Sessions as Sessions
from .simulation import Users as Users
from .simulation import simulate as simulate
