"""How good a ranking is: NDCG and its relatives, with gains, ties and empty queries said out loud."""
