"""From a click log to a decision: examine the log, estimate position bias, train on clicks, and ask whether to ship.

python examples/clicks_to_ranker.py [LETOR_FILE]

The log is simulated on judged data, so that the end can be compared with the truth: users look at positions as those of
Baidu's search did (adjacent-chain estimates of Baidu-ULTR), and click what is relevant, or by mistake. Your own log is
a table with one row for each document shown: rw.clicks.read("log.parquet", query="text", document="sku", …).
"""

import sys

import numpy as np

import rankwise as rw

CURVE = [1.0, 0.684, 0.445, 0.321, 0.223, 0.177, 0.136, 0.117, 0.083, 0.049]
CHANCES = (0.05, 0.3, 0.5, 0.7, 0.95)  # of a click on what is seen, by grade
SETTINGS = {"learning_rate": 0.1, "leaves": 15, "threads": 1}

judged = rw.read_letor(sys.argv[1]) if sys.argv[1:] else rw.synthetic(n_queries=500, n_features=20, n_docs=20, seed=1)
ids = np.arange(judged.n_docs) if judged.document_ids is None else judged.document_ids
judged = judged.with_(document_ids=ids)
few, shown, test = rw.split(judged, (0.05, 0.75, 0.2), seed=0)

# Production was trained on a few judged queries; two others were tried on parts of the traffic.
names = ("production", "second", "third")
halves = rw.split(few, (0.5, 0.5), seed=1)
rankers = [rw.LightGBMRanker("xendcg", rounds=20, **SETTINGS).fit(part) for part in (few, *halves)]
scores = {name: ranker.predict(shown) for name, ranker in zip(names, rankers, strict=True)}
log = rw.clicks.simulate(shown, rankers=scores, curve=CURVE, probabilities=CHANCES, impressions=100, seed=1)

print(log.examine())
bias = rw.clicks.propensities(log)
print(bias.table().text())
print(bias.check(log).sentence)

# Some queries train a new ranker, the others say whether to ship it.
training, held_out = rw.clicks.split(log, 0.4, seed=0)
targets = rw.clicks.targets(training, shown, bias)
new = rw.LightGBMRanker("plrank", rounds=100, **SETTINGS).fit(targets)
systems = {"new": new, "production": rankers[0]}
print(rw.clicks.compare(systems, held_out, bias, shown))

print("\nWhat no log says, the judgements of other queries:")
print(rw.compare(systems, test, ["ndcg@10"], baseline="production"))
