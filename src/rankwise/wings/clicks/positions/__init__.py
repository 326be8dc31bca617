"""Position bias: curves of examination and trust, and their check."""
