"""The linear ranker: weights of features by L-BFGS, at a penalty that is given or chosen."""
