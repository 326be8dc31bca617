"""Is the data all right? Leakage, data checks, learning curves, skew between training and service."""
