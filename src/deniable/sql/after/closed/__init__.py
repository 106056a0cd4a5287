"""A DuckDB that holds released tables and reaches nothing else: in this process, or in one of its own."""
