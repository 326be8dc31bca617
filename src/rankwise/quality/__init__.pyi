from rankwise.quality.parts import warn_shared as warn_shared

from . import features as features
from . import findings as findings
from . import leakage as leakage
