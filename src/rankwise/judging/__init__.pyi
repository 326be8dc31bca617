from .agreement import Agreement as Agreement
from .agreement import agreement as agreement
from .betting import traffic as traffic
from .interleave import Interleaved as Interleaved
from .interleaving import Interleaving as Interleaving
from .plan import Plan as Plan
from .plan import plan as plan
