"""Click models: estimation and simulated logs."""
