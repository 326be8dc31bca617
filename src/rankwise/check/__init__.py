"""Input checks, and the errors about input: what is wrong, what was found, where, and a hint.

Checks return the value in the form that the rest of the package works with: ``labels = check.labels(labels, offsets)``.
"""

# ruff: noqa: F403 (the names of this package are those of its modules)
from rankwise.check.documents import *
from rankwise.check.errors import *
from rankwise.check.matrix import *
from rankwise.check.message import *
from rankwise.check.queries import *
from rankwise.check.settings import *
