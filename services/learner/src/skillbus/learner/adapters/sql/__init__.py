"""The knowledge base in a SQL database: SQLite or PostgreSQL."""
