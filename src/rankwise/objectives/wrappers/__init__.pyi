from rankwise.objectives.fastmath import sigmoid as sigmoid
from rankwise.objectives.prepared import PerQuery as PerQuery
from rankwise.objectives.prepared import checked_lists as checked_lists
from rankwise.objectives.prepared import mapped as mapped
from rankwise.objectives.ragged import RaggedLists as RaggedLists
from rankwise.objectives.ragged import Values as Values
from rankwise.objectives.wrappers.base import Wrapper as Wrapper
