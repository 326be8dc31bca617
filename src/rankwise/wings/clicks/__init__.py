"""From a click log to a ranker that may be shipped."""
