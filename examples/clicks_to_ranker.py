"""From a log of clicks to a ranker that does not repeat what users happened to see: debiased by propensities.

python examples/clicks_to_ranker.py

The log is simulated here: users look at rank r with probability 1/r and click what they find relevant, or by mistake.
Your own log is a table with one row per document shown: query, label (clicked or not), features, and the probability
that its place was looked at: rw.read_parquet("log.parquet", propensity="propensity").
"""

import rankwise as rw

SETTINGS = {"rounds": 150, "leaves": 15, "seed": 0, "threads": 1}

# What is judged is used to test alone: a click log has no judgements.
judged = rw.synthetic(n_queries=600, n_features=20, n_docs=20, seed=1)
*shown, test = rw.split(judged, (0.56, 0.14, 0.3), seed=0)

# The old ranker is a single feature: what it put first was seen, and clicked, more often.
# Impressions of a query are alike, so that queries are split, and not impressions.
train, valid = (
    rw.simulate_clicks(part, model="position", ranker=part.features[:, 3], impressions=10, seed=1) for part in shown
)
print(train, valid, sep="\n")

clicks_as_they_are = rw.LightGBMRanker("lambdarank", **SETTINGS).fit(train, valid)
debiased = rw.LightGBMRanker("lambdarank", debias=True, **SETTINGS).fit(train, valid)
print(rw.compare({"clicks as they are": clicks_as_they_are, "debiased": debiased}, test, ["ndcg@10"]))
