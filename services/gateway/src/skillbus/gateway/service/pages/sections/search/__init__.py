"""Pages of searches under a lamp."""
