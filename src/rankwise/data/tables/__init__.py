"""Tables: any frame as columns, and Parquet files."""
