"""Training of any module of torch: epochs, batches of whole queries, processes."""
