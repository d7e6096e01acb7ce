"""Connections to the outside on behalf of callers: which addresses, and which secrets go where."""
