from ._version import __version__ as __version__
from .data.catalog import datasets as datasets
from .data.dataset import RankingDataset as RankingDataset
from .data.dataset import concatenate as concatenate
from .data.load import load_dataset as load_dataset
from .stream import Stream as Stream
from .threads import use_threads as use_threads
