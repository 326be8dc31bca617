"""Reports: one HTML page that explains itself, and every figure and table of it as files."""
