"""What was learned: models that score documents, explain their scores, and are files; they know nothing of training."""
