"""Click logs: reading, sessions, and what a log can identify."""
