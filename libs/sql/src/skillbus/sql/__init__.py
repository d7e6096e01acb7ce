"""SQLite and PostgreSQL for the services that keep records."""
