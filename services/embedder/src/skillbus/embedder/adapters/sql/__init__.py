"""The registry in a SQL database: SQLite or PostgreSQL."""
