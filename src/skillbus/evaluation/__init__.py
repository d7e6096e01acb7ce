"""Measures how well tools are found: requests of which it is known what fits, put to the real search."""
