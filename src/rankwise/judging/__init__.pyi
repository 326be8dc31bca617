from .agreement import Agreement as Agreement
from .agreement import agreement as agreement
