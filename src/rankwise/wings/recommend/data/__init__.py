"""Users and the items they rated."""
