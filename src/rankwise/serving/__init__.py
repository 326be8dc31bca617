"""Taking a model to where it serves: other systems' files, each read back by its own reader."""
