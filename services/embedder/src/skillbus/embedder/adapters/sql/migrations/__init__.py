"""Alembic migrations of the registry's tables."""
