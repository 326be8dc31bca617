"""Device kernels: the objectives' own numbers, computed by Triton over ragged lists where the scores lie."""
