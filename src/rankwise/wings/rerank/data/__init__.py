"""Lists of texts and where they come from; nothing here needs torch or sentence-transformers."""
