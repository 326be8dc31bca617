from rankwise.quality.feature_log import SUFFIXES as SUFFIXES

from . import findings as findings
from . import leakage as leakage
