"""Texts of failures: their causes, places in the code, signatures and quotes."""
