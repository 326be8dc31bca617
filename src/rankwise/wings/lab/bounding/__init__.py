"""Metric bounding (Westerborg 2022) and the bounds of softmax cross entropy."""
