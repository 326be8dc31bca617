from .examination import Examination as Examination
from .examination import LogFinding as LogFinding
from .log import Log as Log
from .log import Sessions as Sessions
from .reading import read as read
from .ubi import read_ubi as read_ubi
