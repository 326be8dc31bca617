"""A search in service: Tantivy finds candidates, a bag ranks them, and `rankwise serve` scores over HTTP.

python examples/search_service.py

Needs pip install 'rankwise[text,serve]'. The texts are the documentation of NumPy and SciPy.
"""

import json
import subprocess
import sys
import urllib.request

import numpy as np

import rankwise as rw

texts = rw.text.numpy_scipy()
pages = rw.text.Documents(texts.documents, fields=("name", "module", "summary", "text"))
engine = rw.text.engines.Tantivy.index(pages, "pages.tantivy", force=True)  # words on disk, for any number of pages


def candidates(queries):
    """The first 50 other pages of each query."""
    run = engine.search(queries, k=51)
    return {"tantivy": run.filter(run["query"] != run["document"])}


queries = dict(list(texts.queries.items())[::3])
data = rw.text.dataset(pages, queries, candidates(queries), texts.qrels, unjudged="irrelevant", depth=50)
train, test = rw.split(data, (0.7, 0.3), seed=0)
model = rw.bagged(rw.LightGBMRanker("xendcg", rounds=60, leaves=15, threads=1), folds=3).fit(train)
tantivy = test.features[:, data.feature_names.index("score(tantivy)")]
print(rw.compare({"Tantivy": tantivy, "bag": model}, test, ["ndcg@10"]))
model.save("bag.rw", force=True)

asked = {"numpy.median": texts.queries["numpy.median"]}
lists = rw.text.dataset(pages, asked, candidates(asked), depth=50)  # the features of training, for a new query
command = [sys.executable, "-m", "rankwise", "serve", "bag.rw", "--port", "0"]  # 0: a free port
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
    address = service.stdout.readline().split()[-1]
    rows = [[None if value != value else value for value in row] for row in lists.features.tolist()]  # NaN is no JSON
    body = json.dumps({"features": lists.feature_names, "rows": rows}).encode()
    try:
        with urllib.request.urlopen(f"{address}/score", body, timeout=60) as response:
            ranks = json.load(response)["ranks"]
    finally:
        service.terminate()
print("beside numpy.median:", lists.document_ids[np.argsort(ranks)[:5]].tolist())
