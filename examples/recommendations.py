"""From a table of ratings to recommendations: the recommender that is best on held-out ratings, and a top ten.

python examples/recommendations.py                 on ratings made here
python examples/recommendations.py ratings.csv     on a table of your own: user, item, rating

The same without Python: rankwise recommend ratings.csv -o top10.csv
"""

import sys

import rankwise as rw

ratings = (
    rw.recommend.Interactions.read(sys.argv[1])
    if len(sys.argv) > 1
    else rw.recommend.synthetic_ratings(n_users=200, seed=1)
)
print(ratings)

# What is chosen is chosen on validation ratings; the test says what to expect of it.
train, valid, test = ratings.split((0.7, 0.15, 0.15), seed=0, spare_held_out=False)
candidates = {
    "popularity": rw.recommend.Popularity(),
    "EASE": rw.recommend.EASE(),
    "ALS": rw.recommend.ALS(factors=32, seed=0),
    "item neighbours": rw.recommend.ItemKNN(),
}
found = {
    name: rw.recommend.evaluate_interactions(model.fit(train), valid, ["ndcg@10"], exclude=train).mean["ndcg@10"]
    for name, model in candidates.items()
}
for name, value in sorted(found.items(), key=lambda item: -item[1]):
    print(f"{name:16} NDCG@10 {value:.4f} on validation")

best = max(found, key=found.__getitem__)
print(rw.recommend.evaluate_interactions(candidates[best], test, ["ndcg@10", "recall@20"], exclude=train))
print(best, "recommends:")
print(candidates[best].recommend(train.users[:2], cutoff=5))
