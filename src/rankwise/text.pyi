from rankwise.wings.text.analyzer import Analyzer as Analyzer
from rankwise.wings.text.cascade import cascade as cascade
from rankwise.wings.text.dataset import dataset as dataset
from rankwise.wings.text.documents import Bm25 as Bm25
from rankwise.wings.text.documents import Documents as Documents
from rankwise.wings.text.numpy_scipy import Pages as Pages
from rankwise.wings.text.numpy_scipy import numpy_scipy as numpy_scipy
