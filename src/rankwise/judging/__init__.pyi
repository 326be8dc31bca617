from .plan import Plan as Plan
from .plan import plan as plan
