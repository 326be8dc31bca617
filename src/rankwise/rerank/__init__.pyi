from .lists import Lists as Lists
from .loss import Loss as Loss
from .passes import two_passes as two_passes
from .read import read as read
from .read import write as write
from .reranker import Reranker as Reranker
from .trec import read_beir as read_beir
from .trec import read_trec as read_trec
