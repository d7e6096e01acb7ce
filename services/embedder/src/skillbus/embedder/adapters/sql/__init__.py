"""SQL storage of the registry: SQLite or PostgreSQL."""
