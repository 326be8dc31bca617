"""Lists on a GPU: the arithmetic of ``rankwise.objectives.lists`` for torch tensors, in Triton."""
