"""Settings of a factorization that belong together."""

from typing import Final

from rankwise.arrays import Keywords

FULL_CATALOGUE: Final[Keywords] = {
    "objective": "weighted(softmax_ce, by=relevant, power=0.5)",
    "factors": 64,
    "initial": 0.1,
    "learning_rate": 0.03,
    "regularization": 0.6,
    "batch_users": 128,
    "negatives": "all",
    "epochs": 30,
    "patience": None,
}
"""To find a few items among all: every item that is not relevant counts, and long vectors are held short.

Chosen on validation data of MovieLens latest-small, on splits with three seeds: see ``docs/recommend.md``. Without
regularization a vector for each of a few hundred users fits them by heart. The square root of how many items a user
likes, as the weight of the user, lies between all users counting alike and all their items doing so.
"""
