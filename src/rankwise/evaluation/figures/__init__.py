"""The plots that several rooms share."""
