"""Networks trained with torch."""
