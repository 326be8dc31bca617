"""The plots that several parts of the package share."""
