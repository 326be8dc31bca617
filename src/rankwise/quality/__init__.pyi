from . import features as features
from . import findings as findings
from . import leakage as leakage
