"""Few labels: plans, agreement, interleaving."""
