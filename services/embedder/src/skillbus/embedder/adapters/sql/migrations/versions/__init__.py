"""One module per migration; Alembic passes each the operations to use."""
