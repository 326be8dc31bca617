"""Who is ahead, how surely, and whether the paper says so."""
