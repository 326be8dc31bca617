"""The five papers: what they published, what they claim, and the experiments that repeat theirs."""
