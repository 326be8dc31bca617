"""Everything that opens a file or a URL."""
