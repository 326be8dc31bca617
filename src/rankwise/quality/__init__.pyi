from rankwise.quality.feature_log import SUFFIXES as SUFFIXES
from rankwise.quality.parts import warn_shared as warn_shared

from . import findings as findings
from . import leakage as leakage
