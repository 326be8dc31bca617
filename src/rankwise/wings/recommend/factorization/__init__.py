"""Matrix factorization, and what it is compared with."""
