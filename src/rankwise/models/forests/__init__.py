"""Boosted trees as models, whichever library grew them: one module for each library, which it imports when used."""
