from .examination import Examination as Examination
from .findings import LogFinding as LogFinding
from .log import Log as Log
from .reading import read as read
from .sessions import Sessions as Sessions
from .ubi import read_ubi as read_ubi
