"""SQLite and PostgreSQL databases for the services that keep records."""
