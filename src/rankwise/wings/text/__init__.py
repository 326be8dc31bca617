"""From texts to a ranking: documents, candidates, features, data sets."""
