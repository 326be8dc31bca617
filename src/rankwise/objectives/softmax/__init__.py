"""The softmax family: cross entropy between the softmax of scores and a target."""
