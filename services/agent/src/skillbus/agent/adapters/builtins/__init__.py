"""Adapters of the builtin tools."""
