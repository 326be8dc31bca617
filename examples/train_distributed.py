"""Train a net on several processes or GPUs, one for each.

torchrun --nproc-per-node 2 examples/train_distributed.py train.txt valid.txt model
"""

import os
import sys

import rankwise as rw


def main(train: str, valid: str, folder: str) -> None:
    """Read, train and save; the first process alone says and writes anything."""
    ranker = rw.NeuralRanker(
        "stochastic(approx_ndcg)", batch_queries=64, checkpoint=f"{folder}.run", checkpoint_every=5
    )
    ranker.fit(rw.read_data(train), rw.read_data(valid), resume=True)
    if os.environ.get("RANK", "0") == "0":
        print(f"ndcg@10 {ranker.score(rw.read_data(valid)):.4f} after epoch {ranker.best_round_}")
        ranker.save(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
