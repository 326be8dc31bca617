from .data.lists import Lists as Lists
from .data.read import read as read
from .data.read import write as write
from .data.trec import read_beir as read_beir
from .data.trec import read_trec as read_trec
from .loss import Loss as Loss
from .passes import two_passes as two_passes
from .reranker import Reranker as Reranker
