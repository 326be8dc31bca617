"""From a script with LGBMRanker to ours: the old model is kept and compared, the new one is trained beside it.

python examples/from_lightgbm.py
"""

import lightgbm as lgb

import rankwise as rw

# The script as it was: a table of features, labels, and how many rows each query has.
train, valid, test = rw.split(rw.synthetic(n_queries=500, n_features=20, n_docs=30, seed=1), (0.6, 0.2, 0.2), seed=0)
old = lgb.LGBMRanker(n_estimators=100, num_leaves=15, learning_rate=0.05, random_state=0, n_jobs=1, verbose=-1)
old.fit(train.features, train.labels.astype(int), group=train.sizes)

# The same with another objective, stopped where it is best on validation queries. LightGBM still trains, and its own
# parameters (extra_trees) keep their names.
new = rw.LightGBMRanker("xendcg", rounds=500, leaves=15, learning_rate=0.05, extra_trees=True, seed=0, threads=1)
new.fit(train, valid)

# Or one line of the old script: LGBMRanker(objective=rw.objectives.lightgbm_objective("xendcg"), …).
print(rw.compare({"LGBMRanker": old, "rankwise": new}, test, ["ndcg@5", "ndcg@10"], baseline="LGBMRanker"))

# What the old model ranks first, and why, with the tools of the new one; it can be saved, exported and served too.
wrapped = rw.wrap(old)
print("five most important features of the old model:", wrapped.feature_importances_.argsort()[::-1][:5].tolist())
