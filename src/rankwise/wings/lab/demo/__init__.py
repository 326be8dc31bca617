"""A demonstration that needs no data and no settings: what ``rankwise demo`` runs."""
