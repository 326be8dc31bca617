from rankwise.quality.feature_log import SUFFIXES as SUFFIXES

from . import leakage as leakage
