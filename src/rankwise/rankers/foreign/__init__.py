"""Models that other libraries trained: read into rankers of ours, or scored through their own methods."""
