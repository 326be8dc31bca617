"""Pairwise losses: any loss of a pair with any weight of a pair, and YetiLoss."""
